"""What watching may have cost the program, by what tracing costs on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.watch.codes import What
from lanescope.watch.timeline import Timeline
from lanescope.watch.tracing_cost import TracingCost


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Time that the program's calls took longer: predicted, and at most.

    Attributes
    ----------
    share
        Of the program's time, of the process with the most of it.
    seconds
        The same in seconds.
    copies, kernels
        How many that process had, which were traced.
    basis
        Where the figures come from, as half a sentence.
    """

    share: float
    seconds: float
    copies: int
    kernels: int
    basis: str


def slowdown(timeline: Timeline, cost: TracingCost | None) -> Slowdown | None:
    """Return what tracing may have cost the program; None where that is not known.

    Calls of several threads can overlap, and time that a thread waits for the GPU hides what
    its calls take longer: so it is the most that it can be.
    """
    if cost is None or timeline.seconds <= 0 or not timeline.processes:
        return None
    counts: dict[int, tuple[int, int]] = {}
    for piece in timeline.operations.pieces():
        for pid in np.unique(piece.pid).tolist():
            mine = piece.pid == pid
            copies, kernels = counts.get(pid, (0, 0))
            counts[pid] = (
                copies + int((piece.is_copy & mine).sum()),
                kernels + int((np.equal(piece.what, What.KERNEL) & mine).sum()),
            )
    taken = {
        pid: copies * max(cost.copy_seconds, 0.0) + kernels * max(cost.kernel_seconds, 0.0)
        for pid, (copies, kernels) in counts.items()
    }
    most = max(taken, key=lambda pid: taken[pid], default=None)
    copies, kernels = (0, 0) if most is None else counts[most]
    seconds = 0.0 if most is None else taken[most]
    basis = f"measured by 'lanescope doctor --cost' on {cost.day}"
    return Slowdown(seconds / timeline.seconds, seconds, copies, kernels, basis)
