"""Fits the parameters of a link from timed transfers; pure, so that stored samples fit again.

What copies in one direction cost is L + o, G, g, and the curves by size. How much traffic slows
other traffic follows from how long both took together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lanescope.codec.fields import from_attributes
from lanescope.errors import InputError, command
from lanescope.prediction.costs import IntervalPart, ParameterValues, transfer_seconds
from lanescope.prediction.graphs import TaskGraph
from lanescope.prediction.parameters import (
    CopyCost,
    Direction,
    Duplex,
    Errors,
    Launching,
    LinkParameters,
    Mapped,
    Mixture,
    Origin,
    Paced,
    Range,
)
from lanescope.prediction.points import (
    LONG_PART,
    MeasuredPoint,
    Point,
    PointKind,
    median_of,
    pattern_of,
    settle,
)
from lanescope.prediction.replay import USUAL, Simulation
from lanescope.results import FloatArray
from lanescope.units.estimate import Estimate, Surface, TimeCurve

#: A fit is of use while 95 % of the transfers that it did not see lie within this share.
USABLE = 0.1
#: Of pinned memory, from which times of other sizes follow.
_FEWEST_SIZES = 2
#: Errors are told of transfers from there on: below, a call's jitter is more than that.
_COMPARED_BYTES = 64 << 10
#: From there on a copy's time is its bytes', to a per cent or so.
_LONG_BYTES = 8 << 20
#: Copies from there on are moved by an engine wherever that was seen, and not by the thread.
_ENGINE_BYTES = 64 << 10
#: A longer copy may come out so much faster than a shorter one before points contradict.
_TOLERANCE = 0.1
_FEWEST_OF_A_CURVE = 4
#: No traffic makes other traffic slower than so many times.
_MOST_FACTOR = 8.0
#: The gap is fitted in this unit, so that it is about as large as the factors; seconds.
_GAP_UNIT = 5e-6
#: So weakly a gap of none is preferred: where it changes no time, there is none.
_NO_GAP = 1e-4
#: As there are three unknowns.
_FEWEST_POINTS = 4
#: A kernel whose writes take nearly all of its time tells no more than one that only writes.
_MOST_SHARE = 0.97
_STEPS = 30


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What is known of a link without timing it.

    Attributes are those of `LinkParameters`.
    """

    name: str
    gpu: str
    link: str
    source: str
    copy_engines: int
    machine_key: str | None
    day: str
    memory_bytes: int | None = None
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class Residual:
    """A transfer that the fit did not use, and what it predicts of it.

    Attributes
    ----------
    point
        The transfer.
    measured, predicted
        Seconds.
    """

    point: Point
    measured: Estimate
    predicted: Estimate

    @property
    def error(self) -> float:
        """Signed, as a share of the measured time."""
        return self.predicted.value / self.measured.value - 1


def fit(measured: Sequence[MeasuredPoint], facts: LinkFacts) -> LinkParameters:
    """Return the parameters that the points tell which are not held out.

    Raises
    ------
    InputError
        If there are too few points, or they contradict each other.
    """
    measured = settle(measured)
    used = [m for m in measured if not m.point.held_out]
    copies = [m.point for m in used if m.point.kind is PointKind.COPIES]
    if not copies:
        raise InputError(
            "the fit has no copies of pinned memory to learn from; run "
            f"{command('model fit')} again"
        )
    parameters = from_attributes(
        LinkParameters,
        facts,
        origin=Origin.MEASURED,
        copy_engines=min(facts.copy_engines, 2),
        implicit_synchronisation=False,
        h2d=fit_direction(Direction.H2D, used),
        d2h=fit_direction(Direction.D2H, used),
        pageable_h2d=fit_pageable(Direction.H2D, used, PointKind.PAGEABLE),
        pageable_d2h=fit_pageable(Direction.D2H, used, PointKind.PAGEABLE),
        cached_h2d=fit_pageable(Direction.H2D, used, PointKind.PAGEABLE, PointKind.CACHED),
        cached_d2h=fit_pageable(Direction.D2H, used, PointKind.PAGEABLE, PointKind.CACHED),
        fresh_d2h=fit_pageable(Direction.D2H, used, PointKind.FRESH),
        launching=_launching(used),
        pinning=_pinning(used),
        measured=Range(
            min(point.bytes for point in copies),
            max(point.bytes for point in copies),
            max(point.streams for point in copies),
        ),
    )
    parameters = replace(parameters, mapped=_mapped(used, parameters))
    parameters = replace(
        parameters,
        duplex=fit_duplex(used, parameters),
        explicit_mapped=fit_explicit_mapped(used, parameters),
        paced=fit_paced(used, parameters),
    )
    return replace(parameters, errors=errors_of(residuals(measured, parameters)))


