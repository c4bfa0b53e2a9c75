"""Tracks and slices of a Perfetto trace, and its packets, by the ``perfetto`` package's classes.

No other module imports that package: it is an extra, and everything else works without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import IO, Any

import numpy as np

from lanescope.errors import InputError
from lanescope.trace.codes import DirectionCode, FloatArray, IntArray, MemoryKind, OperationCode
from lanescope.trace.operations import Operations
from lanescope.trace.stored_columns import PIECE
from lanescope.trace.timeline import Counters, Timeline
from lanescope.units.sizes import bandwidths_gbs

#: A counter's track holds at most so many points; a screen has some thousand pixels.
MOST_POINTS = 100_000
#: Packets that are made before they are written: bounds memory, and is faster than each alone.
_BATCH = 1 << 14
#: All packets are of one writer, whose interned texts they use.
_SEQUENCE = 1
_CLEARED, _NEEDS_STATE = 1, 2
_REALTIME, _BOOTTIME = 1, 6
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4

#: Values of annotations: whole numbers, rates, and numbers of texts that `Writer` was given.
Annotations = Iterable[tuple[int, str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A rate that holds from each point to the next.

    Attributes
    ----------
    at_ns
        When, nanoseconds since 1970.
    gbs
        The rate from then on, in GB/s.
    """

    at_ns: IntArray
    gbs: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class CounterTrack:
    """One direction of a counter.

    Attributes
    ----------
    mean
        Its rate. Where nothing is known it is 0: see `unknown_spans`.
    peak
        The fastest single record of each point of `mean`; None where a point is a record.
    records
        Records that stand behind each point.
    """

    mean: Points
    peak: Points | None
    records: int


