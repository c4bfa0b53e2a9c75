"""What like rounds say of kernels and calls: what launches cost, and what kernels slow.

Launches count where a round is cut in parts. Each part launches all kernels of the round: the host
takes its time for each launch, and a kernel with little to do takes hardly less than one with more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lanescope.findings.advice.lanes import IN, OUT, WORK, OperationLane
from lanescope.findings.code import CUDA
from lanescope.prediction.parameters import LinkParameters
from lanescope.trace.codes import BoolArray, IntArray
from lanescope.trace.rectangles import covered_ns, union
from lanescope.units.estimate import Estimate

#: From the begin of the shortest kernels to that of the next on their stream, where rounds show
#: no shorter ones: in the watches under benchmarks/results/h100-x1/advise kernels of 0.7 to 1.1 µs
#: followed each other after 0.8 µs or more.
SHORTEST_SECONDS = 2e-6
#: What the host takes for a launch, where neither rounds nor the link parameters tell: fits of
#: H100s have 3.1 to 3.7 µs of a C++ program, and libraries of Python took 11 µs and more in watched
#: ones, where each launch is about 1 µs longer. These are below all of them.
CUDA_LAUNCH, LIBRARY_LAUNCH = Estimate(2.2e-6, 2e-6, 3.7e-6), Estimate(5e-6, 4e-6, 11e-6)
#: A median of fewer says nothing; of stretches of so many kernels each these are enough.
_FEWEST, _STRETCH, _FEWEST_STRETCHES = 8, 8, 3
#: A kernel that starts so long after all before it have ended waited for the host.
_LATE_NS = 5_000
#: The host does something else where it takes longer from launch to launch, or from call to call.
_PAUSE_NS = 50_000
#: Kernels that overlap for less of their time than this ran one after the other.
_MOST_OVERLAP = 0.05
#: Copies of so many bytes overlap with kernels for more than one share of their time, and do not
#: with less than the other.
_LONG_COPY, _OVERLAPPED, _ALONE = 1 << 20, 0.4, 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Kernels:
    """Kernels, and other work within the GPU, of like rounds.

    Attributes
    ----------
    seconds
        That each of them takes, of all rounds that were looked at; shape (kernels,).
    rounds
        Of so many.
    shortest_seconds
        From the begin of a short one to that of the next.
    launch
        Seconds of the host from one launch to the next; None where the rounds do not tell.
    source
        In words, whence that is.
    """

    seconds: npt.NDArray[np.float64] = field(repr=False)
    rounds: int
    shortest_seconds: float
    launch: Estimate | None
    source: str | None

    def added_seconds(self, times: float) -> float:
        """Return by how much the kernels of a round take longer, cut into so many parts each.

        None takes less than `shortest_seconds`, however small its part is.
        """
        whole = np.maximum(self.seconds, self.shortest_seconds)
        cut = np.maximum(self.seconds, times * self.shortest_seconds)
        return max(float((cut - whole).sum()) / self.rounds, 0.0)


def kernels_in(lane: OperationLane, number: IntArray) -> Kernels | None:
    """Return the kernels of some rounds; None where there are none.

    Parameters
    ----------
    number
        Of the round of each operation, from 0 on.
    """
    work = lane.kind == WORK
    if not work.any():
        return None
    rounds = int(number[-1]) + 1
    follow = work[1:] & work[:-1] & (lane.stream[1:] == lane.stream[:-1])
    follow &= number[1:] == number[:-1]
    steps = lane.start_ns[1:] - lane.start_ns[:-1]
    launch, source = _launch(lane, number, steps, follow)
    return Kernels(
        (lane.end_ns - lane.start_ns)[work] * 1e-9,
        rounds,
        _shortest(steps[follow]),
        launch,
        source,
    )


def launch_of(
    kernels: Kernels, language: str, parameters: LinkParameters | None
) -> tuple[Estimate, str]:
    """Return what the host takes for a launch, by the best that is known, and whence that is."""
    if kernels.launch is not None and kernels.source is not None:
        return kernels.launch, kernels.source
    if language != CUDA:
        return LIBRARY_LAUNCH, f"assumed for {language}"
    if parameters is None or parameters.launching is None:
        return CUDA_LAUNCH, "assumed"
    return parameters.launching.call, "of the link parameters"


def _shortest(steps: IntArray) -> float:
    steps = steps[steps > 0]
    if steps.size < _FEWEST:
        return SHORTEST_SECONDS
    return min(float(np.percentile(steps, 5)) * 1e-9, SHORTEST_SECONDS)


def _launch(
    lane: OperationLane, number: IntArray, steps: IntArray, follow: BoolArray
) -> tuple[Estimate | None, str | None]:
    """Return what the rounds tell of the host's time for a launch.

    The whole of a stretch between two copies tells more than those launches alone that the GPU
    waited for, which are the slow ones: of these the quickest quarter counts.
    """
    stretches = _stretches(lane, number)
    if len(stretches) >= _FEWEST_STRETCHES:
        low, middle, high = (np.percentile(stretches, (25, 50, 75)) * 1e-9).tolist()
        return Estimate(middle, low, high), "measured between calls of copies"
    late = _awaited(lane, follow)
    awaited = steps[1:][late[1:] & late[:-1] & (steps[1:] < _PAUSE_NS)]
    if awaited.size < _FEWEST:
        return None, None
    low, quick, middle = (np.percentile(awaited, (5, 25, 50)) * 1e-9).tolist()
    return Estimate(quick, low, middle), "measured where the GPU waited for launches"


def _awaited(lane: OperationLane, follow: BoolArray) -> BoolArray:
    """Return where a kernel behind another on its stream waited for its launch."""
    ended = np.maximum.accumulate(lane.end_ns)[:-1]
    return follow & (lane.start_ns[1:] - ended > _LATE_NS)


def _stretches(lane: OperationLane, number: IntArray) -> list[float]:
    """Return nanoseconds for each launch between two copies' calls, of stretches of many.

    Where the second call begins before the last kernel has ended, the host has waited for none
    of them.
    """
    copies = np.flatnonzero(lane.kind <= OUT)
    before, behind = copies[:-1], copies[1:]
    count = behind - before - 1
    chosen = (count >= _STRETCH) & (number[before] == number[behind])
    chosen &= (lane.call_start_ns[before] > 0) & (lane.call_start_ns[behind] > 0)
    before, behind, count = before[chosen], behind[chosen], count[chosen]
    spent = lane.call_start_ns[behind] - lane.call_end_ns[before]
    ahead = lane.call_start_ns[behind] < lane.end_ns[behind - 1]
    each = spent / count
    return [float(one) for one in each[ahead & (each > 0) & (each < _PAUSE_NS)]]


def part_seconds(lane: OperationLane, rounds: int, parts: int) -> float | None:
    """Return what the kernels of a part of a round take; None: none, or they overlap.

    Parameters
    ----------
    lane
        The operations of so many rounds, each of which is cut into so many parts.
    """
    work = lane.kind == WORK
    start, end = lane.start_ns[work], lane.end_ns[work]
    summed = int((end - start).sum())
    covered = covered_ns(*union(start, end))
    alone = covered >= (1 - _MOST_OVERLAP) * summed > 0
    return summed * 1e-9 / (rounds * parts) if alone else None


def call_gap_seconds(lane: OperationLane, number: IntArray) -> float | None:
    """Return the median of the host's times from one copy's call to the next; None of few.

    Parameters
    ----------
    number
        Of the round of each operation: what lies between rounds does not count.
    """
    known = (lane.kind <= OUT) & (lane.call_start_ns > 0)
    gaps = lane.call_start_ns[1:] - lane.call_end_ns[:-1]
    follow = known[1:] & known[:-1] & (number[1:] == number[:-1])
    near = gaps[follow & (gaps >= 0) & (gaps < _PAUSE_NS)]
    return float(np.median(near)) * 1e-9 if near.size >= _FEWEST else None


def slowed_by_kernels(lane: OperationLane) -> float | None:
    """Return how many times as long copies to the GPU take while kernels run; None of few."""
    work = lane.kind == WORK
    if not work.any():
        return None
    starts, ends = union(lane.start_ns[work], lane.end_ns[work])
    worked = np.concatenate(([0], np.cumsum(ends - starts)))

    def until(moment: IntArray) -> IntArray:
        """Return how long kernels had run in all before a moment."""
        place = np.searchsorted(starts, moment, "right")
        last = np.maximum(place - 1, 0)
        beyond = np.where(place > 0, np.maximum(ends[last] - moment, 0), 0)
        return np.asarray(worked[place] - beyond)

    copies = lane.rows((lane.kind == IN) & (lane.bytes >= _LONG_COPY))
    lasted = np.maximum(copies.end_ns - copies.start_ns, 1)
    share = (until(copies.end_ns) - until(copies.start_ns)) / lasted
    each = lasted / copies.bytes
    slow, free = each[share > _OVERLAPPED], each[share < _ALONE]
    if min(slow.size, free.size) < _FEWEST:
        return None
    return float(np.median(slow) / np.median(free))
