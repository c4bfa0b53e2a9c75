"""A copy is data: from a place, to a place, so many bytes, by an engine."""

from __future__ import annotations

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