def residuals(
    measured: Sequence[MeasuredPoint], parameters: LinkParameters
) -> tuple[Residual, ...]:
    """Compare what the fit did not use with what it predicts."""
    return tuple(
        Residual(
            m.point,
            m.whole,
            transfer_seconds(parameters.copies(m.point.direction), m.point.bytes, m.point.streams),
        )
        for m in settle(measured)
        if m.point.held_out and m.point.kind is PointKind.COPIES
    )


def is_usable(parameters: LinkParameters) -> bool:
    """Whether a fit describes transfers that it did not see well enough to predict by it."""
    return parameters.errors is None or parameters.errors.p95 <= USABLE


def errors_of(compared: Sequence[Residual]) -> Errors | None:
    """Return how large the errors of copies of 64 KiB and more are; None without any."""
    sizes = np.array(
        [abs(r.error) for r in compared if r.point.bytes >= _COMPARED_BYTES * r.point.streams]
    )
    if sizes.size == 0:
        return None
    median, p95 = (float(x) for x in np.percentile(sizes, [50, 95]))
    return Errors(int(sizes.size), median, p95, float(sizes.max()))


def _of_kind(measured: Sequence[MeasuredPoint], kind: PointKind) -> list[MeasuredPoint]:
    return [m for m in measured if m.point.kind is kind]


def _pinning(measured: Sequence[MeasuredPoint]) -> TimeCurve | None:
    """Return what pinned memory takes by its size: the median of all rounds, and their range."""
    found = sorted(_of_kind(measured, PointKind.PIN), key=lambda one: one.point.bytes)
    if len(found) < _FEWEST_SIZES:
        return None
    return TimeCurve(
        tuple(one.point.bytes for one in found),
        tuple(
            Estimate(one.whole.value, float(one.seconds.min()), float(one.seconds.max()))
            for one in found
        ),
    )


def _launching(measured: Sequence[MeasuredPoint]) -> Launching | None:
    """L + o of an empty kernel; what each further one holds the thread and the GPU."""
    launches = {m.point.streams: m for m in _of_kind(measured, PointKind.LAUNCHES)}
    events = _of_kind(measured, PointKind.EVENTS)
    if 1 not in launches or len(launches) < 2 or not events:
        return None
    count = max(launches)
    many, linked = launches[count], events[0]
    if many.held is None:
        return None
    # A recording and a wait for each kernel more than without events.
    more = (median_of(linked.calls).value - median_of(many.calls).value) / (
        2 * linked.point.streams
    )
    return Launching(
        first=launches[1].whole,
        call=_each(many.calls, count),
        gap=_each(many.held, count),
        event_call=Estimate.exactly(max(more, 0.0)),
    )


def _mapped(measured: Sequence[MeasuredPoint], parameters: LinkParameters) -> Mapped | None:
    """G of kernels that read, that write, and that do both, of the host's memory."""
    found = {(m.point.reads, m.point.writes): m for m in _of_kind(measured, PointKind.MAPPED)}
    launching = parameters.launching
    if launching is None or (1, 0) not in found or (0, 1) not in found:
        return None
    first = launching.first
    read, write = (
        _beyond(found[key].whole, first.value, found[key].point.bytes) for key in ((1, 0), (0, 1))
    )
    mapped = Mapped(first, read, write)
    return replace(mapped, mixture=fit_mixture(measured, mapped))


