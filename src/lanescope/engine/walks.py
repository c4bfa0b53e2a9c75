"""Copies by copy engines that walk over memory or take a chosen route, with a clock that is known.

They may be as short as the readings of the clock between them, so that it is found out what
those cost, and copies are counted together until it is next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lanescope._core import native
from lanescope.copies import Caches, Copy, Experiment, Memory, Pattern, Route, Timing
from lanescope.copies.operation import PLAIN
from lanescope.engine.core import CLOCK_SECONDS
from lanescope.engine.sessions import MOST_QUEUED, GpuSession
from lanescope.errors import NotMeasuredError
from lanescope.machine import Gpu
from lanescope.results.result import FloatArray

if TYPE_CHECKING:
    from lanescope.machine.nvml import Nvml

#: Share of the time that events may take: well below what would make it unresolved, as the
#: time of the first copies, which tells how many there have to be, is known badly.
_CLOCK_SHARE = 0.03

_ROUTE_WORDS = {
    Route.PEER: "cudaMemcpyPeerAsync",
    Route.UVA: "cudaMemcpyAsync by unified addresses",
    Route.STAGED: "cudaMemcpyPeerAsync with peer access switched off",
}


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
