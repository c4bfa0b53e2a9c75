"""What the driver says a GPU's link carried in the last 20 ms, asked without a pause.

The old way, for GPUs whose bytes the driver does not count. Bursts are seen as means over
20 ms, and each direction has windows of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lanescope._core import native
from lanescope.machine import Gpu, Machine
from lanescope.trace.counter_spool import RX, TX, counter_header
from lanescope.watching.sources.base import Availability, SourceReport
from lanescope.watching.sources.common import finish, refusal, together, tried, unusable, uuid_of

#: The driver's window, which each call waits for.
WINDOW_NS = 20_000_000

#: Ends of the spools' names, the column of each, and the direction as seen from the GPU.
_DIRECTIONS = (
    ("rx", RX, native.Direction.received),
    ("tx", TX, native.Direction.sent),
)


class ThroughputSource:
    """Asks for both directions of one GPU's link, each in a thread of its own.

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

    def prepare(self) -> None:
        """Do nothing: the start takes no time."""

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
                header = counter_header(f"throughput-{end}", self.gpu.index, WINDOW_NS, [column])
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

    def environment(self) -> Mapping[str, str]:
        """Return nothing: the program need not know."""
        return {}
