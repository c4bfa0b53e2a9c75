"""What a program does again and again, as it was measured."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.findings.advice.contents import Resident
from lanescope.findings.advice.kernels import Kernels
from lanescope.findings.advice.schedule import Schedule
from lanescope.prediction.parameters import Direction
from lanescope.prediction.workload import Method, Workload
from lanescope.trace.codes import MemoryKind
from lanescope.units.estimate import Estimate


@dataclass(frozen=True, slots=True)
class CopyKind:
    """Like copies of a round; of each number the median of the rounds.

    Attributes
    ----------
    count
        In a round.
    least_bytes, typical_bytes, most_bytes
        Sizes of single copies: smallest, median, largest.
    bytes
        Of all of them in a round.
    seconds
        That the copy engine worked on them in a round, one by one.
    """

    direction: Direction
    memory: MemoryKind
    asynchronous: bool
    count: float
    least_bytes: int
    typical_bytes: int
    most_bytes: int
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Phase:
    """Rounds of one process on one GPU that are alike; all times are measured.

    Times are medians of the rounds with their 95 % intervals (of fewer than six rounds the whole
    range). A round runs from the call of its first copy, or from that copy's begin where the call
    is not known or lies before the end of the round before, to the end of its last operation.

    Attributes
    ----------
    rounds
        That were seen. A single one has no intervals that tell anything.
    rounds_in_run
        The same where all operations were looked at, else from the bytes of the whole run.
    seconds
        Of a round.
    mean_seconds
        The same in the mean, with its 95 % interval: what a run takes are not medians, and where
        rounds are of two kinds their median says little.
    period_seconds
        From the begin of a round to that of the next; None where no two follow each other.
    h2d_seconds, d2h_seconds
        That copies of a direction cover, overlaps counted once.
    kernel_seconds
        That kernels and other work within the GPU cover, and the gaps below 20 µs between them
        in which nothing is copied. None: kernels were not traced.
    hidden_seconds
        That copies run behind kernels or copies the other way.
    idle_seconds
        That the GPU neither copied nor computed.
    host_seconds
        Of it, pauses above 50 µs outside of calls that copy: the program did something else.
        Where kernels were not traced, any such pause: they may have run then.
    streams
        That had copies or kernels.
    launches
        Kernels, and other work within the GPU.
    parts
        Into how many overlapping parts it is cut now.
    endless
        True where it is cut out of a pipeline that does not run dry between rounds.
    waited
        Directions most of whose copies the program waits for in the calls that make them.
    method
        What the program does now; None: by memory that the models do not know.
    workload
        What the models are given.
    schedule
        Some of its rounds, operation by operation, for a replay under edits; None where there are
        too few, or kernels were not traced.
    call_gap_seconds
        Of the host from one copy's call to the next, where these follow each other without a
        pause; None where few do, or calls are not known.
    slowed_by_kernels
        How many times as long copies to the GPU take while kernels run as without; None where
        there are too few of either. Kernels that use the link themselves do that.
    part_seconds
        That the kernels of one of its `parts` take one after the other; None where there are none,
        or those of several parts overlap: they take longer than alone.
    kernels
        What they cost where a round is cut into parts; None where there are none.
    constant_input
        Whether all that a round sends is the same in each round, as far as it was read.
    resident
        What stays on the GPU where nothing is sent again; None where nothing is.
    language
        ``PyTorch``, ``CuPy`` or ``CUDA C++``, by the names of its kernels.
    """

    pid: int
    gpu: int
    number: int
    rounds: int
    rounds_in_run: int
    seconds: Estimate
    mean_seconds: Estimate
    period_seconds: Estimate | None
    h2d_seconds: Estimate
    d2h_seconds: Estimate
    kernel_seconds: Estimate | None
    hidden_seconds: Estimate
    idle_seconds: Estimate
    host_seconds: Estimate
    copies: tuple[CopyKind, ...]
    streams: int
    launches: int
    parts: int
    endless: bool
    waited: tuple[Direction, ...]
    method: Method | None
    workload: Workload
    schedule: Schedule | None = None
    call_gap_seconds: float | None = None
    slowed_by_kernels: float | None = None
    part_seconds: float | None = None
    kernels: Kernels | None = None
    constant_input: bool = False
    resident: Resident | None = None
    language: str = "CUDA C++"

    @property
    def synchronous(self) -> bool:
        """Whether the program waits for copies of a direction in the calls that make them."""
        return bool(self.waited)

    @property
    def modelled_seconds(self) -> Estimate:
        """Of a round, what copies, kernels and their calls take: all but the host's pauses."""
        return self.seconds.map(lambda seconds: seconds - self.host_seconds.value)

    @property
    def cut_in(self) -> int:
        """Into how many parts of streams of their own a round is cut now; 1: it is not."""
        return self.parts if self.method is Method.STREAMS else 1

    @property
    def run_seconds(self) -> float:
        """All rounds of the run together."""
        return self.rounds_in_run * self.seconds.value
