"""Copies that no kernel runs beside, though both take much of the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import finding
from lanescope.trace.busy import GpuTime

#: Both copies and kernels must cover so much of the watch for overlap to matter.
LEAST_SHARE = 0.02
#: With more of the smaller one hidden already, little is left to gain.
MOST_HIDDEN = 0.5


def no_overlap(times: Sequence[GpuTime], watched_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each GPU whose copies and kernels take turns; needs traced kernels."""
    for one in times:
        found = _finding(one, watched_seconds)
        if found is not None:
            yield found


def _finding(one: GpuTime, watched: float) -> Finding | None:
    gpu, copied, worked, hidden = one.gpu, one.copying, one.computing, one.both
    least = min(copied, worked)
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
            f"{one.copies} copies cover {copied:.4g} s",
            f"{one.kernels} kernels cover {worked:.4g} s",
            f"both at once {hidden:.4g} s",
        ),
    )
