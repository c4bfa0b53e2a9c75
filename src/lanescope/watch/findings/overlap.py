"""Copies that no kernel runs beside, though both take much of the time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lanescope.watch.codes import Direction
from lanescope.watch.findings.finding import Finding
from lanescope.watch.intervals import covered_ns
from lanescope.watch.operations import Operations

#: Both copies and kernels must cover so much of the watch for overlap to matter.
LEAST_SHARE = 0.02
#: With more of the smaller one hidden already, little is left to gain.
MOST_HIDDEN = 0.5


def no_overlap(operations: Operations, watched_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each GPU whose copies and kernels take turns; needs traced kernels."""
    gpus = {g for p in operations.pieces() for g in np.unique(p.device[p.is_kernel]).tolist()}
    for gpu in sorted(gpus):
        copies, kernels = _of_gpu(operations, gpu)
        finding = _finding(copies, kernels, gpu, watched_seconds)
        if finding is not None:
            yield finding


def _of_gpu(operations: Operations, gpu: int) -> tuple[Operations, Operations]:
    """Return the copies over a GPU's link, and its kernels."""
    ways = (Direction.H2D, Direction.D2H)
    copies = operations.where(lambda o: o.is_copy & np.isin(o.direction, ways), device=gpu)
    return copies, operations.where(lambda o: o.is_kernel, device=gpu)


def _finding(copies: Operations, kernels: Operations, gpu: int, watched: float) -> Finding | None:
    copied = covered_ns(copies.start_ns, copies.end_ns) * 1e-9
    worked = covered_ns(kernels.start_ns, kernels.end_ns) * 1e-9
    either = covered_ns(
        np.concatenate((copies.start_ns, kernels.start_ns)),
        np.concatenate((copies.end_ns, kernels.end_ns)),
    )
    hidden, least = copied + worked - either * 1e-9, min(copied, worked)
    if watched <= 0 or least < LEAST_SHARE * watched or hidden > MOST_HIDDEN * least:
        return None
    return Finding(
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
            f"{len(copies)} copies cover {copied:.4g} s",
            f"{len(kernels)} kernels cover {worked:.4g} s",
            f"both at once {hidden:.4g} s",
        ),
    )
