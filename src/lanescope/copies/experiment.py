"""A named set of copies that run at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lanescope.calls import checked, shown
from lanescope.copies.copy import Copy, Engine, copies_text
from lanescope.copies.terms import ARRAYS, HOST_TIMED, Operation
from lanescope.errors import InputError

_WORD_BYTES = 8
#: A host thread keeps the order of a chase, a number for each place.
_ORDER_BYTES = 4


class Timing(StrEnum):
    """How an experiment is timed.

    ``gate``: on the GPU, behind a gate that opens when all is queued.
    ``host``: the host's clock around submission and completion, as the calling
    program sees it; a thread for each copy.
    ``processes``: as ``gate``, by a process for each GPU; they share memory of their GPUs.
    """

    GATE = "gate"
    HOST = "host"
    PROCESSES = "processes"


class Purpose(StrEnum):
    """What an experiment is for, and so which analysis it belongs to.

    ``path`` says how fast a path is, ``sweep`` is a size of a curve, ``small`` a cell of a map of
    small copies; the others are points of TARUC's micro-benchmarks of that name, ``sockets`` those
    of contention whose threads use the memory of another node.
    """

    PATH = "path"
    SWEEP = "sweep"
    SMALL = "small"
    OVERHEAD = "overhead"
    HOST = "host"
    HOSTDEV = "hostdev"
    PEER = "peer"
    NURMA = "nurma"
    CONTENTION = "contention"
    SOCKETS = "sockets"


@dataclass(frozen=True, slots=True)
@checked
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
    purpose
        See `Purpose`.
    """

    name: str
    title: str
    copies: tuple[Copy, ...]
    timing: Timing = Timing.GATE
    purpose: Purpose = Purpose.PATH

    def __post_init__(self) -> None:
        if not self.copies:
            raise InputError(f"experiment {shown(self.name)} has no copies; give it at least one")
        by_threads = {copy.engine is Engine.CPU for copy in self.copies}
        if len(by_threads) > 1:
            raise InputError(
                f"experiment {shown(self.name)} mixes host threads and GPU engines, which no clock "
                "times together; give each an experiment of its own"
            )
        latencies = [copy.operation for copy in self.copies if copy.operation.is_latency]
        # the stages in the life of one piece of memory follow each other
        if len(latencies) > 1 and not all(operation.is_of_memory for operation in latencies):
            raise InputError(
                f"experiment {shown(self.name)} holds several latencies, which would disturb each "
                "other; give each an experiment of its own"
            )
        if any(copy.engine is Engine.NCCL for copy in self.copies):
            self._require_for_nccl()
        if by_threads == {False} and self.timing is not Timing.HOST:
            self._require_gateable()

    @property
    def has_latency(self) -> bool:
        """Whether a latency is among the copies; the others are its load."""
        return any(copy.operation.is_latency for copy in self.copies)

    def _require_for_nccl(self) -> None:
        if len({(copy.engine, copy.operation, copy.bytes) for copy in self.copies}) > 1:
            raise InputError(
                f"experiment {shown(self.name)}: NCCL does copies at once as one group, of one "
                "size and by nothing but NCCL; give others an experiment of their own"
            )
        if self.timing is not Timing.PROCESSES:
            raise InputError(
                f"experiment {shown(self.name)}: NCCL has a process for each GPU; use "
                "Timing.PROCESSES"
            )

    def _require_gateable(self) -> None:
        for copy in self.copies:
            if needs_host_clock(copy):
                raise InputError(
                    f"experiment {shown(self.name)} copies pageable or managed memory, which "
                    "cannot wait behind the gate; use Timing.HOST"
                )


def experiment_of(copies: Sequence[Copy]) -> Experiment:
    """Return copies as an experiment that is named by their text, timed as they need it."""
    name = copies_text(copies)
    title = set_title(copies)
    by_threads = any(copy.engine is Engine.CPU or needs_host_clock(copy) for copy in copies)
    timing = Timing.HOST if by_threads else Timing.GATE
    if any(copy.engine is Engine.NCCL for copy in copies):
        timing = Timing.PROCESSES
    return Experiment(name, title, tuple(copies), timing)


