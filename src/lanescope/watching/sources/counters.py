"""The driver's own counters of the bytes on GPUs' links, read again and again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from lanescope._core import native
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.trace.counter_spool import counter_header
from lanescope.trace.timeline import NVLINK
from lanescope.watching.sources.base import Availability, SourceReport
from lanescope.watching.sources.common import finish, refusal, together, tried, unusable, uuid_of

#: What is tried; a read costs 160 to 500 us of processor time, so that one GPU takes 16 to
#: 50 % of a core at this, and at 10 ms, which is short enough for the counters, a tenth of it.
DEFAULT_PERIOD_NS = 1_000_000
#: PCIe 6.0 x16: at this rate the counters begin anew every 34 ms.
MOST_BYTES_PER_SECOND = 128e9
#: The counters of NVLink, which have 64 bits and count KiB, need not be read so often.
NVLINK_PERIOD_NS = 10_000_000


class CountersSource:
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
        period_ns: int = DEFAULT_PERIOD_NS,
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

    def prepare(self) -> None:
        """Do nothing: the start takes no time."""

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
                targets, self.period_ns, MOST_BYTES_PER_SECOND, nvlinks, NVLINK_PERIOD_NS
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

    def environment(self) -> Mapping[str, str]:
        """Return nothing: the program need not know."""
        return {}

    def _nvlink_target(self, gpu: Gpu) -> tuple[str, str, str]:
        header = counter_header(self.name, gpu.index, NVLINK_PERIOD_NS, link=NVLINK)
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
