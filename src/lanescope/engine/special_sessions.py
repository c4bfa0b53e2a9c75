"""Sessions of their own for copies that are more than that: pieces, walks, stages of memory."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lanescope._core import native
from lanescope.copies import (
    Caches,
    Copy,
    Experiment,
    Memory,
    Operation,
    Pattern,
    Route,
    Submission,
    Timing,
)
from lanescope.copies.requirements import free_bytes
from lanescope.copies.terms import PLAIN
from lanescope.engine.base import WithoutLinks
from lanescope.engine.core import CLOCK_SECONDS, device_of, place_spec, require_equal
from lanescope.engine.sessions import MOST_QUEUED, GpuSession
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.results import FloatArray

if TYPE_CHECKING:
    from lanescope.machine.nvml import Nvml

#: A batch aims at this time: a map has hundreds of cells with a small budget each.
_PIECES_SECONDS = 0.01
_FIRST_REPETITIONS = 6
_MOST_REPETITIONS = 500
_HOW = {
    Submission.SINGLE: "a call of cudaMemcpyAsync for each piece",
    Submission.BATCH: "one call of cudaMemcpyBatchAsync, sources read in stream order",
    Submission.GRAPH: "one launch of a CUDA graph of independent copies, whose making and upload "
    "are left out",
    Submission.KERNEL: "one kernel that copies, with the addresses in a table in host memory",
}
_IN_PLACE = {
    True: "nothing copied: one kernel reads the pieces in host memory and sums them up",
    False: "nothing copied: one kernel makes the pieces and stores them in host memory",
}
#: Share of the time that events may take: well below what would make it unresolved, as the
#: time of the first copies, which tells how many there have to be, is known badly.
_CLOCK_SHARE = 0.03
_ROUTE_WORDS = {
    Route.PEER: "cudaMemcpyPeerAsync",
    Route.UVA: "cudaMemcpyAsync by unified addresses",
    Route.STAGED: "cudaMemcpyPeerAsync with peer access switched off",
}
#: A batch aims at this time, so that a signal is answered and a budget is kept.
_CYCLES_SECONDS = 0.1
_FIRST_CYCLES = 2
_MOST_CYCLES = 1000
_MIB = 1 << 20
_HUGE_PAGE_BYTES = 2 << 20
#: Locked in memory by the driver.
_LOCKED = (Memory.PINNED, Memory.WRITE_COMBINED, Memory.MAPPED)
#: The stages in the order in which the core times them.
_STAGES = (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)
_CALLS = {
    Memory.PAGEABLE: "malloc and free (glibc keeps smaller pieces, whose pages are then there)",
    Memory.HUGE: "mmap with MADV_HUGEPAGE, and munmap",
    Memory.SMALL_PAGES: "mmap with MADV_NOHUGEPAGE, and munmap",
    Memory.PINNED: "cudaHostAlloc and cudaFreeHost",
    Memory.WRITE_COMBINED: "cudaHostAlloc (write-combined) and cudaFreeHost",
    Memory.MAPPED: "cudaHostAlloc (mapped) and cudaFreeHost",
    Memory.MANAGED: "cudaMallocManaged and cudaFree",
    Memory.DEVICE: "cudaMalloc and cudaFree",
    Memory.POOL: "cudaMallocFromPoolAsync and cudaFreeAsync, each with cudaStreamSynchronize, of "
    "a pool that keeps what is given back",
}


class PieceSession(WithoutLinks):
    """One copy in pieces, by the host's clock.

    Its GPU's link is not looked at: pieces this small leave it idle enough to slow down.
    """

    def __init__(
        self, topology: native.Topology, pool: native.BufferPool, experiment: Experiment
    ) -> None:
        _require_measurable(experiment)
        copy = experiment.copies[0]
        spec = native.PieceSpec(
            place_spec(copy.source),
            place_spec(copy.destination),
            copy.bytes // copy.pieces,
            copy.pieces,
            device_of(copy),
            getattr(native.Submission, str(copy.submission)),
        )
        self._pieces = native.PieceSet(topology, pool, spec, list(copy.cpus))
        self._repetitions = _FIRST_REPETITIONS
        self._submit_seconds: list[float] = []
        self._in_place = copy.submission is Submission.MAPPED
        how = _IN_PLACE[copy.source.is_host] if self._in_place else _HOW[copy.submission]
        self._sums = self._in_place and copy.source.is_host
        self.method = f"host clock from before the first call to the completed transfer; {how}"

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        seconds, submit_seconds = self._pieces.run(self._repetitions)
        self._submit_seconds += submit_seconds
        typical = max(CLOCK_SECONDS, float(np.median(seconds)))
        self._repetitions = int(
            np.clip(_PIECES_SECONDS / typical, _FIRST_REPETITIONS, _MOST_REPETITIONS)
        )
        return [np.array(seconds)]

    def submit_seconds(self) -> float | None:
        """Return the median time until the last call returned."""
        return float(np.median(self._submit_seconds)) if self._submit_seconds else None

    def check(self) -> None:
        """Compare every byte, those between pieces too; see `Session.check`."""
        what = "sums of what was read" if self._sums else "bytes in or between pieces"
        require_equal(self._pieces.count_mismatches(), what, "are")


def _require_measurable(experiment: Experiment) -> None:
    if len(experiment.copies) > 1 or experiment.timing is not Timing.HOST:
        raise NotMeasuredError(
            "Pieces are timed by the host's clock, one copy at a time.",
            "Give an experiment of one copy with Timing.HOST.",
        )
    for place in (experiment.copies[0].source, experiment.copies[0].destination):
        if place.memory in (Memory.PAGEABLE, Memory.MANAGED):
            raise NotMeasuredError(
                f"Pieces of {place.memory} memory are not measured.", "Take pinned memory."
            )


def walks(experiment: Experiment) -> bool:
    """Whether a copy says which addresses it touches or which route it takes."""
    return any(copy.access is not None or copy.route is not None for copy in experiment.copies)


class WalkSession(GpuSession):
    """Copies that walk or take a chosen route.

    Parameters
    ----------
    event_seconds
        Finds out what an event between two of these copies takes, in seconds; called
        at most once.
    """

    def __init__(
        self,
        copies: native.CopySet,
        experiment: Experiment,
        gpus: tuple[Gpu, ...],
        nvml: Nvml | None,
        event_seconds: Callable[[], float],
    ) -> None:
        super().__init__(copies, experiment, gpus, nvml)
        self._event_seconds = event_seconds
        self._event: float | None = None
        self._most_repetitions = _repetitions_of_flushed(experiment)
        words = _words(experiment)
        if self.staged and experiment.timing is Timing.GATE:
            words.append("the gate opens after 50 ms if the queue is full")
        self.method = "; ".join([self.method, *words])

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        before = self._loops
        seconds = super().sample()
        if self._loops != before:
            self.method = f"{self.method}; {self._loops} copies between two events"
        return seconds

    def _may_balance(self) -> bool:
        """Whether copies may do more than others: those that walk go as one plan."""
        return False

    def clock_seconds(self) -> float:
        """Return what reading the clock adds to a repetition; see `ReadsClock`."""
        if self._experiment.timing is Timing.HOST:
            return native.host_clock_cost()  # one reading ends a copy and begins the next
        return self._event_cost() / self._loops

    def _event_cost(self) -> float:
        if self._event is None:
            self._event = self._event_seconds()
        return self._event

    def _loops_for(self, longest_seconds: float, most: int) -> int:
        if self._experiment.timing is Timing.HOST or self._loops > 1:
            return self._loops
        if self._most_repetitions is not None:
            most = min(most, self._most_repetitions // 3)  # a window to warm up and two that count
        # As many as leave room in the queue for the fewest windows and for one that warms up.
        windows = len(self._experiment.copies) * (self._fewest_windows + 1)
        most = min(most, MOST_QUEUED // windows - 1)
        event = self._event_cost()
        copy = max(longest_seconds - event, CLOCK_SECONDS)
        # event / loops <= share * (copy + event / loops)
        wanted = math.ceil(event * (1 - _CLOCK_SHARE) / (_CLOCK_SHARE * copy))
        return max(1, min(wanted, most))

    def _fitting(self, windows: int) -> int:
        """Return how many windows there may be: one more warms up."""
        if self._experiment.timing is Timing.GATE:
            queued = len(self._experiment.copies) * (self._loops + 1)
            windows = min(windows, max(self._fewest_windows, MOST_QUEUED // queued - 1))
        if self._most_repetitions is not None:
            windows = min(windows, self._most_repetitions // self._loops - 1)
        return max(1, windows)


def _repetitions_of_flushed(experiment: Experiment) -> int | None:
    """How many repetitions touch no block twice, where the caches hold none of them at first."""
    blocks = [c.span_bytes // c.bytes for c in experiment.copies if _is_flushed(c)]
    return min(blocks, default=None)


def _is_flushed(copy: Copy) -> bool:
    return (copy.access or PLAIN).caches is Caches.FLUSHED


def _words(experiment: Experiment) -> list[str]:
    words = [_ROUTE_WORDS[copy.route] for copy in experiment.copies if copy.route is not None]
    for copy in experiment.copies:
        if copy.access is None:
            continue
        if copy.access.pattern is not Pattern.REPEATED:
            words.append(f"{copy.access.pattern} blocks of {copy.span_bytes} bytes")
        if _is_flushed(copy):
            words.append("the host's memory flushed from the CPUs' caches before each batch")
    return list(dict.fromkeys(words))


def require_walks(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` where routes or caches cannot be had as they are asked for."""
    for copy in experiment.copies:
        if copy.route is Route.STAGED:
            _require_staged(copy, experiment)
        if _is_flushed(copy):
            _require_flushed(copy)


