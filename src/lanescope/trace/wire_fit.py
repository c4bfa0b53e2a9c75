"""What counters and traced copies say of each other: a link's own wire model, and their clocks.

Also what watching causes, from pauses, and what is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lanescope._core import native
from lanescope.machine.pcie import PcieLink
from lanescope.trace.codes import DirectionCode, FloatArray, IntArray, among
from lanescope.trace.operations import KINDS, Operations
from lanescope.trace.rectangles import MovedBetween, moved
from lanescope.trace.stored_columns import pieces_of, search, search_all
from lanescope.trace.timeline import NVLINK, PCIE, Counters, Timeline
from lanescope.trace.wire import (
    NONE,
    OBSERVER_PER_OWN_SECOND,
    OBSERVER_PER_SAMPLE,
    OBSERVER_PER_SECOND,
    WireModel,
    default_model,
)

#: A burst needs whole samples between its edges to know how full a sample is.
LEAST_SAMPLES = 5
#: Around a copy nothing else may move, for so many samples.
GUARD_SAMPLES = 10
#: Samples above this share of a burst's fullest are part of it.
PART_SHARE = 0.03
LEAST_COPIES = 10
MOST_COPIES = 1000
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
#: Records and windows (41 s) that are worked on at once.
_CHUNK = 1 << 18
#: Records that copies are compared with at once.
_HELD = 1 << 17
_BLOCK = 1 << 12
#: So many blocks are held: those of 44 minutes, 12 MB.
_MOST_BLOCKS = 64
#: Edges of windows, and what `_in_windows` finds between them.
Block = tuple[IntArray, FloatArray]
#: A fit takes no more windows than about so many, evenly out of a long watch.
MOST_WINDOWS = 100_000
#: A window with less payload in a direction is slow.
_SLOW_BYTES_PER_SECOND = 0.5e9
#: Long enough for several launches, and shorter than the pauses between copies.
_SLOW_WINDOW_NS = 100_000
#: Those of `throughput` are means of 20 ms.
_LONGEST_INTERVAL_NS = 2_000_000
#: What is slow goes on while copies run. How much is taken from the windows around.
_AROUND_NS = 10_000_000
#: With fewer slow windows around, nothing tells.
_LEAST_SLOW_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class EdgeDelay:
    """How long a link's bursts are behind the copies of one direction: medians.

    Attributes
    ----------
    begin_ns, end_ns
        From the begin of a copy to that of its burst, and from the end to the end. A copy to
        the GPU begins with requests to the host's memory, whose answers take their time.
    """

    direction: str
    begin_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where bursts of counters lie beside traced copies.

    Attributes
    ----------
    offset_ns
        Add to times of the counters to get those of the trace. The median over all
        edges, so that what a copy waits for its first bytes is halved.
    residual_p99_ns
        99 % of all edges lie within so much of the copies' after that and after `delays`.
    copies
        So many copies were used.
    delays
        Of each direction with copies enough.
    """

    offset_ns: float
    residual_p99_ns: float
    copies: int
    delays: tuple[EdgeDelay, ...] = ()


