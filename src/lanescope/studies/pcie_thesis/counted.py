"""What counters tell of a program's steps: bytes, highest rates, and how fine they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.machine import Machine
from lanescope.studies.pcie_thesis.reproduction import Step
from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.limits import pcie_links
from lanescope.trace.rectangles import between
from lanescope.trace.timeline import Counters, Timeline
from lanescope.trace.wire import (
    RESOLUTION,
    payload_records,
    settle,
)
from lanescope.trace.wire_fit import default_of
from lanescope.units.bandwidth import bandwidths_gbs

#: A step is told in shape where so many samples fit into it: one whole, and its two edges.
SHAPE_SAMPLES = 3
#: Copies of counters and steps agree in time to some microseconds.
_LEAST_MARGIN_NS = 300_000
#: Where less is known of the steps, bytes say too little.
_LEAST_KNOWN = 0.99


@dataclass(frozen=True, slots=True, eq=False)
class Payload:
    """Payload of one counter, record by record; both directions in one clock.

    Attributes
    ----------
    end_ns
        End of each record, nanoseconds since 1970; the first has no start.
    bytes
        A row for each direction (h2d, d2h); below zero where the model takes off too much.
    known_ns
        How much of each record is known.
    """

    source: str
    end_ns: IntArray
    bytes: FloatArray
    known_ns: FloatArray

    @property
    def interval_ns(self) -> int:
        """From record to record, the median; 0 with fewer than two."""
        return int(np.median(np.diff(self.end_ns))) if self.end_ns.size > 1 else 0

    def gbs(self) -> FloatArray:
        """Rate of each record in GB/s, a row for each direction; not a number where unknown."""
        settled = settle(self.bytes[0], self.bytes[1], RESOLUTION)
        return np.stack([bandwidths_gbs(direction, self.known_ns * 1e-9) for direction in settled])


@dataclass(frozen=True, slots=True)
class CountedSteps:
    """What one counter tells of the steps that copy; pairs are to the GPU and from it.

    Attributes
    ----------
    bytes
        In those steps and a little around them; None where less than 99 % of it is known.
    elsewhere_bytes
        In the rest of the watch.
    highest_gbs
        Of a single record in those steps.
    interval_ns
        From record to record, the median.
    shaped
        How many of those steps are long enough that their shape can be seen.
    """

    source: str
    bytes: tuple[float, float] | None
    elsewhere_bytes: tuple[float, float]
    highest_gbs: tuple[float, float] | None
    interval_ns: int
    shaped: int


def payload_of(timeline: Timeline, counters: Counters, machine: Machine) -> Payload:
    """Return payload by the model that follows from PCIe's packets.

    It is not fitted to traced copies: told and true bytes would agree by themselves.
    """
    links = pcie_links(machine, counters.gpu)
    model = default_of(timeline, counters, links[0].pcie if links else None)
    operations = timeline.operations
    own = operations.rows(operations.is_copy & (operations.device == counters.gpu))
    parts = list(payload_records(counters, model, None, np.sort(own.end_ns)))
    rows = np.concatenate([rows for _, rows in parts]) if parts else np.empty((0, 3))
    return Payload(counters.source, counters.end_ns, rows[:, :2].T, rows[:, 2])


def counted_steps(payload: Payload, steps: Sequence[Step]) -> CountedSteps | None:
    """Return what counters tell of steps; None where they have no two records."""
    if payload.end_ns.size < 2:
        return None
    interval = payload.interval_ns
    edges = windows(steps, max(2 * interval, _LEAST_MARGIN_NS))
    inside = [_inside(payload, column, edges) for column in (*payload.bytes, payload.known_ns)]
    requested = float((edges[1::2] - edges[::2]).sum())
    settled = settle(np.array(inside[0]), np.array(inside[1]), RESOLUTION)
    sums = payload.bytes[:, 1:].sum(axis=1)
    known = requested > 0 and inside[2] >= _LEAST_KNOWN * requested
    return CountedSteps(
        payload.source,
        (float(settled[0]), float(settled[1])) if known else None,
        (max(float(sums[0]) - inside[0], 0.0), max(float(sums[1]) - inside[1], 0.0)),
        _highest(payload, edges),
        interval,
        sum(step.end_ns - step.begin_ns >= SHAPE_SAMPLES * interval for step in steps),
    )


def windows(steps: Sequence[Step], margin_ns: int) -> IntArray:
    """Return begin and end of the time of steps with a margin, in turns; what overlaps is one."""
    edges: list[int] = []
    for step in sorted(steps, key=lambda one: one.begin_ns):
        begin, end = step.begin_ns - margin_ns, step.end_ns + margin_ns
        if edges and begin <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        else:
            edges += [begin, end]
    return np.array(edges, np.int64)


def _inside(payload: Payload, column: FloatArray, edges: IntArray) -> float:
    return float(between(payload.end_ns, column, edges)[::2].sum()) if edges.size else 0.0


def _highest(payload: Payload, edges: IntArray) -> tuple[float, float] | None:
    place = np.searchsorted(edges, payload.end_ns, "right")
    rates = payload.gbs()[:, place % 2 == 1]
    if not rates.size or not np.isfinite(rates).any():
        return None
    down, up = np.nanmax(rates, axis=1)
    return float(down), float(up)