def counter_track(counters: Counters, counted: IntArray, most: int = MOST_POINTS) -> CounterTrack:
    """Return a direction of a counter as points, each of equally many records.

    Parameters
    ----------
    counted
        Bytes of each record: the counter's `rx_bytes` or `tx_bytes`.
    most
        So many points at most, before those that repeat their rate are left out.
    """
    many = max(1, -(-len(counters) // most))
    found = [np.empty((3, 0))]
    begins = [np.empty(0, np.int64)]
    for part, start in counters.pieces(many * max(1, PIECE // many)):  # whole points
        first = np.arange(0, start.size, many)
        known = counters.known[part]
        seconds = np.where(known, (counters.end_ns[part] - start).astype(np.float64) * 1e-9, 0.0)
        moved = np.where(known, counted[part], 0).astype(np.float64)
        rates = np.nan_to_num(bandwidths_gbs(moved, seconds))
        sums = (np.add.reduceat(column, first) for column in (moved, seconds))
        found.append(np.stack((*sums, np.maximum.reduceat(rates, first))))
        begins.append(start[first])
    (moved, seconds, peak), start = np.concatenate(found, axis=1), np.concatenate(begins)
    end, mean = counters.end_ns[-1:], np.nan_to_num(bandwidths_gbs(moved, seconds))
    if many == 1:
        return CounterTrack(_points(start, mean, end), None, 1)
    return CounterTrack(_points(start, mean, end), _points(start, peak, end), many)


def unknown_spans(counters: Counters) -> list[tuple[int, int]]:
    """Return where nothing is known between a counter's first and last record, as start and end."""
    spans: list[tuple[int, int]] = []
    for part, start in counters.pieces():
        edges = np.diff(np.concatenate(([False], ~counters.known[part], [False])).astype(np.int8))
        begins = start[np.flatnonzero(edges == 1)]
        ends = counters.end_ns[part][np.flatnonzero(edges == -1) - 1]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if spans and spans[-1][1] == begin:  # goes on from the piece before
                spans[-1] = (spans[-1][0], end)
            elif end > begin:
                spans.append((begin, end))
    return spans


class FreeLanes:
    """Gives what comes in the order of its start the lowest lane that is free."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []  # when each lane is free again, as a heap
        self._free: list[int] = []

    def take(self, start: int, end: int, most: int) -> int | None:
        """Return a lane, which is taken from its start to its end; None with so many taken."""
        while self._busy and self._busy[0][0] <= start:
            heappush(self._free, heappop(self._busy)[1])
        if len(self._busy) >= most:
            return None
        lane = heappop(self._free) if self._free else len(self._busy)
        heappush(self._busy, (end, lane))
        return lane


def lanes(start_ns: IntArray, end_ns: IntArray) -> IntArray:
    """Return a lane for each row, so that rows of one lane do not overlap.

    Parameters
    ----------
    start_ns, end_ns
        Of rows in the order of their starts.
    """
    if np.all(start_ns[1:] >= np.maximum.accumulate(end_ns)[:-1]):
        return np.zeros(start_ns.size, np.int64)
    free, times = FreeLanes(), zip(start_ns.tolist(), end_ns.tolist(), strict=True)
    return np.array([free.take(start, end, start_ns.size) for start, end in times], np.int64)


def _points(at_ns: IntArray, gbs: FloatArray, end_ns: IntArray) -> Points:
    """Return points without those that repeat the rate before; the last record's end is 0."""
    at_ns, gbs = np.append(at_ns, end_ns[-1:]), np.append(gbs, np.zeros(min(1, end_ns.size)))
    chosen = np.ones(gbs.size, bool)
    chosen[1:] = gbs[1:] != gbs[:-1]
    return Points(at_ns[chosen], gbs[chosen])


#: Names of annotations.
LABELS = ("bytes", "GB/s", "from", "to", "asynchronous", "correlation")
_BYTES, _GBS, _FROM, _TO, _ASYNCHRONOUS, _CORRELATION = LABELS
#: Stands for a call of which only the operation's own name is known.
CALL = "call"
_WORDS = {
    (int(what), int(direction)): what.name.lower() + (f" {direction.label}" if direction else "")
    for what in OperationCode
    for direction in DirectionCode
}


def slice_names(operations: Operations) -> list[str]:
    """Return what each operation's slice is called, such as ``copy h2d`` or a kernel's name."""
    columns = (operations.what, operations.direction, operations.name)
    return [
        (what == OperationCode.KERNEL and operations.names[name]) or _WORDS[what, direction]
        for what, direction, name in zip(*(column.tolist() for column in columns), strict=True)
    ]


def texts_of(operations: Operations) -> tuple[str, ...]:
    """Return all texts that slices of operations and of their calls can use."""
    kinds = tuple(kind.label for kind in MemoryKind)
    named = tuple(name for name in operations.names if name)
    return (CALL, *kinds, *named, *_WORDS.values())


def annotated(rows: Operations, writer: Writer) -> Iterator[list[tuple[int, str, Any]]]:
    """Yield the annotations of each row: bytes, GB/s and kinds of memory where there are any."""
    label = writer.label
    kinds = [writer.text[kind.label] for kind in MemoryKind]
    rates = bandwidths_gbs(rows.bytes.astype(np.float64), rows.seconds)
    for moves, sized, size, rate, source, destination, freely, number in zip(
        rows.moves.tolist(),
        (rows.what != OperationCode.KERNEL).tolist(),
        rows.bytes.tolist(),
        rates.tolist(),
        rows.source_kind.tolist(),
        rows.destination_kind.tolist(),
        rows.asynchronous.tolist(),
        rows.correlation.tolist(),
        strict=True,
    ):
        fields: list[tuple[int, str, Any]] = []
        if sized:
            fields.append((label[_BYTES], "int_value", size))
            if not math.isnan(rate):
                fields.append((label[_GBS], "double_value", rate))
        if moves:
            fields.append((label[_FROM], "string_value_iid", kinds[source]))
            fields.append((label[_TO], "string_value_iid", kinds[destination]))
            fields.append((label[_ASYNCHRONOUS], "bool_value", freely))
        fields.append((label[_CORRELATION], "int_value", number))
        yield fields


#: What tracks of ranges are called that a program marked itself.
NVTX = "NVTX ranges"


def write_ranges(
    writer: Writer, process: int, timeline: Timeline, pid: int, title: str = NVTX
) -> None:
    """Write a track for the ranges of each thread, and one for those of the whole process.

    One that was open when its trace ended reaches to the end of the watch.

    Parameters
    ----------
    process
        Number of the process's track.
    title
        What the tracks are called.
    """
    ranges = timeline.ranges
    owner = np.where(ranges.pushed, ranges.thread, -1)
    for thread in np.unique(owner[ranges.pid == pid]).tolist():
        rows = np.flatnonzero((ranges.pid == pid) & (owner == thread))
        rows = rows[np.argsort(ranges.start_ns[rows], kind="stable")]
        start = ranges.start_ns[rows]
        end = np.where(ranges.end_ns[rows] > 0, ranges.end_ns[rows], timeline.end_ns)
        end = np.maximum(start, end)
        name = title + (f" of thread {thread}" if thread >= 0 else " of the process")
        lane_of = lanes(start, end)
        # tracks of one name and parent are drawn as one with as many lines
        tracks = [writer.track(name, process).uuid for _ in range(int(lane_of.max()) + 1)]
        for row, begin, until, lane in zip(
            rows.tolist(), start.tolist(), end.tolist(), lane_of.tolist(), strict=True
        ):
            text = writer.text[ranges.names[ranges.name[row]]]
            writer.slice(tracks[lane], (begin, until), text)


def builder_class() -> Any:
    """Return the package's builder.

    Raises
    ------
    InputError
        If the package is missing or too old.
    """
    try:
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except ImportError as error:
        raise InputError(
            "the perfetto package, which writes such traces, is missing or too old here; "
            "run: pip install 'perfetto>=0.16'"
        ) from error
    return TraceProtoBuilder


class Writer:
    """Appends packets to a file; times are nanoseconds since 1970.

    Parameters
    ----------
    texts
        Names of slices and texts of annotations; packets hold their numbers.
    labels
        Names of annotations.
    """

    def __init__(
        self, file: IO[bytes], start_ns: int, texts: Iterable[str], labels: Iterable[str]
    ) -> None:
        self._file = file
        self._new = builder_class()
        self._builder = self._new()
        self._waiting = 0
        self._uuids = 0
        self.text: Mapping[str, int] = {text: i for i, text in enumerate(dict.fromkeys(texts), 1)}
        self.label: Mapping[str, int] = {text: i for i, text in enumerate(labels, 1)}
        self._clocks(start_ns)
        self._intern(start_ns)

    def track(self, name: str, parent: int | None = None, description: str = "") -> Any:
        """Add a track and return its descriptor, whose `uuid` slices name."""
        self._uuids += 1
        descriptor = self._builder.add_packet().track_descriptor
        descriptor.uuid = self._uuids
        if name:
            descriptor.name = name
        if parent is not None:
            descriptor.parent_uuid = parent
        if description:
            descriptor.description = description
        return descriptor

    def instant(self, track: int, at_ns: int, name: int, annotations: Mapping[str, str]) -> None:
        """Add something that takes no time, with texts of its own."""
        event = self._event(at_ns)
        event.type, event.track_uuid, event.name_iid = _INSTANT, track, name
        for label, value in annotations.items():
            annotation = event.debug_annotations.add()
            annotation.name, annotation.string_value = label, value

    def slice(
        self,
        track: int,
        span: tuple[int, int],
        name: int,
        annotations: Annotations = (),
        flow: int = 0,
    ) -> None:
        """Add a slice; slices with the same `flow` above 0 are joined by arrows."""
        event = self._event(span[0])
        event.type, event.track_uuid, event.name_iid = _BEGIN, track, name
        if flow:
            event.flow_ids.append(flow)
        for label, field, value in annotations:
            annotation = event.debug_annotations.add()
            annotation.name_iid = label
            setattr(annotation, field, value)
        event = self._event(span[1])
        event.type, event.track_uuid = _END, track

    def points(self, track: int, at_ns: Iterable[int], values: Iterable[float]) -> None:
        """Add a counter's values, each from its time on."""
        for at, value in zip(at_ns, values, strict=True):
            event = self._event(at)
            event.type, event.track_uuid, event.double_counter_value = _COUNTER, track, value

    def flush(self) -> None:
        """Write what waits."""
        self._file.write(self._builder.serialize())
        self._builder, self._waiting = self._new(), 0

    def _event(self, at_ns: int) -> Any:
        if self._waiting >= _BATCH:
            self.flush()
        self._waiting += 1
        packet = self._builder.add_packet()
        packet.timestamp = at_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _NEEDS_STATE
        return packet.track_event

    def _clocks(self, start_ns: int) -> None:
        """Tell the trace's clock: without a snapshot only CLOCK_BOOTTIME can be read.

        What that showed was not recorded. Giving both the same time keeps times as they are,
        whichever a reader takes as the trace's own.
        """
        snapshot = self._builder.add_packet().clock_snapshot
        snapshot.primary_trace_clock = _REALTIME
        for clock in (_REALTIME, _BOOTTIME):
            snapshot.clocks.add(clock_id=clock, timestamp=start_ns)

    def _intern(self, start_ns: int) -> None:
        packet = self._builder.add_packet()
        packet.timestamp = start_ns
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = _CLEARED
        packet.first_packet_on_sequence = True
        packet.trace_packet_defaults.timestamp_clock_id = _REALTIME
        for text, number in self.text.items():
            packet.interned_data.event_names.add(iid=number, name=text)
            packet.interned_data.debug_annotation_string_values.add(iid=number, str=text.encode())
        for text, number in self.label.items():
            packet.interned_data.debug_annotation_names.add(iid=number, name=text)
