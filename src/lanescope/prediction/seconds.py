"""What a transfer of some bytes in some streams takes, from the parameters of its direction."""

from __future__ import annotations

from math import inf

from lanescope.prediction.parameters import CopyCost, Mapped
from lanescope.units.estimate import Estimate


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
