"""Payload, rates and busy shares of a link, and the bytes that no traced copy explains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lanescope._core import native
from lanescope.trace.codes import LATEST_NS, DirectionCode, FloatArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import (
    MovedBetween,
    moved,
    rectangle_pieces,
    running,
    union,
)
from lanescope.trace.timeline import Counters
from lanescope.trace.windows import WINDOWS_NS, WindowStatistics, WindowSums, window_text
from lanescope.trace.wire import RESOLUTION, TRACED_RESOLUTION, WireModel, payload_records, settle
from lanescope.units.sizes import bandwidth_gbs, binary_text

#: A link is busy from this share of its limit on: below are commands, completions and what
#: watching causes, 0.2 % on an H200. Where no limit is known, so many GB/s.
BUSY_SHARE_OF_LIMIT = 0.01
BUSY_GBS = 0.1


@dataclass(frozen=True, slots=True)
class Rates:
    """What one direction of a link carried.

    Attributes
    ----------
    payload_bytes
        In the known time; None where nothing is known.
    known_seconds, known_share
        Of how much of the watch that is.
    mean_gbs
        Over all known time, pauses included, in GB/s.
    busy_share
        Share of known windows with traffic above `busy_gbs`; None when unknown.
    busy_gbs, busy_window_ns
        What counts as traffic, and over how long.
    windows
        Rates over windows of 10 µs, 1 ms and 1 s; of NVLink over 10 ms, too.
    """

    payload_bytes: float | None
    known_seconds: float
    known_share: float | None
    mean_gbs: float | None
    busy_share: float | None
    busy_gbs: float
    busy_window_ns: int
    windows: tuple[WindowStatistics, ...]


class RateMeter:
    """Adds up payload of both directions, fed chunk by chunk.

    Parameters
    ----------
    span_ns
        Start and end of the watch, nanoseconds since 1970; windows start at the former.
    interval_ns
        How far apart samples are; 0 for a trace, which knows every copy.
    limits_gbs
        What the link can carry, h2d and d2h, in GB/s; None when unknown.
    resolution
        Traffic below this share of the other way's cannot be told from none; 0 for a trace.
    windows_ns
        Lengths of the windows whose rates are told, ascending.
    """

    def __init__(
        self,
        span_ns: tuple[int, int],
        interval_ns: int,
        limits_gbs: tuple[float | None, float | None] = (None, None),
        resolution: float = RESOLUTION,
        windows_ns: tuple[int, ...] = WINDOWS_NS,
    ) -> None:
        self._span, self._interval, self._resolution = span_ns, interval_ns, resolution
        down, up = (BUSY_GBS if x is None else BUSY_SHARE_OF_LIMIT * x for x in limits_gbs)
        self._busy = (down, up)
        self._windows = windows_ns
        self._finest = max(windows_ns[0], interval_ns)
        wanted = {w for w in windows_ns if w >= interval_ns} | {self._finest}
        #: From the longest on: shorter ones feed them where their length divides theirs.
        self._sums: dict[int, WindowSums] = {}
        self._fed: list[WindowSums] = []
        for window in sorted(wanted, reverse=True):
            longer = next(reversed(self._sums.values()), None)
            fits = longer is not None and longer.window_ns % window == 0
            sums = WindowSums(window, span_ns[0], self._busy, resolution, longer if fits else None)
            self._fed = [*(self._fed[:-1] if fits else self._fed), sums]
            self._sums[window] = sums
        self._total = np.zeros(3)
        self._end: int | None = None

    def add(self, end_ns: IntArray, columns: FloatArray) -> None:
        """Add records that follow those before; the very first has no start and is left out.

        Parameters
        ----------
        columns
            A row for each record: payload bytes h2d and d2h, and known nanoseconds.
        """
        if not end_ns.size:
            return
        if self._end is None:
            self._end, end_ns, columns = int(end_ns[0]), end_ns[1:], columns[1:]
        for sums in self._fed:
            sums.add(self._end, end_ns, columns)
        self._total += np.einsum("ij->j", columns)  # five times as fast as sum(axis=0)
        self._end = int(end_ns[-1]) if end_ns.size else self._end

    def add_counters(self, counters: Counters, model: WireModel) -> None:
        """Add counters that follow those before."""
        for end_ns, columns in payload_records(counters, model, self._end):
            self.add(end_ns, columns)

    def rates(self) -> tuple[Rates, Rates]:
        """Return what both directions carried; nothing may be added after it."""
        down, up = settle(self._total[0], self._total[1], self._resolution)
        # shorter ones first: what they still hold is fed to the longer ones
        found = {window: sums.statistics() for window, sums in reversed(self._sums.items())}
        return self._rates(float(down), 0, found), self._rates(float(up), 1, found)

    def _rates(
        self,
        payload: float,
        direction: int,
        found: dict[int, tuple[WindowStatistics, WindowStatistics]],
    ) -> Rates:
        seconds, span = float(self._total[2]) * 1e-9, (self._span[1] - self._span[0]) * 1e-9
        reason = f"sampled every {window_text(self._interval)}"
        windows = [
            found[w][direction] if w in found else WindowStatistics(w, reason=reason)
            for w in self._windows
        ]
        return Rates(
            payload if seconds else None,
            seconds,
            min(seconds / span, 1.0) if span > 0 else None,
            bandwidth_gbs(payload, seconds) if seconds else None,
            found[self._finest][direction].busy_share,
            self._busy[direction],
            self._finest,
            tuple(windows),
        )


class TakesPayload(Protocol):
    """Something that is fed the payload of records in order."""

    def add(self, end_ns: IntArray, payload: FloatArray, /) -> None:
        """Take records that follow those before, as `payload_records` yields them."""


def counter_rates(
    counters: Counters,
    model: WireModel,
    span_ns: tuple[int, int],
    limits_gbs: tuple[float | None, float | None] = (None, None),
    operations: Operations | None = None,
    others: Sequence[TakesPayload] = (),
) -> tuple[Rates, Rates]:
    """Return what counters tell of both directions (h2d, d2h) of their GPU's link.

    `others` take the same payload: records of long watches are read from the disk.
    """
    ends, resolution = None, RESOLUTION
    if operations is not None and len(operations):
        resolution = TRACED_RESOLUTION
        ends = ends_of_copies(operations, counters.gpu)
    meter = RateMeter(span_ns, counters.interval_ns, limits_gbs, resolution)
    for end_ns, payload in payload_records(counters, model, None, ends):
        meter.add(end_ns, payload)
        for other in others:
            other.add(end_ns, payload)
    return meter.rates()


def ends_of_copies(operations: Operations, gpu: int) -> IntArray:
    """Return when the copies of a GPU ended, in order."""
    return operations.where(lambda o: o.is_copy, by="end_ns", device=gpu).end_ns


def operation_rates(
    operations: Operations,
    gpu: int,
    span_ns: tuple[int, int],
    limits_gbs: tuple[float | None, float | None] = (None, None),
) -> tuple[Rates, Rates]:
    """Return what a trace tells of both directions (h2d, d2h) of a GPU's link.

    Each copy counts with an even rate from its start to its end.
    """
    meter = RateMeter(span_ns, 0, limits_gbs, resolution=0.0)
    directions = [
        moved(operations, gpu, direction) for direction in (DirectionCode.H2D, DirectionCode.D2H)
    ]
    for end_ns, columns in rectangle_pieces(directions, span_ns):
        meter.add(end_ns, columns)
    return meter.rates()


def without_windows(rates: Rates) -> Rates:
    """Return the rates of copies of which is not known when they ran: their mean is left."""
    reason = "times on the GPU are not known"
    windows = tuple(WindowStatistics(one.window_ns, reason=reason) for one in rates.windows)
    return replace(rates, busy_share=None, windows=windows)


def without_slow(rates: Rates, slow_bytes: float) -> Rates:
    """Return rates without bytes that are no payload, of which is not known when they crossed."""
    if not slow_bytes or rates.payload_bytes is None:
        return rates
    payload = rates.payload_bytes - slow_bytes
    mean = bandwidth_gbs(payload, rates.known_seconds) if rates.known_seconds else None
    return replace(rates, payload_bytes=payload, mean_gbs=mean)


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Bytes of one direction that no copy or migration explains, by when they crossed the link.

    Attributes
    ----------
    before_first
        Before the GPU's first copy: what CUDA moves when a program starts.
    beside_kernels
        Later, while a kernel ran and no copy: kernels that read or write host memory in place,
        or managed memory whose migrations were not traced.
    """

    before_first: float
    beside_kernels: float

    def without_slow(self, early: float, later: float, whole: float) -> Unexplained:
        """Return the parts without what crossed slowly before the first copy, and later.

        The latter is taken for commands of kernels.

        Parameters
        ----------
        whole
            All unexplained bytes without what crossed slowly, which the parts do not exceed.
        """
        first = min(max(self.before_first - early, 0.0), whole)
        return Unexplained(first, min(max(self.beside_kernels - later, 0.0), whole - first))