def _require_staged(copy: Copy, experiment: Experiment) -> None:
    if copy.source.part == copy.destination.part:
        raise NotMeasuredError(
            f"Nothing is staged inside {copy.source.part}.", "Take two GPUs, or another route."
        )
    pair = {copy.source.part, copy.destination.part}
    for other in experiment.copies:
        if {other.source.part, other.destination.part} == pair and other.route != copy.route:
            raise NotMeasuredError(
                f"{copy.path} is staged, without peer access, and {other.path} at the same time "
                "has it.",
                "Give all copies between two GPUs the same route.",
            )


def _require_flushed(copy: Copy) -> None:
    hosts = [place for place in (copy.source, copy.destination) if place.is_host]
    if not hosts:
        raise NotMeasuredError(
            f"{copy.path} passes no cache of a CPU that could be flushed.", "Take warm caches."
        )
    if any(place.memory is Memory.MANAGED for place in hosts):
        raise NotMeasuredError(
            f"{copy.path}: flushing managed memory would move its pages.", "Take warm caches."
        )
    assert copy.access is not None
    if copy.access.pattern is Pattern.REPEATED or copy.span_bytes < 2 * copy.bytes:
        raise NotMeasuredError(
            f"{copy.path} repeats one block, which is in the caches again after the first time.",
            "Take another pattern and a span of several blocks.",
        )