def between_processes(experiment: Experiment) -> Experiment:
    """Return an experiment as one that a process for each GPU does.

    Raises
    ------
    InputError
        If host threads copy, or a copy is no plain one.
    """
    if experiment.timing is Timing.PROCESSES:
        return experiment
    for copy in experiment.copies:
        plain = copy.access is None and not copy.in_pieces and copy.operation is Operation.COPY
        if copy.engine is Engine.CPU or not plain or copy.route is not None:
            raise InputError(
                f"{copy.path}: a process for each GPU does plain copies by GPUs; leave out "
                "threads, pieces, walks, latencies and routes"
            )
    name, title = f"processes: {experiment.name}", f"{experiment.title}, a process for each GPU"
    return replace(experiment, name=name, title=title, timing=Timing.PROCESSES)


def set_title(copies: Sequence[Copy]) -> str:
    """Return the text of copies for people: with arrows."""
    return copies_text(copies).replace("->", "→")


def needs_host_clock(copy: Copy) -> bool:
    """Whether a copy may block the thread that submits it, so that only a host clock times it."""
    if copy.engine is not Engine.CE:
        return False
    return any(place.memory in HOST_TIMED for place in (copy.source, copy.destination))


def taken_bytes(experiment: Experiment) -> Counter[str]:
    """Return what an experiment takes of the memory of each part of the machine."""
    taken: Counter[str] = Counter()
    stages = [c for c in experiment.copies if c.operation.is_of_memory]
    for copy in stages[:1] or experiment.copies:  # the stages of one piece of memory
        for part, arrays in _arrays(copy).items():
            taken[part] += arrays * copy.span_bytes
        if copy.engine is Engine.CPU and copy.operation.is_chase:
            taken[copy.source.part] += copy.bytes // _WORD_BYTES * _ORDER_BYTES
    return taken


def _arrays(copy: Copy) -> Counter[str]:
    """How many arrays a copy has in each part."""
    source, destination = copy.source.part, copy.destination.part
    if copy.engine is not Engine.CPU:
        return Counter([source, destination])
    if copy.operation not in ARRAYS or copy.operation is Operation.GATHER:
        return Counter([source])
    return Counter({source: ARRAYS[copy.operation] - 1}) + Counter([destination])


class Unit(StrEnum):
    """What the cells of a matrix hold."""

    GBS = "GB/s"
    NANOSECONDS = "ns"


@dataclass(frozen=True, slots=True)
@checked
class Cell:
    """One number of a matrix.

    Attributes
    ----------
    row, column
        Its place.
    experiment
        Name of the experiment that gives it; None when it is not applicable.
    measured
        Numbers of the experiment's copies whose rates are added up. The others
        are there to interfere; they are reported with the experiment.
    not_applicable
        Why this machine has no such number; None when it has.
    """

    row: int
    column: int
    experiment: str | None = None
    measured: tuple[int, ...] = ()
    not_applicable: str | None = None


@dataclass(frozen=True, slots=True)
@checked
class Matrix:
    """Numbers of a case by row and column.

    Attributes
    ----------
    suffix
        What distinguishes it from other matrices of its case, such as ``read1``;
        empty for the only one.
    caption
        What rows and columns are, in nvbandwidth's words.
    rows, columns
        Its shape.
    """

    suffix: str
    caption: str
    rows: int
    columns: int
    cells: tuple[Cell, ...]
    unit: Unit = Unit.GBS


@dataclass(frozen=True, slots=True)
@checked
class Case:
    """A case with its matrices.

    Attributes
    ----------
    name
        nvbandwidth's name of it.
    description
        What is measured, in a sentence or two.
    not_applicable
        Why this machine cannot run it at all; None when it can.
    """

    name: str
    description: str
    matrices: tuple[Matrix, ...]
    not_applicable: str | None = None


@dataclass(frozen=True, slots=True)
class CaseSet:
    """Cases and the experiments that their cells refer to.

    Attributes
    ----------
    experiments
        Each set of copies once: cells of several cases may share it.
    """

    cases: tuple[Case, ...]
    experiments: tuple[Experiment, ...]