class UnexplainedMeter:
    """Adds up what no copy or migration explains of both directions, fed payload in order.

    Records of counters count with an even rate, so that an edge of a kernel within a record is
    known to that record only.

    Parameters
    ----------
    operations
        Of any GPUs.
    """

    def __init__(self, counters: Counters, operations: Operations) -> None:
        gpu = counters.gpu
        moves = operations.where(lambda o: o.moves, device=gpu)
        self._tells = len(moves) > 0 and len(counters) > 1
        if not self._tells:
            return
        self._rests = [_Rests(counters, operations, direction) for direction in (0, 1)]
        begin = int(moves.start_ns[0])
        first = int(np.clip(begin, counters.end_ns[0], counters.end_ns[-1]))
        self._before = np.array([counters.end_ns[0], first])
        kernels = operations.where(lambda o: o.is_kernel & (o.end_ns > first), device=gpu)
        self._parts = _kernels_alone(kernels, moves, begin)
        self._go_on()
        self._sums = np.zeros((2, 2))

    def add(self, end_ns: IntArray, payload: FloatArray) -> None:
        """Add records that follow those before, as `payload_records` yields them."""
        if not self._tells:
            return
        both = [rests.of(end_ns, payload) for rests in self._rests]
        edges, sums = both[0][0], [of_one for _, of_one in both]
        self._sums[0] += _within(edges, sums, self._before)
        self._sums[1] += _within(edges, sums, self._alone)
        while self._until < edges[-1]:
            self._go_on()
            self._sums[1] += _within(edges, sums, self._alone)

    def _go_on(self) -> None:
        """Go to the next part of the time, in which kernels ran alone at some times."""
        nothing: IntArray = np.empty(0, np.int64)
        self._until, self._alone = next(self._parts, (LATEST_NS, nothing))

    def found(self) -> tuple[Unexplained, Unexplained] | None:
        """Return when the unexplained bytes crossed, h2d and d2h; None without a copy."""
        if not self._tells:
            return None
        down, up = np.maximum(self._sums, 0.0).T.tolist()
        return Unexplained(*down), Unexplained(*up)


