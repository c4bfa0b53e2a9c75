"""The driver's own counters of the bytes on GPUs' links, read again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from lanescope._core import native
from lanescope.machine import Gpu, Machine
from lanescope.watch.counter_spool import counter_header
from lanescope.watch.sources.base import Availability, SourceReport
from lanescope.watch.sources.common import finish, together, tried, unusable, uuid_of
from lanescope.watch.sources.refusals import refusal

#: What is tried; a read costs 160 to 500 us of processor time, so that one GPU takes 16 to
#: 50 % of a core at this, and at 10 ms, which is short enough for the counters, a tenth of it.
DEFAULT_PERIOD_NS = 1_000_000
#: PCIe 6.0 x16: at this rate the counters begin anew every 34 ms.
MOST_BYTES_PER_SECOND = 128e9


class CountersSource:
    """Reads the counters of GPUs, in turn, in one thread.

    Parameters
    ----------
    gpus
        Whose counters to read.
    folder
        Where the spools go: ``counters.g0.bin`` for GPU 0.
    period_ns
        From read to read; what was reached is in the spools.
    most_bytes_per_second
        No link of `gpus` is faster in one direction.
    """

    name = "counters"

    def __init__(
        self,
        gpus: Sequence[Gpu],
        folder: Path,
        *,
        period_ns: int = DEFAULT_PERIOD_NS,
        most_bytes_per_second: float = MOST_BYTES_PER_SECOND,
    ) -> None:
        self.gpus = tuple(gpus)
        self.period_ns = period_ns
        self._folder = folder
        self._most = most_bytes_per_second
        self._reader: native.NvmlCounters | None = None

    def spool(self, gpu: Gpu) -> Path:
        """Return the file of a GPU's records."""
        return self._folder / f"{self.name}.{gpu.id}.bin"

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        """Say whether the driver counts for every GPU; each is asked once."""
        for gpu in self.gpus:
            if (refused := unusable(machine, gpu)) is not None:
                return refused
            answer = tried(partial(_ask, gpu))
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
        try:
            self._reader = native.NvmlCounters(targets, self.period_ns, self._most)
            self._reader.start()
        except native.NativeError as error:
            self._reader = None
            raise refusal(error) from error

    def stop(self) -> SourceReport:
        """Read once more, and end."""
        if self._reader is None:
            return SourceReport()
        reader, self._reader = self._reader, None
        reports = zip(self.gpus, reader.stop(), strict=True)
        return together([finish(report, self.spool(gpu)) for gpu, report in reports])

    def environment(self) -> Mapping[str, str]:
        """Return nothing: the program need not know."""
        return {}


def _ask(gpu: Gpu) -> None:
    native.wire_counters(uuid_of(gpu))
