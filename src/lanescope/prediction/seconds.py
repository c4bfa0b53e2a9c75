"""What a transfer of some bytes in some streams takes, from the parameters of its direction.

A program takes time for each call besides the driver: libraries and interpreters need some µs
before each. One thread makes all calls, so a round of many short copies takes as long as that
thread does, whatever the link can carry."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from lanescope.prediction.parameters import CopyCost, Launching, LinkParameters, Mapped
from lanescope.units.estimate import Curve, Estimate, Surface
from lanescope.units.words import time_text

#: A curve that is the same at all sizes has these; larger ones go on as it does.
_ANY_SIZE = (1, 1 << 40)


def single_seconds(direction: CopyCost, size: float) -> Estimate:
    """Return the time of one copy: ``L + o + B * G``, or as measured at such sizes."""
    if direction.single is not None:
        return direction.single.at(size)
    return _line(direction.first, direction.per_byte, size)


def next_seconds(direction: CopyCost, size: float, copies: float = inf) -> Estimate:
    """Return what a further copy of that size costs: ``g + B * G``, or as measured.

    `copies` is how many there are of them; by default as many as were measured.
    """
    if direction.next is not None:
        return direction.next.at(size, copies)
    return _line(direction.gap, direction.per_byte, size)


def transfer_seconds(direction: CopyCost, size: int, streams: int) -> Estimate:
    """Return the time of so many bytes, cut into equal copies on as many streams.

    ``L + o + B * G + g * (streams - 1)`` (van Werkhoven et al. 2014, section V), where L + o and
    g depend on the size of the copies if they were measured so.
    """
    if size < 0 or streams < 1:
        raise ValueError("a transfer has 0 or more bytes and 1 or more streams")
    first, further = single_seconds(direction, size / streams), Estimate.exactly(0.0)
    if streams > 1:
        further = next_seconds(direction, size / streams, streams)
    more = streams - 1
    return Estimate(
        first.value + more * further.value,
        first.low + more * further.low,
        first.high + more * further.high,
    )


def mapped_seconds(mapped: Mapped, reads: float, writes: float) -> tuple[Estimate, Estimate]:
    """Return how long so many bytes read and written by one kernel keep each direction busy.

    Both are slower than alone by the same factor, as one thread reads and then writes.
    """
    factor = Estimate.exactly(1.0)
    if mapped.mixture is not None and reads and writes:
        reading = reads * mapped.read_per_byte.value
        writing = writes * mapped.write_per_byte.value
        factor = mapped.mixture.at(writing / (reading + writing))
    return (
        _times(mapped.read_per_byte, factor, reads),
        _times(mapped.write_per_byte, factor, writes),
    )


def _times(per_byte: Estimate, factor: Estimate, size: float) -> Estimate:
    return Estimate(
        size * per_byte.value * factor.value,
        size * per_byte.low * factor.low,
        size * per_byte.high * factor.high,
    )


def _line(start: Estimate, slope: Estimate, size: float) -> Estimate:
    return Estimate(
        start.value + size * slope.value,
        start.low + size * slope.low,
        start.high + size * slope.high,
    )


def with_host_time(parameters: LinkParameters, seconds: float) -> LinkParameters:
    """Return the parameters for a program whose calls each take so many seconds more.

    A copy alone takes that much longer; a further one as long as its call and that, if it is longer
    than the copy needs behind another.
    """
    if not seconds:
        return parameters
    known = parameters.launching or Launching(*[Estimate.exactly(0.0)] * 4)
    return replace(
        parameters,
        name=f"{parameters.name} with {time_text(seconds)} of the program for each call",
        h2d=_queued(parameters.h2d, seconds),
        d2h=_queued(parameters.d2h, seconds),
        pageable_h2d=_staged(parameters.pageable_h2d, seconds),
        pageable_d2h=_staged(parameters.pageable_d2h, seconds),
        fresh_d2h=_staged(parameters.fresh_d2h, seconds),
        launching=replace(
            known, first=_later(known.first, seconds), call=_later(known.call, seconds)
        ),
    )


def _queued(cost: CopyCost, seconds: float) -> CopyCost:
    """Return what copies cost that are handed over without waiting for them."""
    call = _called(cost, seconds)
    gap = _longer(cost.gap, Estimate.exactly(seconds)) if cost.next is None else cost.gap
    return replace(_alone(cost, seconds), call=call, gap=gap, next=_bounded(cost.next, call))


def _staged(cost: CopyCost | None, seconds: float) -> CopyCost | None:
    """Return what copies of pageable memory cost, during whose calls the thread does nothing else.

    A call returns before its copy has ended, so that the program goes on meanwhile; the next copy
    waits for that end.
    """
    if cost is None:
        return None
    if cost.call is None or cost.next is None or cost.engine is None:
        further = cost.next and Surface(
            cost.next.streams, tuple(_raised(curve, seconds) for curve in cost.next.curves)
        )
        return replace(_alone(cost, seconds), gap=_later(cost.gap, seconds), next=further)
    call = _raised(cost.call, seconds)
    return replace(
        _alone(cost, seconds),
        next=_bounded(cost.next, call),
        engine=_at_least(cost.engine, call),
    )


def _bounded(further: Surface | None, call: Curve) -> Surface | None:
    """Return what further copies cost where the thread takes so long for each."""
    if further is None:
        return None
    return Surface(further.streams, tuple(_at_least(curve, call) for curve in further.curves))


def _at_least(curve: Curve, call: Curve) -> Curve:
    seconds = zip(curve.sizes, curve.seconds, strict=True)
    return Curve(curve.sizes, tuple(_longer(one, call.at(size)) for size, one in seconds))


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
