"""A copy is data: from a place, to a place, so many bytes, by an engine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lanescope.errors import InputError


class Memory(StrEnum):
    """Kind of memory that bytes live in."""

    PAGEABLE = "pageable"
    PINNED = "pinned"
    DEVICE = "device"


class Engine(StrEnum):
    """Who moves the bytes: a GPU's copy engine, or host threads."""

    CE = "ce"
    CPU = "cpu"


class Operation(StrEnum):
    """What is done to the bytes on the way.

    ``triad`` is STREAM's a = b + s * c and only for host threads.
    """

    COPY = "copy"
    TRIAD = "triad"


class Timing(StrEnum):
    """How an experiment is timed.

    ``gate``: GPU events behind a gate that opens when all is queued.
    ``host``: the host's clock around submission and completion, as the calling
    program sees it.
    """

    GATE = "gate"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Place:
    """Where bytes live: a part of the machine (``h0``, ``g1``) and a kind of memory."""

    part: str
    memory: Memory

    def __post_init__(self) -> None:
        if re.fullmatch(r"[hg][0-9]+", self.part) is None:
            raise InputError(
                f"{self.part!r} is no part of a machine; write h0 for NUMA node 0, g0 for GPU 0"
            )
        if self.is_host == (self.memory is Memory.DEVICE):
            raise InputError(
                f"{self.part} has no {self.memory} memory; NUMA nodes (h0) have pageable and "
                "pinned memory, GPUs (g0) have device memory"
            )

    @property
    def is_host(self) -> bool:
        """Whether the part is a NUMA node."""
        return self.part.startswith("h")

    @property
    def index(self) -> int:
        """Number of the NUMA node or GPU."""
        return int(self.part[1:])

    def __str__(self) -> str:
        return self.part if self.memory is Memory.DEVICE else f"{self.part} ({self.memory})"


@dataclass(frozen=True, slots=True)
class Copy:
    """One transfer.

    Attributes
    ----------
    source, destination
        Places. For ``triad`` both inputs live in `source`.
    bytes
        Size of one array, in bytes; a ``copy`` moves this many.
    engine
        Who moves them.
    operation
        ``copy``, or ``triad`` for host threads.
    cpus
        Where its threads are pinned: for ``cpu`` one thread for each entry,
        for ``ce`` the CPUs that the submitting thread may run on. Empty means
        that the backend chooses the cores next to the host memory.
    """

    source: Place
    destination: Place
    bytes: int
    engine: Engine
    operation: Operation = Operation.COPY
    cpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise InputError(f"a copy of {self.bytes} bytes cannot be measured; give 1 B or more")
        if self.engine is Engine.CPU:
            self._require_for_threads()
        elif self.operation is not Operation.COPY:
            raise InputError(f"a copy engine cannot do a {self.operation}; use Engine.CPU")
        elif self.source.is_host and self.destination.is_host:
            raise InputError(f"{self.path} has no GPU whose engine could copy; use Engine.CPU")

    def _require_for_threads(self) -> None:
        if {self.source.memory, self.destination.memory} != {Memory.PAGEABLE}:
            raise InputError(
                f"host threads copy between pageable memory of NUMA nodes, not {self.source} to "
                f"{self.destination}; use Engine.CE with a GPU"
            )

    @property
    def counted_bytes(self) -> int:
        """Bytes that count for bandwidth.

        A copy to, from or between GPUs counts its payload once. Host threads
        count as STREAM does, what they read and what they write: twice the
        array for ``copy``, three times for ``triad``.
        """
        if self.engine is Engine.CE:
            return self.bytes
        return self.bytes * (3 if self.operation is Operation.TRIAD else 2)

    @property
    def path(self) -> str:
        """The way in words, such as ``h0 → g1``."""
        return f"{self.source.part} → {self.destination.part}"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named set of copies that run at the same time.

    Attributes
    ----------
    name
        Unique within a run, such as ``h2d/g0``.
    title
        The same for people, such as ``host to device, GPU 0``.
    copies
        All of them are measured.
    timing
        See `Timing`.
    """

    name: str
    title: str
    copies: tuple[Copy, ...]
    timing: Timing = Timing.GATE

    def __post_init__(self) -> None:
        if not self.copies:
            raise InputError(f"experiment {self.name!r} has no copies; give it at least one")
        if len({copy.engine for copy in self.copies}) > 1:
            raise InputError(
                f"experiment {self.name!r} mixes engines, which no clock times together; "
                "give each an experiment of its own"
            )
        if self.copies[0].engine is Engine.CE:
            self._require_clock()

    def _require_clock(self) -> None:
        if self.timing is Timing.HOST and len(self.copies) > 1:
            raise InputError(
                f"experiment {self.name!r} times several GPU copies by the host's clock, which "
                "times one; use Timing.GATE"
            )
        memories = {p.memory for c in self.copies for p in (c.source, c.destination)}
        if self.timing is Timing.GATE and Memory.PAGEABLE in memories:
            raise InputError(
                f"experiment {self.name!r} copies pageable memory, which cannot wait behind the "
                "gate; use Timing.HOST"
            )