def unexplained(
    counters: Counters, model: WireModel, operations: Operations
) -> tuple[Unexplained, Unexplained] | None:
    """Return what `UnexplainedMeter` finds of all records, from which all copies are taken."""
    meter, ends = UnexplainedMeter(counters, operations), ends_of_copies(operations, counters.gpu)
    for records in payload_records(counters, model, None, ends):
        meter.add(*records)
    return meter.found()


def unexplained_within(
    counters: Counters,
    model: WireModel,
    operations: Operations,
    direction: int,
    spans_ns: IntArray,
) -> float:
    """Return the bytes of one direction that no copy or migration explains, in some spans.

    Parameters
    ----------
    spans_ns
        Begins and ends in turn, ascending, nanoseconds since 1970.
    """
    if len(counters) < 2:
        return 0.0
    rests, ends = _Rests(counters, operations, direction), ends_of_copies(operations, counters.gpu)
    found = 0.0
    for records in payload_records(counters, model, None, ends):
        edges, sums = rests.of(*records)
        found += float(_within(edges, [sums], spans_ns)[0])
    return max(found, 0.0)


def _within(end_ns: IntArray, sums: Sequence[FloatArray], edges: IntArray) -> FloatArray:
    """Return what falls between each first edge and the one after it, of some sums.

    Parameters
    ----------
    sums
        Each of what is spread evenly over records, up to their ends.
    """
    first = int(np.searchsorted(edges, end_ns[0])) // 2 * 2
    last = (int(np.searchsorted(edges, end_ns[-1])) + 1) // 2 * 2
    if last <= first:
        return np.zeros(len(sums))
    inside = np.clip(edges[first:last], end_ns[0], end_ns[-1])
    reached = np.stack([native.interpolate(inside, end_ns, one) for one in sums])
    found: FloatArray = np.diff(reached)[:, ::2].sum(axis=1)
    return found


