"""Fits what copies in one direction cost: L + o, G, g, and the curves by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lanescope.argument_names import command
from lanescope.errors import InputError
from lanescope.prediction.curves import Curve, Surface
from lanescope.prediction.parameters import CopyCost, Direction
from lanescope.prediction.points import Kind
from lanescope.prediction.samples import Measured, median_of
from lanescope.results.result import FloatArray
from lanescope.units.estimate import Estimate

#: From there on a copy's time is its bytes', to a per cent or so.
_LONG_BYTES = 8 << 20
#: Copies from there on are moved by an engine wherever that was seen, and not by the thread.
_ENGINE_BYTES = 64 << 10
#: A longer copy may come out so much faster than a shorter one before points contradict.
_TOLERANCE = 0.1
_FEWEST_SIZES = 4


def fit_direction(direction: Direction, measured: Sequence[Measured]) -> CopyCost:
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
    mine = [m for m in measured if m.point.kind is Kind.COPIES and m.point.direction is direction]
    counts = sorted({m.point.streams for m in mine})
    by_count = {n: _by_size([m for m in mine if m.point.streams == n]) for n in counts}
    single = by_count.get(1, {})
    if len(single) < _FEWEST_SIZES or counts[-1] < 2:
        raise InputError(
            f"the fit has too few points of {direction} copies: it takes {_FEWEST_SIZES} sizes or "
            f"more in one stream, and some in many; run {command('model fit')} again"
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
        call=_curve(_calls(by_count[usual], usual)),
        engine=_engine(most, counts[-1], alone),
    )


def fit_pageable(
    direction: Direction, measured: Sequence[Measured], kind: Kind = Kind.PAGEABLE
) -> CopyCost | None:
    """Return the parameters of single copies of pageable memory; None without points."""
    mine = _by_size(
        [m for m in measured if m.point.kind is kind and m.point.direction is direction]
    )
    if len(mine) < _FEWEST_SIZES:
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


def slope_of(measured: Mapping[float, Measured]) -> Estimate:
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


def _by_size(measured: Sequence[Measured]) -> dict[float, Measured]:
    sizes = {m.point.bytes / m.point.streams: m for m in measured if not m.point.held_out}
    return dict(sorted(sizes.items()))


def _curve(seconds: Mapping[float, Estimate]) -> Curve:
    return Curve(tuple(round(size) for size in seconds), tuple(seconds.values()))


def _require_rising(direction: Direction, single: Mapping[float, Measured]) -> None:
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


def _further(alone: Curve, many: Mapping[float, Measured], count: int) -> dict[float, Estimate]:
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


def _calls(measured: Mapping[float, Measured], count: int) -> dict[float, Estimate]:
    """How long the thread is held by each of so many calls."""
    return {
        size: median_of(one.calls).map(lambda seconds: seconds / count)
        for size, one in measured.items()
    }


def _engine(many: Mapping[float, Measured], count: int, alone: Curve) -> Curve:
    """How long the engine is held by each of many copies that were all handed over before.

    Above the largest such copy it is the single copy's time without its delays.
    """
    held = {s: _held(one.held, count) for s, one in many.items() if one.held is not None}
    largest = max(held)
    delay = alone.at(largest).value - held[largest].value
    for size, seconds in zip(alone.sizes, alone.seconds, strict=True):
        if size > largest:
            held[float(size)] = seconds.map(lambda whole: whole - delay)
    return _curve(held)


def _held(seconds: FloatArray, count: int) -> Estimate:
    return median_of(seconds).map(lambda whole: whole / count)
