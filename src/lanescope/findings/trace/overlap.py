"""Copies that no kernel runs beside, though both take much of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import finding
from lanescope.trace.codes import BoolArray, Direction, among
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns

#: Both copies and kernels must cover so much of the watch for overlap to matter.
LEAST_SHARE = 0.02
#: With more of the smaller one hidden already, little is left to gain.
MOST_HIDDEN = 0.5


def no_overlap(operations: Operations, watched_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each GPU whose copies and kernels take turns; needs traced kernels."""
    for gpu in sorted(operations.values("device", lambda o: o.is_kernel)):
        found = _finding(operations, gpu, watched_seconds)
        if found is not None:
            yield found


def _crosses(o: Operations) -> BoolArray:
    """Copies over a GPU's link."""
    return o.is_copy & among(o.direction, (Direction.H2D, Direction.D2H))


def _covered(
    operations: Operations, gpu: int, chosen: Callable[[Operations], BoolArray]
) -> tuple[int, int]:
    """Return how many operations of a GPU are chosen, and how much time they cover."""
    found = operations.where(chosen, device=gpu)
    return len(found), covered_ns(found.start_ns, found.end_ns)


def _finding(operations: Operations, gpu: int, watched: float) -> Finding | None:
    copies, copied_ns = _covered(operations, gpu, _crosses)
    kernels, worked_ns = _covered(operations, gpu, lambda o: o.is_kernel)
    _, either_ns = _covered(operations, gpu, lambda o: _crosses(o) | o.is_kernel)
    copied, worked, either = copied_ns * 1e-9, worked_ns * 1e-9, either_ns * 1e-9
    hidden, least = copied + worked - either, min(copied, worked)
    if watched <= 0 or least < LEAST_SHARE * watched or hidden > MOST_HIDDEN * least:
        return None
    return finding(
        "no-overlap",
        f"On g{gpu} copies take {copied:.3g} s and kernels {worked:.3g} s of {watched:.3g} s, and "
        f"only {hidden:.3g} s of that at the same time.",
        least - max(hidden, 0.0),
        "all of the shorter one hidden behind the longer; what depends on each other cannot be",
        (
            "Work can be split into pieces, so that one is copied while another is computed.",
            "Copies are asynchronous, of pinned memory, and on another stream than the kernels.",
            "There is GPU memory for two pieces at once.",
        ),
        (
            f"{copies} copies cover {copied:.4g} s",
            f"{kernels} kernels cover {worked:.4g} s",
            f"both at once {hidden:.4g} s",
        ),
    )
