"""Timed points of a made-up link that costs exactly what its parameters say."""

import numpy as np

from lanescope.prediction.costs import transfer_seconds
from lanescope.prediction.fit import LinkFacts
from lanescope.prediction.graphs import Task, TaskGraph, TaskKind
from lanescope.prediction.points import MeasuredPoint, PointKind, pattern_of, plan
from lanescope.prediction.replay import replay

FACTS = LinkFacts("made up", "Some GPU", "PCIe 4.0 x16", "a test", 2, "a key", "2026-11-21")
RUNS = 9
CALL = 1e-6
#: Of the computing of a paced kernel, for each byte that it writes.
SECONDS_A_STEP = 9e-15


def measured(parameters, points=None, *, noise=0.0, seed=0):
    """Return samples of points, by default of all that a fit takes."""
    random = np.random.default_rng(seed)
    return [_timed(point, parameters, noise, random) for point in points or plan()]


def _timed(point, parameters, noise, random):
    count = point.streams
    called, held = CALL * count, None
    if point.kind is PointKind.COPIES:
        cost = parameters.copies(point.direction)
        whole = transfer_seconds(cost, point.bytes, count).value
        each = point.bytes / count * cost.per_byte.value
        held = count * (cost.gap.value + each)
    elif point.kind is PointKind.PIN:
        whole = 1e-3 + point.bytes / 4e9
    elif point.kind is PointKind.FRESH:
        whole = 9e-6 + point.bytes / 2e9
    elif point.kind is PointKind.CACHED:
        whole = 5e-6 + point.bytes / 15e9
    elif point.kind is PointKind.PAGEABLE:
        whole = 5e-6 + point.bytes / 10e9
    elif point.kind in (PointKind.DUPLEX, PointKind.EXPLICIT_MAPPED):
        whole = replay(pattern_of(point), parameters).seconds
    elif point.kind is PointKind.PACED:
        whole = replay(_paced(point, parameters), parameters).seconds
    elif point.kind is PointKind.MAPPED:
        whole = _mapped(point, parameters.mapped)
    else:
        known = parameters.launching
        whole = known.first.value + (count - 1) * known.call.value
        called = count * known.call.value
        if point.kind is PointKind.EVENTS:
            called += 2 * count * known.event_call.value
        held = count * known.gap.value
    spread = 1 + noise * random.standard_normal(RUNS)
    return MeasuredPoint(
        point,
        np.full(RUNS, called),
        whole * spread,
        None if held is None else np.full(RUNS, held),
    )


def _paced(point, parameters):
    computing = point.work * point.d2h_bytes * SECONDS_A_STEP
    kernel = Task(TaskKind.KERNEL, 1, seconds=computing, writes=point.d2h_bytes)
    copies = [Task(TaskKind.H2D, bytes=point.h2d_bytes)] if point.h2d_bytes else []
    return TaskGraph((*copies, kernel))


def _mapped(point, mapped):
    reading = point.h2d_bytes * mapped.read_per_byte.value
    writing = point.d2h_bytes * mapped.write_per_byte.value
    factor = 1.2 if point.reads and point.writes else 1.0
    return mapped.first.value + factor * max(reading, writing)