class Aligner:
    """Compares the edges of bursts with those of copies, while something else reads the records.

    Only with counters of PCIe: what crosses NVLink is no copy of the host.
    """

    def __init__(self, counters: Counters, operations: Operations) -> None:
        self._counters, self._read = counters, 0
        self._guard = GUARD_SAMPLES * counters.interval_ns // 2
        self._copies: Iterator[Operations] = iter(())
        if counters.link == PCIE and len(counters) > 1:
            own = operations.where(lambda o: o.moves, *KINDS, device=counters.gpu)
            self._copies = alone(own, counters.interval_ns)
        self._waiting = Operations.empty()
        self._held, self._held_from = counters.rows(slice(0, 0)), 0
        self._edges: list[FloatArray] = [np.empty((0, 2))]
        self._directions: list[IntArray] = [np.empty(0, np.int64)]

    def add(self, end_ns: IntArray, _: FloatArray) -> None:
        """Take the copies up to the end of records, which follow those before."""
        self._read += end_ns.size
        self._go_on(int(end_ns[-1]))

    def found(self) -> Alignment | None:
        """Return what all copies tell; None with fewer than ten to compare."""
        self._read = len(self._counters)
        self._go_on(None)
        return _alignment(np.concatenate(self._edges), np.concatenate(self._directions))

    def _go_on(self, until_ns: int | None) -> None:
        """Compare the copies that end a while before a time; None: all."""
        while len(self._waiting) or self._next():
            count = len(self._waiting)
            if until_ns is not None:
                count = int(np.searchsorted(self._waiting.end_ns, until_ns - self._guard))
            self._compare(self._waiting.rows(slice(count)))
            self._waiting = self._waiting.rows(slice(count, None))
            if len(self._waiting):
                return

    def _next(self) -> bool:
        """Go to the next copies; whether there are any."""
        more = next(self._copies, None)
        self._waiting = Operations.empty() if more is None else more
        return more is not None

    def _compare(self, copies: Operations) -> None:
        while len(copies):
            untils = copies.end_ns + self._guard
            held = self._holding(int(copies.start_ns[0]) - self._guard, int(untils[0]))
            count = len(copies)
            if self._held_from + len(held) < len(self._counters):
                count = int(np.searchsorted(untils, held.end_ns[-1], "right"))
            directions = copies.direction[:count].astype(np.int64)
            found, edges = native.burst_edges(
                held.end_ns,
                held.rx_bytes,
                held.tx_bytes,
                held.known,
                copies.start_ns[:count],
                copies.end_ns[:count],
                directions == DirectionCode.H2D,
                self._guard,
                LEAST_SAMPLES,
                PART_SHARE,
            )
            self._edges.append(edges)
            self._directions.append(directions[found])
            copies = copies.rows(slice(count, None))

    def _holding(self, begin_ns: int, until_ns: int) -> Counters:
        """Return records in memory among which are all from before a time until after another."""
        held, count = self._held, len(self._counters)
        stop = self._held_from + len(held)
        if not len(held) or (held.end_ns[-1] < until_ns and stop < count):
            first = search(self._counters.end_ns, begin_ns, "right")
            last = min(search(self._counters.end_ns, until_ns) + 1, count)
            self._held_from = max(first - 1, 0)
            stop = max(last, min(first + _HELD, self._read))
            self._held = held = self._counters.rows(slice(self._held_from, stop))
        return held


def _alignment(found: FloatArray, directions: IntArray) -> Alignment | None:
    """Return what edges say, of each copy begin and end; None of fewer than ten."""
    if len(found) < LEAST_COPIES:
        return None
    # starts are late and ends early by what packets take: neither is the clock
    offset = -float(np.median(found.mean(axis=1)))
    found += offset
    delays = []
    for direction in (DirectionCode.H2D, DirectionCode.D2H):
        mine = directions == direction
        if mine.sum() >= LEAST_COPIES:
            begin, end = np.median(found[mine], axis=0)
            delays.append(EdgeDelay(direction.label, float(begin), float(end)))
            found[mine] -= (begin, end)
    residual = float(np.quantile(np.abs(found), 0.99))
    return Alignment(offset, residual, len(found), tuple(delays))


