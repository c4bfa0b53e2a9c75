"""What a program takes for each call besides the driver, as part of the parameters of its link.

Libraries and interpreters need some µs before each call of the driver. One thread makes all calls,
so a round of many short copies takes as long as that thread does, whatever the link can carry.
"""

from __future__ import annotations

from dataclasses import replace

from lanescope.prediction.curves import Curve, Surface
from lanescope.prediction.parameters import CopyCost, Launching, LinkParameters
from lanescope.units.estimate import Estimate

#: A curve that is the same at all sizes has these; larger ones go on as it does.
_ANY_SIZE = (1, 1 << 40)


def with_host_time(parameters: LinkParameters, seconds: float) -> LinkParameters:
    """Return the parameters for a program whose calls each take so many seconds more.

    A copy alone, and each of pageable memory, takes that much longer; a further copy of pinned
    memory as long as its call, if that is longer than the engine needs.
    """
    if not seconds:
        return parameters
    known = parameters.launching or Launching(*[Estimate.exactly(0.0)] * 4)
    return replace(
        parameters,
        h2d=_queued(parameters.h2d, seconds),
        d2h=_queued(parameters.d2h, seconds),
        pageable_h2d=_waited(parameters.pageable_h2d, seconds),
        pageable_d2h=_waited(parameters.pageable_d2h, seconds),
        fresh_d2h=_waited(parameters.fresh_d2h, seconds),
        launching=replace(
            known, first=_later(known.first, seconds), call=_later(known.call, seconds)
        ),
    )


def _queued(cost: CopyCost, seconds: float) -> CopyCost:
    """Return what copies cost that are handed over without waiting for them."""
    call = _called(cost, seconds)
    further = cost.next
    if further is not None:
        further = Surface(
            further.streams,
            tuple(
                Curve(
                    curve.sizes,
                    tuple(
                        _longer(one, call.at(size))
                        for size, one in zip(curve.sizes, curve.seconds, strict=True)
                    ),
                )
                for curve in further.curves
            ),
        )
    gap = cost.gap if further is not None else _longer(cost.gap, Estimate.exactly(seconds))
    return replace(_alone(cost, seconds), call=call, gap=gap, next=further)


def _waited(cost: CopyCost | None, seconds: float) -> CopyCost | None:
    """Return what copies cost each of which holds the thread that makes it."""
    if cost is None:
        return None
    further = cost.next
    if further is not None:
        curves = tuple(_raised(curve, seconds) for curve in further.curves)
        further = Surface(further.streams, curves)
    return replace(
        _alone(cost, seconds),
        call=_called(cost, seconds),
        gap=_later(cost.gap, seconds),
        next=further,
    )


def _alone(cost: CopyCost, seconds: float) -> CopyCost:
    single = None if cost.single is None else _raised(cost.single, seconds)
    return replace(cost, first=_later(cost.first, seconds), single=single)


def _called(cost: CopyCost, seconds: float) -> Curve:
    if cost.call is None:
        return Curve(_ANY_SIZE, (Estimate.exactly(seconds),) * 2)
    return _raised(cost.call, seconds)


def _raised(curve: Curve, seconds: float) -> Curve:
    return Curve(curve.sizes, tuple(_later(one, seconds) for one in curve.seconds))


def _later(one: Estimate, seconds: float) -> Estimate:
    return one.map(lambda known: known + seconds)


def _longer(one: Estimate, other: Estimate) -> Estimate:
    return Estimate(max(one.value, other.value), max(one.low, other.low), max(one.high, other.high))
