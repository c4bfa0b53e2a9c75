"""What the kernels of a round cost besides their work, which counts where a round is cut in parts.

Each part launches all kernels of the round: the host takes its time for each launch, and a kernel
with little to do takes hardly less than one with more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lanescope.findings.advice.lanes import OUT, WORK, Lane
from lanescope.findings.code import CUDA
from lanescope.prediction.parameters import LinkParameters
from lanescope.trace.codes import BoolArray, IntArray
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
#: The host does something else where it takes longer from launch to launch.
_PAUSE_NS = 50_000


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


def kernels_in(lane: Lane, number: IntArray) -> Kernels | None:
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
    lane: Lane, number: IntArray, steps: IntArray, follow: BoolArray
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


def _awaited(lane: Lane, follow: BoolArray) -> BoolArray:
    """Return where a kernel behind another on its stream waited for its launch."""
    ended = np.maximum.accumulate(lane.end_ns)[:-1]
    return follow & (lane.start_ns[1:] - ended > _LATE_NS)


def _stretches(lane: Lane, number: IntArray) -> list[float]:
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