def fit_direction(direction: Direction, measured: Sequence[MeasuredPoint]) -> CopyCost:
    """Return the parameters of copies of pinned memory.

    L + o is the time of the smallest copy. G is the slope of the times of single copies of 8 MiB
    and more. g is what each further of many queued copies costs the engine beside its bytes, the
    median over copies of 64 KiB and more: from many, as one gap is a thousandth of what is
    timed.

    Raises
    ------
    InputError
        If there are too few points, or they contradict each other.
    """
    mine = [
        m for m in measured if m.point.kind is PointKind.COPIES and m.point.direction is direction
    ]
    counts = sorted({m.point.streams for m in mine})
    by_count = {n: _by_size([m for m in mine if m.point.streams == n]) for n in counts}
    single = by_count.get(1, {})
    if len(single) < _FEWEST_OF_A_CURVE or counts[-1] < 2:
        raise InputError(
            f"the fit has too few points of {direction} copies: it takes {_FEWEST_OF_A_CURVE} "
            f"sizes or more in one stream, and some in many; run {command('model fit')} again"
        )
    _require_rising(direction, single)
    alone = _curve({size: m.whole for size, m in single.items()})
    per_byte = slope_of({s: m for s, m in single.items() if s >= _LONG_BYTES} or single)
    most, usual = by_count[counts[-1]], counts[len(counts) // 2]
    further = {n: _further(alone, by_count[n], n) for n in counts[1:]}
    return CopyCost(
        first=alone.seconds[0],
        per_byte=per_byte,
        gap=_gap(further[counts[-1]], per_byte),
        single=alone,
        next=Surface(tuple(further), tuple(_curve(times) for times in further.values())),
        call=_curve({size: _each(m.calls, usual) for size, m in by_count[usual].items()}),
        engine=_engine(most, counts[-1], alone),
    )


def fit_pageable(
    direction: Direction, measured: Sequence[MeasuredPoint], *kinds: PointKind
) -> CopyCost | None:
    """Return the parameters of single copies of pageable memory; None without points.

    Of sizes that several kinds have, the last kind counts, which has to have some.
    """
    mine: dict[float, MeasuredPoint] = {}
    for kind in kinds:
        those = _by_size(
            [m for m in measured if m.point.kind is kind and m.point.direction is direction]
        )
        mine = dict(sorted((mine | those).items())) if those else {}
    if len(mine) < _FEWEST_OF_A_CURVE:
        return None
    alone = _curve({size: m.whole for size, m in mine.items()})
    # No straight line fits copies that the thread stages: it tells what the largest one takes.
    largest = alone.sizes[-1]
    return CopyCost(
        first=alone.seconds[0],
        per_byte=alone.seconds[-1].map(lambda seconds: seconds / largest),
        gap=Estimate.exactly(0.0),
        single=alone,
        next=Surface((2,), (alone,)),
        engine=alone,  # the thread stages what the engine moves: it is held as long
        call=_curve({size: median_of(m.calls) for size, m in mine.items()}),
    )


def slope_of(measured: Mapping[float, MeasuredPoint]) -> Estimate:
    """Return G: the slope of time over size, each size weighted by its relative error.

    The interval is that of the least squares, 95 % by Student's distribution, or wider where
    the medians themselves are less well known.
    """
    from scipy.stats import t as student

    sizes = np.array(list(measured))
    times = [m.whole for m in measured.values()]
    middle = np.array([t.value for t in times])
    matrix = np.column_stack([1 / middle, sizes / middle])
    solution, *_ = np.linalg.lstsq(matrix, np.ones_like(middle), rcond=None)
    slope = float(solution[1])
    free = len(sizes) - 2
    spread = 0.0
    if free > 0:
        residual = np.ones_like(middle) - matrix @ solution
        covariance = np.linalg.inv(matrix.T @ matrix) * float(residual @ residual) / free
        spread = float(student.ppf(0.975, free) * np.sqrt(covariance[1, 1]))
    longest = times[-1]
    known = slope * (longest.high - longest.low) / longest.value / 2
    wide = max(spread, known)
    if not 0 < wide < slope:
        wide = min(wide, slope / 2)
    return Estimate(slope, slope - wide, slope + wide)


def _by_size(measured: Sequence[MeasuredPoint]) -> dict[float, MeasuredPoint]:
    sizes = {m.point.bytes / m.point.streams: m for m in measured if not m.point.held_out}
    return dict(sorted(sizes.items()))


def _curve(seconds: Mapping[float, Estimate]) -> TimeCurve:
    return TimeCurve(tuple(round(size) for size in seconds), tuple(seconds.values()))


def _require_rising(direction: Direction, single: Mapping[float, MeasuredPoint]) -> None:
    """Long copies that are faster than shorter ones would make nonsense of all that follows."""
    before: tuple[float, float] | None = None
    for size, one in single.items():
        if size < _LONG_BYTES:
            continue
        took = one.whole.value
        if before is not None and took < before[1] * (1 - _TOLERANCE):
            raise InputError(
                f"the points of {direction} copies contradict each other: {round(size)} bytes took "
                f"{took * 1e6:.1f} us, {round(before[0])} bytes took {before[1] * 1e6:.1f} us; "
                f"leave the GPU to the fit alone and run {command('model fit')} again"
            )
        before = size, took


def _further(
    alone: TimeCurve, many: Mapping[float, MeasuredPoint], count: int
) -> dict[float, Estimate]:
    """What each copy after the first one costs, from what so many cost."""
    found = {}
    for size, one in many.items():
        first, whole = alone.at(size), one.whole
        value = max((whole.value - first.value) / (count - 1), 0.0)
        low = max((whole.low - first.high) / (count - 1), 0.0)
        high = (whole.high - first.low) / (count - 1)
        found[size] = Estimate(value, min(low, value), max(high, value))
    return found


def _gap(further: Mapping[float, Estimate], per_byte: Estimate) -> Estimate:
    """What is left of a further copy's time without its bytes': the median over sizes."""
    left = np.array(
        [
            seconds.value - size * per_byte.value
            for size, seconds in further.items()
            if _ENGINE_BYTES <= size < _LONG_BYTES
        ]
    )
    if left.size == 0:
        return Estimate.exactly(0.0)
    middle = median_of(left)
    return middle.map(lambda seconds: max(seconds, 0.0))


def _engine(many: Mapping[float, MeasuredPoint], count: int, alone: TimeCurve) -> TimeCurve:
    """How long the engine is held by each of many copies that were all handed over before.

    Above the largest such copy it is the single copy's time without its delays.
    """
    held = {s: _each(one.held, count) for s, one in many.items() if one.held is not None}
    largest = max(held)
    delay = alone.at(largest).value - held[largest].value
    for size, seconds in zip(alone.sizes, alone.seconds, strict=True):
        if size > largest:
            held[float(size)] = seconds.map(lambda whole: whole - delay)
    return _curve(held)


def _each(seconds: FloatArray, count: int) -> Estimate:
    """Return what each of so many takes of the times of all."""
    return median_of(seconds).map(lambda whole: whole / count)


@dataclass(frozen=True, slots=True)
class _OpposingFlows:
    """Two flows of opposite directions, and the name that their G has among the parameters."""

    kind: PointKind
    name: str
    h2d_per_byte: Estimate
    d2h_per_byte: Estimate

    def at(self, parameters: LinkParameters, factors: FloatArray) -> LinkParameters:
        """Return the parameters with both slowed so many times."""
        down, up, gap = map(float, factors)
        both = Duplex(
            Estimate.exactly(self.h2d_per_byte.value * down),
            Estimate.exactly(self.d2h_per_byte.value * up),
            Estimate.exactly(gap * _GAP_UNIT),
        )
        return replace(parameters, **{self.name: both})  # type: ignore[arg-type]


def fit_duplex(measured: Sequence[MeasuredPoint], parameters: LinkParameters) -> Duplex | None:
    """Return G of copies while copies go the other way; None where that was not measured."""
    one = _OpposingFlows(
        PointKind.DUPLEX, "duplex", parameters.h2d.per_byte, parameters.d2h.per_byte
    )
    long = [m for m in measured if _part_bytes(m.point) >= LONG_PART]
    found = _fitted(one, long, parameters)
    if found is None:
        return None
    short = [m for m in measured if m.point.kind is PointKind.DUPLEX and m not in long]
    return replace(found, gaps=_gaps(short, replace(parameters, duplex=found)))


def _part_bytes(point: Point) -> int:
    return min(point.h2d_bytes, point.d2h_bytes) // point.streams


def _gaps(short: Sequence[MeasuredPoint], parameters: LinkParameters) -> TimeCurve | None:
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
    return TimeCurve(tuple(sizes), tuple(found[size] for size in sizes))


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
    flat = TimeCurve((1, LONG_PART), (Estimate.exactly(gap),) * 2)
    known = replace(parameters, duplex=replace(both, gaps=flat))
    return Simulation(graph, ParameterValues(known, IntervalPart.VALUE, USUAL), None).seconds()


def fit_explicit_mapped(
    measured: Sequence[MeasuredPoint], parameters: LinkParameters
) -> Duplex | None:
    """Return G of copies to the GPU and of kernels that write mapped memory, both at once."""
    if parameters.mapped is None:
        return None
    one = _OpposingFlows(
        PointKind.EXPLICIT_MAPPED,
        "explicit_mapped",
        parameters.h2d.per_byte,
        parameters.mapped.write_per_byte,
    )
    return _fitted(one, measured, parameters)


def fit_mixture(measured: Sequence[MeasuredPoint], mapped: Mapped) -> Mixture | None:
    """Return how much longer kernels take that read and write mapped memory; None without any."""
    factors: dict[float, Estimate] = {}
    for one in measured:
        point = one.point
        if point.kind is not PointKind.MAPPED or not (point.reads and point.writes):
            continue
        reading = point.h2d_bytes * mapped.read_per_byte.value
        writing = point.d2h_bytes * mapped.write_per_byte.value
        share = writing / (reading + writing)
        factors[share] = _beyond(one.whole, mapped.first.value, max(reading, writing))
    if not factors:
        return None
    shares = tuple(sorted(factors))
    return Mixture(shares, tuple(factors[share] for share in shares))


def _beyond(whole: Estimate, first: float, unit: float) -> Estimate:
    """Return what a kernel takes beyond an empty one, in such units."""
    return whole.map(lambda seconds: max(seconds - first, 0.0) / unit)


def _fitted(
    one: _OpposingFlows, measured: Sequence[MeasuredPoint], parameters: LinkParameters
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
        rates = ParameterValues(one.at(parameters, factors), IntervalPart.VALUE, USUAL)
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


def fit_paced(measured: Sequence[MeasuredPoint], parameters: LinkParameters) -> Paced | None:
    """Return the factors for each share that was measured; None without any."""
    if parameters.mapped is None:
        return None
    found = {}
    for work in sorted({m.point.work for m in measured if m.point.kind is PointKind.PACED}):
        points = [m for m in measured if m.point.kind is PointKind.PACED and m.point.work == work]
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


def _share(alone: MeasuredPoint, mapped: Mapped) -> float:
    writes = alone.point.d2h_bytes * mapped.write_per_byte.value
    return writes / max(alone.whole.value - mapped.first.value, 1e-9)


def _factors(
    points: Sequence[MeasuredPoint], parameters: LinkParameters
) -> tuple[Estimate, Estimate]:
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
