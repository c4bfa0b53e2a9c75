"""Series of a reproduction, made few enough for a page that holds many of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lanescope.watch.chapters.counted import Payload
from lanescope.watch.codes import Direction, FloatArray, IntArray
from lanescope.watch.operations import Operations
from lanescope.watch.probe import Probe
from lanescope.watch.rectangles import rectangles

#: With more points neighbours are joined: more than a wide screen has pixels.
MOST_POINTS = 3000
#: Rates below this share of the highest are as good as none: of many in a row two are kept.
_QUIET_SHARE = 2e-3


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line over time.

    Attributes
    ----------
    end_ns
        Until when each value holds, or when it was taken, nanoseconds since 1970.
    values
        Not a number where nothing is known.
    low, high
        Ends of a band; None without one.
    """

    end_ns: IntArray
    values: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


def counted_line(payload: Payload, way: int, begin_ns: int, end_ns: int) -> Line:
    """Return the rate of one direction in GB/s, record by record; pauses are left out."""
    last = int(np.searchsorted(payload.end_ns, end_ns)) + 1
    inside = slice(int(np.searchsorted(payload.end_ns, begin_ns)), last)
    return _few(payload.end_ns[inside], payload.gbs()[way][inside])


def traced_line(operations: Operations, way: int, begin_ns: int, end_ns: int) -> Line:
    """Return the rate of traced copies of one direction in GB/s, each with an even rate."""
    own = operations.rows(operations.direction == (Direction.H2D, Direction.D2H)[way])
    times, columns = rectangles([own], (begin_ns, end_ns))
    lasted = np.where(columns[:, 1] > 0, columns[:, 1], np.nan)
    return _few(times, columns[:, 0] / lasted)


def probed_line(probe: Probe, way: int, what: str, begin_ns: int, end_ns: int) -> Line:
    """Return bandwidth (``gbs``) or delay (``delay``, in seconds) of one direction.

    Of many records the median of equal parts of the time, with the 5th and 95th percentile.
    """
    own = probe.one_way(way)
    own = own.rows((own.begin_ns >= begin_ns) & (own.begin_ns < end_ns))
    values = own.gbs if what == "gbs" else own.delay_ns.astype(np.float64) * 1e-9
    if len(own) <= MOST_POINTS // 3:
        return Line(own.begin_ns, values)
    parts = MOST_POINTS // 3
    part = (own.begin_ns - begin_ns) * parts // max(end_ns - begin_ns, 1)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    groups = np.split(values, starts[1:])
    low, middle, high = (
        np.array([_quantile_of_known(group, q) for group in groups]) for q in (0.05, 0.5, 0.95)
    )
    return Line(own.begin_ns[starts], middle, low, high)


def _quantile_of_known(values: FloatArray, q: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, q)) if known.size else math.nan


def _few(end_ns: IntArray, values: FloatArray) -> Line:
    if not end_ns.size:
        return Line(end_ns, values)
    highest = np.nanmax(values) if np.isfinite(values).any() else 0.0
    quiet = np.abs(values) <= _QUIET_SHARE * highest
    inner = quiet & np.roll(quiet, 1) & np.roll(quiet, -1)
    inner[[0, -1]] = False
    end_ns, values = end_ns[~inner], values[~inner]
    each = -(-end_ns.size // MOST_POINTS)
    if each == 1:
        return Line(end_ns, values)
    starts = np.arange(0, end_ns.size, each)
    lasted = np.diff(end_ns, prepend=end_ns[:1]).astype(np.float64)
    known = np.where(np.isfinite(values), lasted, 0.0)
    sums = np.add.reduceat(np.where(np.isfinite(values), values * lasted, 0.0), starts)
    lasts = np.append(starts[1:], end_ns.size) - 1
    total = np.add.reduceat(known, starts)
    means = np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)
    return Line(end_ns[lasts], means)