class AllocationSession(WithoutLinks):
    """Cycles of allocating, touching and releasing memory by one host thread.

    `device` is the GPU whose driver allocates host memory, for the kinds that need one.
    """

    def __init__(
        self,
        topology: native.Topology,
        machine: Machine,
        experiment: Experiment,
        device: int,
    ) -> None:
        copy = _only_memory(experiment)
        self._rows = [_STAGES.index(copy.operation) for copy in experiment.copies]
        _require_memory(machine, copy)
        try:
            self._probe = native.AllocationProbe(
                topology,
                place=place_spec(copy.source),
                bytes=copy.bytes,
                device=device,
                cpus=list(copy.cpus),
            )
        except native.NativeError as error:
            if error.args[2] == "cudaErrorMemoryAllocation":
                raise _too_much(machine, copy) from error
            raise
        self.batch_seconds = _CYCLES_SECONDS
        self._cycles = _FIRST_CYCLES
        self._clock_cost = native.host_clock_cost()
        self.method = _describe(copy, self._clock_cost)

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        stages = np.array(self._probe.run(self._cycles)).T
        one = max(float(stages.sum(axis=0).mean()), CLOCK_SECONDS)
        self._cycles = int(np.clip(self.batch_seconds / one, 1, _MOST_CYCLES))
        return [stages[row].copy() for row in self._rows]

    def check(self) -> None:
        """The core looked at the pages before the first sample; nothing is moved."""

    def clock_seconds(self) -> float:
        """Each stage lies between two readings of the clock."""
        return self._clock_cost


def _describe(copy: Copy, clock_cost: float) -> str:
    touched = "" if not copy.source.is_host else "; touched by one write to every page"
    cpus = f"bound to CPU {', '.join(map(str, copy.cpus))}" if copy.cpus else "not bound"
    return (
        f"host clock around {_CALLS[copy.source.memory]}{touched}; one thread, {cpus}, one cycle "
        f"a sample; reading the clock takes {clock_cost * 1e9:.0f} ns, not subtracted"
    )


def _only_memory(experiment: Experiment) -> Copy:
    """Return the first of copies that are stages in the life of the same memory."""
    first = experiment.copies[0]
    for copy in experiment.copies:
        if not copy.operation.is_of_memory or (copy.source, copy.bytes, copy.cpus) != (
            *(first.source, first.bytes),
            first.cpus,
        ):
            raise NotMeasuredError(
                "Allocating, touching and releasing are measured of one piece of memory.",
                "Give them the same place, size and CPUs, and nothing else beside them.",
            )
        if copy.operation is Operation.TOUCH and not copy.source.is_host:
            raise NotMeasuredError(
                "A host thread cannot touch memory of a GPU.", "Leave that stage out."
            )
    return first


def _require_memory(machine: Machine, copy: Copy) -> None:
    free = free_bytes(machine).get(copy.source.part)
    if free is not None and _taken_bytes(copy) > free:
        raise _too_much(machine, copy)


def _taken_bytes(copy: Copy) -> int:
    """What the kernel has to give: of huge pages whole ones."""
    if copy.source.memory is not Memory.HUGE:
        return copy.bytes
    return -(-copy.bytes // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES


def _too_much(machine: Machine, copy: Copy) -> NotMeasuredError:
    free = free_bytes(machine).get(copy.source.part)
    available = "" if free is None else f", {free // _MIB} MiB are available"
    kind = f"{copy.source.memory} memory of {copy.source.part}"
    reason = f"It needs {-(-_taken_bytes(copy) // _MIB)} MiB of {kind}{available}"
    most, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if copy.source.memory in _LOCKED and resource.RLIM_INFINITY != most < copy.bytes:
        return NotMeasuredError(
            f"{reason}, and this process may lock {most // _MIB} MiB (RLIMIT_MEMLOCK).",
            "Raise the limit with 'ulimit -l', or take a smaller size.",
        )
    return NotMeasuredError(f"{reason}.", "End what uses it, or take a smaller size.")
