"""Fits how much traffic slows other traffic, from how long both took together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lanescope.prediction.costs import Level, Rates
from lanescope.prediction.graphs import TaskGraph
from lanescope.prediction.parameters import Duplex, LinkParameters, Mapped, Mixture, Paced
from lanescope.prediction.points import LONG_PART, Kind, Measured, Point, pattern_of
from lanescope.prediction.replay import USUAL, Simulation
from lanescope.results import FloatArray
from lanescope.units.estimate import Curve, Estimate

#: No traffic makes other traffic slower than so many times.
_MOST_FACTOR = 8.0
#: The gap is fitted in this unit, so that it is about as large as the factors; seconds.
_GAP_UNIT = 5e-6
#: So weakly a gap of none is preferred: where it changes no time, there is none.
_NO_GAP = 1e-4
#: As there are three unknowns.
_FEWEST_POINTS = 4


@dataclass(frozen=True, slots=True)
class _Opposing:
    """Two flows of opposite directions, and how their G is put among the parameters."""

    kind: Kind
    put: Callable[[LinkParameters, Duplex], LinkParameters]
    h2d_per_byte: Estimate
    d2h_per_byte: Estimate

    def at(self, parameters: LinkParameters, factors: FloatArray) -> LinkParameters:
        """Return the parameters with both slowed so many times."""
        down, up, gap = map(float, factors)
        return self.put(
            parameters,
            Duplex(
                Estimate.exactly(self.h2d_per_byte.value * down),
                Estimate.exactly(self.d2h_per_byte.value * up),
                Estimate.exactly(gap * _GAP_UNIT),
            ),
        )


def fit_duplex(measured: Sequence[Measured], parameters: LinkParameters) -> Duplex | None:
    """Return G of copies while copies go the other way; None where that was not measured."""
    one = _Opposing(Kind.DUPLEX, _with_duplex, parameters.h2d.per_byte, parameters.d2h.per_byte)
    long = [m for m in measured if _part_bytes(m.point) >= LONG_PART]
    found = _fitted(one, long, parameters)
    if found is None:
        return None
    short = [m for m in measured if m.point.kind is Kind.DUPLEX and m not in long]
    return replace(found, gaps=_gaps(short, replace(parameters, duplex=found)))


def _part_bytes(point: Point) -> int:
    return min(point.h2d_bytes, point.d2h_bytes) // point.streams


def _gaps(short: Sequence[Measured], parameters: LinkParameters) -> Curve | None:
    """Return by the size of short parts how much longer each holds its engine; None without any.

    With the gap, the replay takes as long as was measured.
    """
    both = parameters.duplex
    if both is None or both.gap is None or not short:
        return None
    found = {
        _part_bytes(m.point): m.whole.map(partial(_gap_for, pattern_of(m.point), parameters))
        for m in short
    }
    found[LONG_PART] = both.gap
    sizes = sorted(found)
    return Curve(tuple(sizes), tuple(found[size] for size in sizes))


def _gap_for(graph: TaskGraph, parameters: LinkParameters, seconds: float) -> float:
    """Return the gap with which the replay of a graph takes so long, of any that may be."""
    low, high = 0.0, max(parameters.h2d.first.value, parameters.d2h.first.value)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _seconds_with(graph, parameters, middle) < seconds:
            low = middle
        else:
            high = middle
    return low


def _seconds_with(graph: TaskGraph, parameters: LinkParameters, gap: float) -> float:
    both = parameters.duplex
    if both is None:
        return 0.0
    flat = Curve((1, LONG_PART), (Estimate.exactly(gap),) * 2)
    known = replace(parameters, duplex=replace(both, gaps=flat))
    return Simulation(graph, Rates(known, Level.VALUE, USUAL), None).seconds()


def fit_explicit_mapped(measured: Sequence[Measured], parameters: LinkParameters) -> Duplex | None:
    """Return G of copies to the GPU and of kernels that write mapped memory, both at once."""
    if parameters.mapped is None:
        return None
    one = _Opposing(
        Kind.EXPLICIT_MAPPED,
        _with_explicit_mapped,
        parameters.h2d.per_byte,
        parameters.mapped.write_per_byte,
    )
    return _fitted(one, measured, parameters)


def _with_duplex(parameters: LinkParameters, both: Duplex) -> LinkParameters:
    return replace(parameters, duplex=both)


def _with_explicit_mapped(parameters: LinkParameters, both: Duplex) -> LinkParameters:
    return replace(parameters, explicit_mapped=both)


def fit_mixture(measured: Sequence[Measured], mapped: Mapped) -> Mixture | None:
    """Return how much longer kernels take that read and write mapped memory; None without any."""
    factors: dict[float, Estimate] = {}
    for one in measured:
        point = one.point
        if point.kind is not Kind.MAPPED or not (point.reads and point.writes):
            continue
        reading = point.h2d_bytes * mapped.read_per_byte.value
        writing = point.d2h_bytes * mapped.write_per_byte.value
        share = writing / (reading + writing)
        factors[share] = _factor(one.whole, mapped.first.value, max(reading, writing))
    if not factors:
        return None
    shares = tuple(sorted(factors))
    return Mixture(shares, tuple(factors[share] for share in shares))


def _factor(whole: Estimate, first: float, alone: float) -> Estimate:
    return whole.map(lambda seconds: max(seconds - first, 0.0) / alone)


def _fitted(
    one: _Opposing, measured: Sequence[Measured], parameters: LinkParameters
) -> Duplex | None:
    """Return the two factors and the gap with which the replay comes closest to all points.

    Weighted by the relative error. The interval is that of the least squares, 95 % by Student's
    distribution.
    """
    from scipy.optimize import least_squares

    points = [m for m in measured if m.point.kind is one.kind]
    if len(points) < _FEWEST_POINTS:
        return None
    graphs = [pattern_of(m.point) for m in points]
    times = np.array([m.whole.value for m in points])

    def errors(factors: FloatArray) -> FloatArray:
        rates = Rates(one.at(parameters, factors), Level.VALUE, USUAL)
        found = [Simulation(graph, rates, None).seconds() for graph in graphs]
        return np.append(np.array(found) / times - 1, _NO_GAP * float(factors[2]))

    # No copy holds its engine longer beside traffic than one of no bytes takes altogether.
    most_gap = max(parameters.h2d.first.value, parameters.d2h.first.value) / _GAP_UNIT
    bounds = ([1.0, 1.0, 0.0], [_MOST_FACTOR, _MOST_FACTOR, most_gap])
    begin = [1.2, 1.2, most_gap / 4]
    solved = least_squares(errors, begin, bounds=bounds, diff_step=1e-3)
    widths = _widths(solved.jac, solved.fun)
    down, up = (
        _slowed(per_byte, float(factor), float(width))
        for per_byte, factor, width in zip(
            (one.h2d_per_byte, one.d2h_per_byte), solved.x[:2], widths[:2], strict=True
        )
    )
    gap, width = float(solved.x[2]), float(widths[2])
    known = Estimate(gap, max(gap - width, 0.0), max(min(gap + width, most_gap), gap))
    return Duplex(down, up, known.map(lambda units: units * _GAP_UNIT))


def _widths(jacobian: FloatArray, residual: FloatArray) -> FloatArray:
    """Half-widths of the 95 % intervals of a least squares' solution."""
    from scipy.stats import t as student

    free = len(residual) - jacobian.shape[1]
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * float(residual @ residual) / max(free, 1)
    return np.asarray(student.ppf(0.975, max(free, 1)) * np.sqrt(np.diag(covariance)))


def _slowed(per_byte: Estimate, factor: float, width: float) -> Estimate:
    """Return G times a factor that is known so well; traffic never makes it faster."""
    low, high = max(factor - width, 1.0), min(factor + width, _MOST_FACTOR)
    return Estimate(
        per_byte.value * factor,
        min(per_byte.low * low, per_byte.value * factor),
        max(per_byte.high * high, per_byte.value * factor),
    )


#: A kernel whose writes take nearly all of its time tells no more than one that only writes.
_MOST_SHARE = 0.97
_STEPS = 30


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
        during_copies = copies[0] * copy_factor
        kernel_factor = _slowed_by(1 - (with_short - kernel) / during_copies)
        during_copies = kernel * kernel_factor
        copy_factor = _slowed_by(1 - (with_long - copies[1]) / during_copies)
    return copy_factor, kernel_factor


def _slowed_by(pace: float) -> float:
    return 1 / min(max(pace, 1 / _MOST_FACTOR), 1.0)
