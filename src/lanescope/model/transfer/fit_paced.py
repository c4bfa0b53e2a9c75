"""Fits how copies and kernels slow each other that compute longer than they write."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.parameters import LinkParameters, Mapped, Paced
from lanescope.model.transfer.points import Kind
from lanescope.model.transfer.samples import Measured

#: A kernel whose writes take nearly all of its time tells no more than one that only writes.
_MOST_SHARE = 0.97
#: Nothing makes copies or kernels slower than so many times.
_MOST_FACTOR = 8.0
_STEPS = 50


def fit_paced(measured: Sequence[Measured], parameters: LinkParameters) -> Paced | None:
    """Return the factors for each share that was measured; None without any."""
    if parameters.mapped is None:
        return None
    found = {}
    for work in sorted({m.point.work for m in measured if m.point.kind is Kind.PACED}):
        points = [m for m in measured if m.point.kind is Kind.PACED and m.point.work == work]
        points.sort(key=lambda m: m.point.h2d_bytes)
        if len(points) != 3:  # alone, with a short copy, with a long one
            continue
        share = _share(points[0], parameters.mapped)
        if 0 < share <= _MOST_SHARE:
            found[share] = _factors(points, parameters)
    if not found:
        return None
    shares = tuple(sorted(found))
    copies, kernels = zip(*(found[share] for share in shares), strict=True)
    return Paced(shares, copies, kernels)


def _share(alone: Measured, mapped: Mapped) -> float:
    writes = alone.point.d2h_bytes * mapped.write_per_byte.value
    return writes / max(alone.whole.value - mapped.first.value, 1e-9)


def _factors(points: Sequence[Measured], parameters: LinkParameters) -> tuple[Estimate, Estimate]:
    """Return how many times as long copies and the kernel take beside each other.

    The interval is that from all times at the end of theirs that makes both factors small to
    all at the other.
    """
    alone, short, long = (m.whole for m in points)
    known = parameters.mapped
    first = 0.0 if known is None else known.first.value
    per_byte = parameters.h2d.per_byte.value
    copies = [m.point.h2d_bytes * per_byte for m in points[1:]]

    def at(kernel: float, with_short: float, with_long: float) -> tuple[float, float]:
        return _solved(kernel - first, (copies[0], copies[1]), with_short, with_long)

    middle = at(alone.value, short.value, long.value)
    low = at(alone.high, short.low, long.low)
    high = at(alone.low, short.high, long.high)
    copy, kernel = (
        Estimate(b, min(a, b), max(b, c)) for a, b, c in zip(low, middle, high, strict=True)
    )
    return copy, kernel


def _solved(
    kernel: float, copies: tuple[float, float], with_short: float, with_long: float
) -> tuple[float, float]:
    """Return the factors of copies and of the kernel; all in seconds, `kernel` and `copies` alone.

    The short copy ends before the kernel, which takes as long alone from then on; the long one
    ends after it, and takes as long alone from then on. Each tells one factor from the other.
    """
    copy_factor = kernel_factor = 1.0
    for _ in range(_STEPS):
        # what the kernel did not do meanwhile is what it ended later
        beside = copies[0] * copy_factor
        kernel_factor = _factor(1 - (with_short - kernel) / beside)
        beside = kernel * kernel_factor
        copy_factor = _factor(1 - (with_long - copies[1]) / beside)
    return copy_factor, kernel_factor


def _factor(pace: float) -> float:
    return 1 / min(max(pace, 1 / _MOST_FACTOR), 1.0)
