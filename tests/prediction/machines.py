"""Parameters of machines that are made up for the tests, and the paper's equations for streams."""

from dataclasses import replace

from lanescope.prediction.parameters import (
    CopyCost,
    Duplex,
    Launching,
    LinkParameters,
    Mapped,
    Origin,
)
from lanescope.prediction.replay import replay
from lanescope.units.estimate import Estimate, Surface, TimeCurve

exactly = Estimate.exactly


def direction(first=0.0, per_byte=1e-9, gap=0.0):
    return CopyCost(exactly(first), exactly(per_byte), exactly(gap))


def link(h2d=None, d2h=None, engines=2, synchronises=False, **more):
    """A machine; where nothing is said, without latencies, at 1 GB/s each way."""
    return LinkParameters(
        "made-up",
        "Test GPU",
        "test link",
        Origin.PUBLISHED,
        "a test",
        engines,
        synchronises,
        h2d or direction(),
        d2h or direction(),
        **more,
    )


def duplex(h2d, d2h):
    return Duplex(exactly(h2d), exactly(d2h))


def mapped(first=0.0, read=1e-9, write=1e-9, mixture=None):
    return Mapped(exactly(first), exactly(read), exactly(write), mixture)


def launching(first=0.0, call=0.0, gap=0.0, event_call=0.0):
    return Launching(*map(exactly, (first, call, gap, event_call)))


def curve(*points):
    sizes, seconds = zip(*points, strict=True)
    return TimeCurve(sizes, tuple(map(exactly, seconds)))


#: Measured as a fit would: each curve agrees with the others.
CURVED = CopyCost(
    exactly(6e-6),
    exactly(2e-11),
    exactly(1e-6),
    single=curve((1024, 6.1e-6), (1 << 20, 28e-6), (1 << 30, 21.482e-3)),
    next=Surface((256,), (curve((1024, 2e-6), (1 << 20, 22.5e-6), (1 << 30, 21.476e-3)),)),
    call=curve((1024, 2e-6), (1 << 30, 2e-6)),
    engine=curve((1024, 1.2e-6), (1 << 20, 22.5e-6), (1 << 30, 21.476e-3)),
)


def seconds(graph, parameters, **more):
    return replay(graph, parameters, **more).seconds


def with_latencies(parameters):
    """The same with L + o and g of the paper's table I."""
    return replace(
        parameters,
        h2d=direction(9.42e-6, 8.318392e-11, 2.503e-6),
        d2h=direction(9.023e-6, 7.924734e-11, 2.674e-6),
    )


def equation_5(h, e, d, n, more=0.0):
    return max(h + e / n + d / n, h / n + e + d / n, h / n + e / n + d) + more


def equation_4(h, e, d, n):
    return max(h + d, h + e / n + d / n, h / n + e / n + d)


def equation_3(h, e, d, n):
    return h / n + e + d / n