class _Rests:
    """Payload of one direction without what operations explain, some records at a time.

    Where nothing is known, it is 0.
    """

    def __init__(self, counters: Counters, operations: Operations, direction: int) -> None:
        code = (DirectionCode.H2D, DirectionCode.D2H)[direction]
        span = int(counters.end_ns[0]), int(counters.end_ns[-1])
        self._moved = MovedBetween(moved(operations, counters.gpu, code), span)
        self._direction, self._before = direction, counters.end_ns[:1]

    def of(self, end_ns: IntArray, payload: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the ends of records that follow those before, and what is left up to each.

        The first is the last of those before, where the sums begin with 0.
        """
        edges = np.concatenate((self._before, end_ns))
        self._before = end_ns[-1:]
        return edges, native.sum_rests(payload, self._direction, self._moved.until(edges))


def _kernels_alone(
    kernels: Operations, moves: Operations, begin: int
) -> Iterator[tuple[int, IntArray]]:
    """Yield parts of the time behind `begin`: each end, and when in it kernels ran and no copy.

    The latter are begins and ends in turn.
    """
    if not len(kernels):
        return
    last = max(int(piece.end_ns.max()) for piece in kernels.pieces())
    for (_, end), found in running((kernels, moves), (begin, max(last, begin + 1))):
        busy, copied = (union(one.start_ns, one.end_ns) for one in found)
        times = np.concatenate((*busy, *copied))
        sizes = [busy[0].size, busy[1].size, copied[0].size, copied[1].size]
        order = np.argsort(times, kind="stable")
        alone = np.cumsum(np.repeat([1, -1, 2, -2], sizes)[order]) == 1
        changes = np.flatnonzero(np.diff(np.concatenate(([False], alone, [False])).astype(np.int8)))
        yield end, times[order][np.minimum(changes, times.size - 1)]


def split_text(parts: Sequence[Unexplained]) -> str:
    """Return the split of all ways together in words; empty where it says nothing."""
    before = sum(part.before_first for part in parts)
    with_kernels = sum(part.beside_kernels for part in parts)
    parts_text = []
    if before > 0:
        parts_text.append(
            f"{binary_text(round(before))} of them before the first copy (CUDA's start)"
        )
    if with_kernels > 0:
        parts_text.append(
            f"{binary_text(round(with_kernels))} while kernels ran and no copy (host memory that "
            "kernels use in place, or managed memory)"
        )
    return ", ".join(parts_text)
