"""What the driver tells of GPUs' links: its counters of bytes, or the mean of the last 20 ms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from lanescope._core import native
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.trace.counter_spool import RX, TX, counter_header
from lanescope.trace.timeline import NVLINK
from lanescope.watching.sources import Availability, SourceReport
from lanescope.watching.sources.common import (
    OutsideSource,
    finish,
    refusal,
    together,
    tried,
    unusable,
    uuid_of,
)

#: What is tried; a read costs 160 to 500 us of processor time, so that one GPU takes 16 to
#: 50 % of a core at this, and at 10 ms, which is short enough for the counters, a tenth of it.
_DEFAULT_PERIOD_NS = 1_000_000
#: PCIe 6.0 x16: at this rate the counters begin anew every 34 ms.
_MOST_BYTES_PER_SECOND = 128e9
#: The counters of NVLink, which have 64 bits and count KiB, need not be read so often.
_NVLINK_PERIOD_NS = 10_000_000


class CountersSource(OutsideSource):
    """Reads the counters of GPUs, in turn, in one thread.

    Parameters
    ----------
    gpus
        Whose counters to read.
    folder
        Where the spools go: ``counters.g0.bin`` for GPU 0, ``counters-nvlink.g0.bin`` for its
        NVLinks.
    period_ns
        From read to read; what was reached is in the spools.
    most_bytes_per_second
        No link of `gpus` is faster in one direction.
    nvlinked
        Numbers of the GPUs that have active NVLinks: those are read, too, where the driver
        counts on them.
    """

    name = "counters"

    def __init__(
        self,
        gpus: Sequence[Gpu],
        folder: Path,
        *,
        period_ns: int = _DEFAULT_PERIOD_NS,
        nvlinked: Collection[int] = (),
    ) -> None:
        self.gpus = tuple(gpus)
        self.period_ns = period_ns
        self._folder = folder
        self._nvlinked = tuple(gpu for gpu in self.gpus if gpu.index in nvlinked)
        self._spools: tuple[Path, ...] = ()
        self._reader: native.NvmlCounters | None = None

    def spool(self, gpu: Gpu) -> Path:
        """Return the file of a GPU's records."""
        return self._folder / f"{self.name}.{gpu.id}.bin"

    def nvlink_spool(self, gpu: Gpu) -> Path:
        """Return the file of what the NVLinks of a GPU carry."""
        return self._folder / f"{self.name}-{NVLINK}.{gpu.id}.bin"

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        """Say whether the driver counts for every GPU; each is asked once."""
        for gpu in self.gpus:
            if (refused := unusable(machine, gpu)) is not None:
                return refused
            answer = tried(partial(_query, gpu))
            if not answer.ok:
                return answer
        return Availability(True) if self.gpus else Availability(False, "There is no GPU.")

    def start(self) -> None:
        """Begin to read.

        Raises
        ------
        NotMeasuredError
            If the driver does not count for one of the GPUs.
        """
        targets = [
            (uuid_of(g), str(self.spool(g)), counter_header(self.name, g.index, self.period_ns))
            for g in self.gpus
        ]
        nvlinks = [self._nvlink_target(g) for g in self._nvlinked if counts_nvlink(g)]
        self._spools = tuple(Path(path) for _, path, _ in (*targets, *nvlinks))
        try:
            self._reader = native.NvmlCounters(
                targets, self.period_ns, _MOST_BYTES_PER_SECOND, nvlinks, _NVLINK_PERIOD_NS
            )
            self._reader.start()
        except native.NativeError as error:
            self._reader = None
            raise refusal(error) from error

    def stop(self) -> SourceReport:
        """Read once more, and end."""
        if self._reader is None:
            return SourceReport()
        reader, self._reader = self._reader, None
        reports = zip(reader.stop(), self._spools, strict=True)
        return together([finish(report, spool) for report, spool in reports])

    def _nvlink_target(self, gpu: Gpu) -> tuple[str, str, str]:
        header = counter_header(self.name, gpu.index, _NVLINK_PERIOD_NS, link=NVLINK)
        return uuid_of(gpu), str(self.nvlink_spool(gpu)), header


def counts_nvlink(gpu: Gpu) -> bool:
    """Whether the driver counts what the NVLinks of a GPU carry; it is asked once."""
    try:
        native.nvlink_counters(uuid_of(gpu))
    except (native.NativeError, NotMeasuredError):
        return False
    return True


def _query(gpu: Gpu) -> None:
    native.wire_counters(uuid_of(gpu))


#: The driver's window, which each call waits for.
_THROUGHPUT_WINDOW_NS = 20_000_000

#: Ends of the spools' names, the column of each, and the direction as seen from the GPU.
_DIRECTIONS = (
    ("rx", RX, native.Direction.received),
    ("tx", TX, native.Direction.sent),
)


class ThroughputSource(OutsideSource):
    """Asks what one GPU's link carried in the last 20 ms, each direction in a thread of its own.

    The old way, for GPUs whose bytes the driver does not count. Bursts are seen as means over
    20 ms, and each direction has windows of its own.

    Parameters
    ----------
    folder
        Where the spools go: ``throughput-rx.g0.bin`` and ``throughput-tx.g0.bin`` for GPU 0;
        `merge_directions` makes one of both.
    """

    def __init__(self, gpu: Gpu, folder: Path) -> None:
        self.gpu = gpu
        self._folder = folder
        self._readers: list[tuple[Path, native.NvmlThroughput]] = []

    @property
    def name(self) -> str:
        """Such as ``throughput.g0``."""
        return f"throughput.{self.gpu.id}"

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        """Say whether the driver answers; it is asked once, which takes 20 ms."""
        if (refused := unusable(machine, self.gpu)) is not None:
            return refused
        return tried(lambda: native.link_throughput(uuid_of(self.gpu), native.Direction.received))

    def start(self) -> None:
        """Begin to ask.

        Raises
        ------
        NotMeasuredError
            If the driver does not answer.
        """
        uuid = uuid_of(self.gpu)
        try:
            for end, column, direction in _DIRECTIONS:
                spool = self._folder / f"throughput-{end}.{self.gpu.id}.bin"
                header = counter_header(
                    f"throughput-{end}", self.gpu.index, _THROUGHPUT_WINDOW_NS, [column]
                )
                reader = native.NvmlThroughput(uuid, direction, str(spool), header)
                self._readers.append((spool, reader))
        except native.NativeError as error:
            self._readers = []
            raise refusal(error) from error
        for _, reader in self._readers:
            reader.start()

    def stop(self) -> SourceReport:
        """End after the calls that are under way."""
        readers, self._readers = self._readers, []
        return together([finish(reader.stop(), spool) for spool, reader in readers])