def alone(own: Operations, interval_ns: int) -> Iterator[Operations]:
    """Yield long copies over the link with nothing else near them, of operations by start.

    Of more than `MOST_COPIES`, each so-manieth.
    """
    count = sum(rows.size for _, rows in _alone(own, interval_ns))
    every, done = max(1, -(-count // MOST_COPIES)), 0
    for piece, rows in _alone(own, interval_ns):
        yield piece.rows(rows[-done % every :: every])
        done += rows.size


def _alone(own: Operations, interval_ns: int) -> Iterator[tuple[Operations, IntArray]]:
    """Yield pieces, and which of their rows are such copies."""
    guard, far = GUARD_SAMPLES * interval_ns, np.iinfo(np.int64).max // 2
    latest, done = np.array([-far]), 0
    for piece in own.pieces():
        start, end = piece.start_ns, piece.end_ns
        done += len(piece)
        reached = np.maximum.accumulate(np.concatenate((latest, end)))
        after = np.concatenate((start[1:], own.start_ns[done : done + 1], [far]))[: len(piece)]
        long = end - start >= LEAST_SAMPLES * interval_ns
        direction = among(piece.direction, (DirectionCode.H2D, DirectionCode.D2H))
        free = (start - reached[:-1] > guard) & (after - end > guard)
        yield piece, np.flatnonzero(long & direction & free)
        latest = reached[-1:]


def model_of(timeline: Timeline, counters: Counters, link: PcieLink | None = None) -> WireModel:
    """Return the best model of counters of PCIe: fitted where the trace allows, else the default.

    Raises
    ------
    ValueError
        If they are of another link, which has other packets.
    """
    if counters.link != PCIE:
        raise ValueError(f"counters of {counters.link} have no model of PCIe packets")
    # both take the same windows, which many records are read for
    few = len(counters) > 0 and _block_count(counters) <= _MOST_BLOCKS
    blocks = list(_blocks(counters)) if few else None
    default = default_of(timeline, counters, link, blocks)
    return fit(timeline, counters, default, blocks) or default


def default_of(
    timeline: Timeline,
    counters: Counters,
    link: PcieLink | None = None,
    blocks: Sequence[Block] | None = None,
) -> WireModel:
    """Return the model that follows from PCIe's packets, with what watching itself causes.

    It is not fitted to traced copies. `blocks` are those of the counters, if they are there.
    """
    nvlink = any(
        (other.gpu, other.source) == (counters.gpu, counters.source)
        for other in timeline.over(NVLINK)
    )
    model = default_model(counters.source, link, own=counters.own is not None, nvlink=nvlink)
    return with_observer(_with_others(model, counters, timeline), counters, blocks)


def _with_others(model: WireModel, counters: Counters, timeline: Timeline) -> WireModel:
    """Return the model with what other counters of the same GPU cause by watching."""
    more = np.zeros(2)
    for other in timeline.over(PCIE):
        if other.gpu != counters.gpu or other is counters or len(other) < 2:
            continue
        seconds = (int(other.end_ns[-1]) - int(other.end_ns[0])) * 1e-9
        more += np.array(OBSERVER_PER_SAMPLE.get(other.source, NONE)) * (len(other) - 1) / seconds
        if other.own is None:
            more += np.array(OBSERVER_PER_SECOND.get(other.source, NONE))
        else:
            own = sum(int(other.own[part].sum()) for part, _ in other.pieces()) / len(other)
            more += np.array(OBSERVER_PER_OWN_SECOND.get(other.source, NONE)) * own
    return replace(model, others_per_second=(float(more[0]), float(more[1])))


def with_observer(
    model: WireModel, counters: Counters, blocks: Sequence[Block] | None = None
) -> WireModel:
    """Return the model with what watching causes by this watch's own pauses.

    Bursts depend on how often samples are fetched. Without pauses nothing changes, and
    never more than the default is taken off: steady traffic of 4 MB/s could be hidden, no more.
    """
    if not any(model.per_sample) or not len(counters):
        return model
    most = QUIET_BYTES_PER_SECOND + sum(model.per_sample) * 1e9 / counters.interval_ns
    most += sum(model.others_per_second)
    windows, sums = 0, np.zeros(5)
    for _, found in blocks or _blocks(counters):
        rx, tx, known, _, _ = found
        quiet = (known > 0.9 * FIT_WINDOW_NS) & ((rx + tx) < most * known * 1e-9)
        windows += int(quiet.sum())
        sums += found[:, quiet].sum(axis=1)
    seconds, own_seconds = (float(x) * 1e-9 for x in sums[2:4])
    if windows < QUIET_WINDOWS or not own_seconds:
        return model
    samples = float(sums[4])
    per_second = [
        min(max((float(wire) - each * samples - other * seconds) / own_seconds, 0.0), most_own)
        for wire, each, most_own, other in zip(
            sums[:2], model.per_sample, model.per_second, model.others_per_second, strict=True
        )
    ]
    return replace(model, per_second=(per_second[0], per_second[1]))


def fit(
    timeline: Timeline,
    counters: Counters,
    default: WireModel,
    blocks: Sequence[Block] | None = None,
) -> WireModel | None:
    """Return the model that explains the wire bytes of traced copies, by least squares.

    Directions without enough large copies keep the default's figures. None where there
    are none, or where the traced copies do not explain the counters.
    """
    if len(counters) < 2:
        return None
    copies = _Copies(timeline.timed_operations, counters)
    if not copies.large:
        return None
    most = MOST_WINDOWS // max(_block_count(counters), 1)
    parts = []
    for edges, found in blocks or _blocks(counters):
        chosen = _chosen(copies, edges, found, default)
        parts.append(chosen[:: -(-len(chosen) // most) or 1])
    if not parts:
        return None
    columns = np.concatenate(parts)
    return _fitted(columns[:, :2], [columns[:, 2], columns[:, 3]], default)


class _Copies:
    """What traced operations moved over a GPU's link, between times that are asked for in order."""

    def __init__(self, operations: Operations, counters: Counters) -> None:
        gpu, span = counters.gpu, (int(counters.end_ns[0]), int(counters.end_ns[-1]))
        both = [
            moved(operations, gpu, direction)
            for direction in (DirectionCode.H2D, DirectionCode.D2H)
        ]
        large = [one.where(lambda o: o.bytes >= LARGE_BYTES, "bytes") for one in both]
        self._ends = operations.where(lambda o: o.moves, by="end_ns", device=gpu).end_ns
        self._moved, self._moved_large = (
            [MovedBetween(one, span) for one in directions] for directions in (both, large)
        )
        #: Whether there is any of `LARGE_BYTES`.
        self.large = any(len(one) for one in large)

    def take(self, edges: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return bytes h2d and d2h, those of large ones, and how many ended, between edges."""
        payload, large = (
            np.stack([one.take(edges) for one in directions], axis=1)
            for directions in (self._moved, self._moved_large)
        )
        return payload, large, np.diff(search_all(self._ends, edges))


def _chosen(copies: _Copies, edges: IntArray, found: FloatArray, default: WireModel) -> FloatArray:
    """Return a row for each window that large copies fill: payload h2d, d2h, and wire rx, tx."""
    payload, large, counts = copies.take(edges)
    rx, tx, known, fetching, samples = found
    total = payload.sum(axis=1)
    observed = default.observed(known * 1e-9, samples, fetching * 1e-9)
    chosen = (
        (known > 0.999 * FIT_WINDOW_NS)
        & (total >= LEAST_BYTES)
        & (large.sum(axis=1) >= 0.98 * total)
    )
    wires = [
        wire - own_bytes - each * counts
        for wire, own_bytes, each in zip((rx, tx), observed, default.per_operation, strict=True)
    ]
    rows: FloatArray = np.column_stack((payload, *wires))[chosen]
    return rows


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
    named = " and ".join(np.array(["h2d", "d2h"])[given])
    windows = f"{payload.shape[0]} windows of 10 ms with traced copies {named}"
    if difference <= SAME:
        source = f"{default.source}, as {windows} confirm"
        return replace(default, source=source, residual=residual)
    source = f"fitted to {windows}"
    return replace(default, matrix=(rows[0], rows[1]), source=source, residual=residual)


def _block_count(counters: Counters) -> int:
    return -(-(int(counters.end_ns[-1]) - int(counters.end_ns[0])) // (FIT_WINDOW_NS * _BLOCK))


def _blocks(counters: Counters) -> Iterator[Block]:
    """Yield windows from the first to the last record, some at a time: edges, and between them.

    The latter has the rows of `_in_windows`.
    """
    for edges in _edges_of_blocks(counters, FIT_WINDOW_NS):
        yield edges, _in_windows(counters, edges)


def _edges_of_blocks(counters: Counters, window_ns: int) -> Iterator[IntArray]:
    """Yield the edges of whole windows from the first to the last record, some at a time."""
    begin_ns, end_ns = int(counters.end_ns[0]), int(counters.end_ns[-1])
    for part in pieces_of((end_ns - begin_ns - 1) // window_ns, _BLOCK):
        yield begin_ns + np.arange(part.start, part.stop + 1) * window_ns


def _in_windows(counters: Counters, edges: IntArray) -> FloatArray:
    """Return bytes (rx, tx), known ns, those that may be the sampler's, and samples of windows."""
    found = np.zeros((5, max(edges.size - 1, 0)))
    first = max(search(counters.end_ns, int(edges[0]), "right") - 1, 0)
    last = min(search(counters.end_ns, int(edges[-1]), "left") + 1, len(counters))
    for begin in range(first, last - 1, _CHUNK):
        part = slice(begin, min(begin + _CHUNK + 1, last))  # the first one has no start
        end, known = counters.end_ns[part], counters.known[part]
        low = max(int(np.searchsorted(edges, end[0], "right")) - 1, 0)
        high = int(np.searchsorted(edges, end[-1], "left")) + 1
        found[:, low : high - 1] += native.count_between(
            end,
            counters.rx_bytes[part],
            counters.tx_bytes[part],
            known,
            None if counters.own is None else counters.own[part],
            edges[low:high],
        )
    return found


def slow_bytes(counters: Counters, model: WireModel, until_ns: int | None = None) -> FloatArray:
    """Return payload h2d and d2h that crossed slowly, and as much while copies ran, in bytes.

    What crosses slowly is commands of launches and small reads, which are counted with payload. A
    launch of a kernel is fetched from host memory, 2 to 3 KB each on an H100. A loop that is bound
    by launches moves 0.2 GB/s that way, a training loop with 80 kernels each 3.6 ms 0.06 GB/s;
    copies of some MiB run at 10 GB/s and more. So traffic is slow where a window carries little.

    None of counters that are read so seldom that their means hide copies.

    Parameters
    ----------
    until_ns
        Nanoseconds since 1970; None: the end.

    Returns
    -------
    A row of all of it, and one of that until then.
    """
    sums = np.zeros((2, 2))
    if counters.interval_ns > _LONGEST_INTERVAL_NS:
        return sums
    end = int(counters.end_ns[-1]) if until_ns is None else until_ns
    for edges in _edges_of_blocks(counters, _AROUND_NS):
        found = _slow_around(counters, model, edges)
        early = np.clip((end - edges[:-1]) / _AROUND_NS, 0.0, 1.0)
        sums += [found.sum(axis=1), found @ early]
    return np.maximum(sums, 0.0)


def _slow_around(counters: Counters, model: WireModel, edges: IntArray) -> FloatArray:
    """Return what crossed slowly between edges that are `_AROUND_NS` apart: rows h2d, d2h."""
    count = _AROUND_NS // max(_SLOW_WINDOW_NS, counters.interval_ns)
    inner = np.linspace(0, _AROUND_NS, count + 1).astype(np.int64)[:-1]
    windows = np.append((edges[:-1, None] + inner).ravel(), edges[-1])
    rx, tx, known, own, samples = _in_windows(counters, windows)
    observed = model.observed(known * 1e-9, samples, own * 1e-9)
    payload = np.stack(model.solve(rx - observed[0], tx - observed[1]))
    slow = (known > 0) & (payload < _SLOW_BYTES_PER_SECOND * known * 1e-9)
    by_block = (2, -1, count)
    carried = np.where(slow, payload, 0.0).reshape(by_block).sum(axis=2)
    slow_ns = np.where(slow, known, 0.0).reshape(by_block).sum(axis=2)
    known_ns = known.reshape(-1, count).sum(axis=1)
    tells = slow_ns > _LEAST_SLOW_SHARE * known_ns
    found: FloatArray = carried * np.where(tells, known_ns / np.where(tells, slow_ns, 1.0), 1.0)
    return found
