"""A link's own wire model, from traced copies; and what watching causes, from pauses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lanescope.machine.pcie import PcieLink
from lanescope.watch.codes import Direction, FloatArray, IntArray
from lanescope.watch.operations import Operations
from lanescope.watch.rectangles import between, rectangles
from lanescope.watch.timeline import PCIE, Counters, Timeline
from lanescope.watch.wire import WireModel, default_model

#: Commands of smaller copies are a thousandth of their bytes and more.
LARGE_BYTES = 1 << 20
#: Long enough that copy edges, known to some microseconds, and bursts of decoding do not matter.
FIT_WINDOW_NS = 10_000_000
#: Windows with less payload are left out: what watching causes is 0.5 % of it.
LEAST_BYTES = 32 << 20
LEAST_WINDOWS = 5
#: With a larger residual not all traffic was traced, and the default is better.
MOST_RESIDUAL = 0.01
#: Packets of half or twice the size cost so much more or less. Beyond that it is traffic of
#: others in step with the copies, which a fit cannot tell from protocol.
MOST_DIFFERENCE = 0.05
#: A fit is off by some hundredths of a percent, as windows cut through records. What comes so
#: near to the sizes of packets confirms them, and these are more exact.
SAME = 0.002

#: Windows with less traffic are pauses: more than watching causes, less than any use of a link.
QUIET_BYTES_PER_SECOND = 30e6
QUIET_WINDOWS = 20
#: Records that are worked on at once.
_CHUNK = 1 << 20


def model_of(timeline: Timeline, counters: Counters, link: PcieLink | None = None) -> WireModel:
    """Return the best model of counters of PCIe: fitted where the trace allows, else the default.

    Raises
    ------
    ValueError
        If they are of another link, which has other packets.
    """
    if counters.link != PCIE:
        raise ValueError(f"counters of {counters.link} have no model of PCIe packets")
    told = default_model(counters.source, link, own=counters.own is not None)
    default = with_observer(told, counters)
    return fit(timeline, counters, default) or default


def with_observer(model: WireModel, counters: Counters) -> WireModel:
    """Return the model with what watching causes by this watch's own pauses.

    Bursts depend on how often samples are fetched. Without pauses nothing changes, and
    never more than the default is taken off: steady traffic of 4 MB/s could be hidden, no more.
    """
    if not any(model.per_sample) or not len(counters):
        return model
    edges = np.arange(int(counters.end_ns[0]), int(counters.end_ns[-1]), FIT_WINDOW_NS)
    rx, tx, known, own = _in_windows(counters, edges)
    if not known.size:
        return model
    most = QUIET_BYTES_PER_SECOND + sum(model.per_sample) * 1e9 / counters.interval_ns
    quiet = (known > 0.9 * FIT_WINDOW_NS) & ((rx + tx) < most * known * 1e-9)
    seconds, own_seconds = (float(x[quiet].sum()) * 1e-9 for x in (known, own))
    if int(quiet.sum()) < QUIET_WINDOWS or not own_seconds:
        return model
    samples = seconds * 1e9 / counters.interval_ns
    per_second = [
        min(max((float(wire[quiet].sum()) - each * samples) / own_seconds, 0.0), most_own)
        for wire, each, most_own in zip((rx, tx), model.per_sample, model.per_second, strict=True)
    ]
    return replace(model, per_second=(per_second[0], per_second[1]))


def fit(timeline: Timeline, counters: Counters, default: WireModel) -> WireModel | None:
    """Return the model that explains the wire bytes of traced copies, by least squares.

    Directions without enough large copies keep the default's figures. None where there
    are none, or where the traced copies do not explain the counters.
    """
    operations = timeline.operations
    own = operations.rows(operations.moves & (operations.device == counters.gpu))
    large = own.rows(own.bytes >= LARGE_BYTES)
    if not len(large) or len(counters) < 2:
        return None
    edges = np.arange(int(counters.end_ns[0]), int(counters.end_ns[-1]), FIT_WINDOW_NS)
    payload = _payload_in_windows(own, edges)
    big = _payload_in_windows(large, edges)
    rx, tx, known, fetching = _in_windows(counters, edges)
    total = payload.sum(axis=1)
    counts = np.diff(np.searchsorted(np.sort(own.end_ns), edges))
    observed = default.observed(known * 1e-9, counters.interval_ns, fetching * 1e-9)
    chosen = (
        (known > 0.999 * FIT_WINDOW_NS) & (total >= LEAST_BYTES) & (big.sum(axis=1) >= 0.98 * total)
    )
    wires = [
        (wire - own_bytes - each * counts)[chosen]
        for wire, own_bytes, each in zip((rx, tx), observed, default.per_operation, strict=True)
    ]
    return _fitted(payload[chosen], wires, default)


def _fitted(payload: FloatArray, wires: list[FloatArray], default: WireModel) -> WireModel | None:
    given = (payload >= LEAST_BYTES).sum(axis=0) >= LEAST_WINDOWS
    if not given.any():
        return None
    rows, left = [], 0.0
    for wire, row in zip(wires, default.matrix, strict=True):
        fixed = np.array(row)
        target = wire - payload[:, ~given] @ fixed[~given]
        fixed[given] = np.linalg.lstsq(payload[:, given], target, rcond=None)[0]
        left += float(np.square(wire - payload @ fixed).sum())
        rows.append((float(fixed[0]), float(fixed[1])))
    residual = float(np.sqrt(left / np.square(np.stack(wires)).sum()))
    difference = float(np.abs(np.array(rows) - np.array(default.matrix)).max())
    if residual > MOST_RESIDUAL or difference > MOST_DIFFERENCE:
        return None
    ways = " and ".join(np.array(["h2d", "d2h"])[given])
    windows = f"{payload.shape[0]} windows of 10 ms with traced copies {ways}"
    if difference <= SAME:
        source = f"{default.source}, as {windows} confirm"
        return replace(default, source=source, residual=residual)
    source = f"fitted to {windows}"
    return replace(default, matrix=(rows[0], rows[1]), source=source, residual=residual)


def _in_windows(counters: Counters, edges: IntArray) -> tuple[FloatArray, ...]:
    """Return bytes (rx, tx), known ns and those that may be the sampler's, between edges."""
    found = np.zeros((4, max(edges.size - 1, 0)))
    for begin in range(0, len(counters) - 1, _CHUNK):
        part = slice(begin, begin + _CHUNK + 1)  # one record more, as the first has no start
        end, known = counters.end_ns[part], counters.known[part]
        low = max(int(np.searchsorted(edges, end[0], "right")) - 1, 0)
        high = int(np.searchsorted(edges, end[-1], "left")) + 1
        near = np.clip(edges[low:high], end[0], end[-1])
        lasted = np.diff(end, prepend=end[:1])
        own = lasted if counters.own is None else np.where(counters.own[part], lasted, 0)
        columns = (counters.rx_bytes[part], counters.tx_bytes[part], lasted, own)
        for row, column in zip(found, columns, strict=True):
            row[low : high - 1] += between(end, np.where(known, column, 0), near)
    return tuple(found)


def _payload_in_windows(operations: Operations, edges: IntArray) -> FloatArray:
    ways = [operations.rows(operations.direction == w) for w in (Direction.H2D, Direction.D2H)]
    span = (int(edges[0]), int(edges[-1]) + 1)
    times, columns = rectangles(ways, span)
    return np.stack([between(times, columns[:, i], edges) for i in range(2)], axis=1)
