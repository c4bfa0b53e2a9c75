"""A watch as files for other programs: a Perfetto trace, and two CSV files.

The trace opens in https://ui.perfetto.dev. Each process is a track with one for each of its
streams, where copies, memsets and kernels are slices, and one for each thread, where the calls are
that caused them, joined by arrows; NVTX ranges are slices of tracks beside these. Counters are
tracks of their own. Times are nanoseconds since 1970, as in the timeline.

Of the CSV files ``copies.csv`` has a row for each copy and each migration of managed memory,
``counters.csv`` one for each record of each counter. Names of columns end with their unit:
``_ns`` is whole nanoseconds since 1970, ``_s`` seconds since the watch began, with nine
digits, ``_bytes`` bytes, ``_gbs`` 1e9 bytes a second. Missing is empty, never 0.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lanescope.codec.files import replace_when_written, write_named, writing_to
from lanescope.report.format import safe_cells
from lanescope.report.perfetto_tracks import (
    CALL,
    LABELS,
    MOST_POINTS,
    NVTX,
    FreeLanes,
    Writer,
    annotated,
    builder_class,
    counter_track,
    slice_names,
    texts_of,
    unknown_spans,
    write_ranges,
)
from lanescope.trace.attribution import CalledFrom, line_texts
from lanescope.trace.codes import (
    HOST_DEVICE,
    UNKNOWN_THREAD,
    DirectionCode,
    IntArray,
    MemoryKind,
    OperationCode,
)
from lanescope.trace.operations import COLUMNS, Operations
from lanescope.trace.run import WatchRun
from lanescope.trace.timeline import NVLINK, Counters, OpenRanges, Process, Timeline
from lanescope.units.sizes import bandwidths_gbs

#: No page draws so many lines, and each takes some memory.
MOST_TRACKS = 1 << 16
_ABOUT, _UNKNOWN = "about this trace", "nothing is known"
_DIRECTIONS = (("to GPU, wire", "rx_bytes"), ("from GPU, wire", "tx_bytes"))
_NVLINK_DIRECTIONS = (("NVLink rx", "rx_bytes"), ("NVLink tx", "tx_bytes"))
COPIES = "copies.csv"
COUNTERS = "counters.csv"
#: So many rows become Python objects at a time.
_CHUNK = 1 << 16
_NS = 1_000_000_000
_COPY_COLUMNS = (
    "start_s",
    "end_s",
    "start_ns",
    "end_ns",
    "what",
    "direction",
    "moved_bytes",
    "rate_gbs",
    "pid",
    "thread",
    "gpu",
    "context",
    "stream",
    "source_memory",
    "source_gpu",
    "destination_memory",
    "destination_gpu",
    "asynchronous",
    "call",
    "call_start_ns",
    "call_end_ns",
    "correlation",
    "range",
    "python_line",
)
_COUNTER_COLUMNS = (
    "source",
    "gpu",
    "start_s",
    "end_s",
    "start_ns",
    "end_ns",
    "known",
    "to_gpu_wire_bytes",
    "from_gpu_wire_bytes",
    "to_gpu_wire_gbs",
    "from_gpu_wire_gbs",
    "link",
)


def write_perfetto(
    path: Path, run: WatchRun, most_points: int = MOST_POINTS, *, ranges: str = NVTX
) -> None:
    """Write a watch as a Perfetto trace.

    Parameters
    ----------
    most_points
        Counters with more records than this are written as means and peaks of equally many
        records; the trace says so.
    ranges
        What the tracks of the ranges are called.

    Raises
    ------
    InputError
        If the ``perfetto`` package is missing.
    OSError
        If the file cannot be written.
    """
    builder_class()  # before anything is made that a failure would leave
    write_named(path, lambda file: _write(file, run, most_points, ranges))


def _write(file: BinaryIO, run: WatchRun, most_points: int, ranges: str) -> None:
    timeline = run.timeline
    # in the order of their starts
    operations = timeline.operations.where(lambda o: np.ones(len(o), np.bool_), *COLUMNS)
    texts = (_ABOUT, _UNKNOWN, *texts_of(operations), *timeline.ranges.names)
    writer = Writer(file, timeline.start_ns, texts, LABELS)
    about = {"program": shlex.join(run.manifest.program), "command": run.manifest.command}
    for counters in timeline.counters:
        about |= _counters(writer, counters, most_points)
    about |= _processes(writer, timeline, operations, ranges)
    about |= {f"note {i}": note for i, note in enumerate(run.manifest.notes, 1)}
    about["lanescope"] = run.manifest.tool_version
    uuid = writer.track("lanescope").uuid
    writer.instant(uuid, timeline.start_ns, writer.text[_ABOUT], about)
    writer.flush()


def _counters(writer: Writer, counters: Counters, most: int) -> dict[str, str]:
    """Write a counter's tracks and return what the trace says of them."""
    gpu, source = f"g{counters.gpu}", counters.source
    over_nvlink = counters.link == NVLINK
    totals = {}
    if over_nvlink:
        source += " of NVLink"
    for direction, column in _NVLINK_DIRECTIONS if over_nvlink else _DIRECTIONS:
        found = counter_track(counters, getattr(counters, column), most)
        each = "each record"
        if found.peak is not None:
            each = f"the mean of each {found.records:,} records; the peak is their fastest one"
            totals[f"{gpu} {source}"] = f"points are {each}; the run folder holds all of them"
        for word, points in (("", found.mean), (" peak", found.peak)):
            if points is not None:
                name = f"{gpu} {direction}{word} (GB/s), {counters.source}"
                what = "Payload" if over_nvlink else "Wire bytes"
                track = writer.track(name, description=f"{what} by {source}: {each}.")
                track.counter.unit_name = "GB/s"
                writer.points(track.uuid, points.at_ns.tolist(), points.gbs.tolist())
    if spans := unknown_spans(counters):
        words = "Counters are drawn as 0 there, which was not measured."
        uuid = writer.track(f"{gpu} not known, {source}", description=words).uuid
        for span in spans:
            writer.slice(uuid, span, writer.text[_UNKNOWN])
    return totals


def _processes(
    writer: Writer, timeline: Timeline, operations: Operations, ranges: str
) -> dict[str, str]:
    """Write what processes did, and return what the trace says of it."""
    known = {process.pid: process for process in timeline.processes}
    for pid in sorted(operations.values("pid").union(timeline.ranges.pid.tolist())):
        known.setdefault(pid, Process(pid, "", timeline.start_ns))
    tracks = _Tracks(writer)
    for pid, process in known.items():
        track = writer.track("")
        track.process.pid = pid
        track.process.process_name = process.command or f"process {pid}"
        tracks.of_process[pid] = track.uuid
        write_ranges(writer, track.uuid, timeline, pid, ranges)
    for piece in operations.pieces():
        _slices(writer, tracks, piece)
    _calls(writer, tracks, operations)
    if not tracks.left_out:
        return {}
    more = f"more than {MOST_TRACKS:,} streams, threads and what overlaps in them"
    return {"left out": f"{tracks.left_out:,} slices were left out: there are {more}"}


class _Tracks:
    """Tracks of streams and threads, with as many lines as what overlaps needs."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lanes: dict[tuple[int, ...], tuple[FreeLanes, list[int]]] = {}
        self._count = 0
        #: Numbers of the tracks of processes, by their process ids.
        self.of_process: dict[int, int] = {}
        #: Slices for which there was no track any more.
        self.left_out = 0

    def take(self, key: tuple[int, ...], start: int, end: int) -> int | None:
        """Return the track of a slice; None where there are too many.

        Parameters
        ----------
        key
            Process id and thread, or process id, device, context and stream.
        """
        free, tracks = self._lanes.get(key) or (FreeLanes(), [])
        lane = free.take(start, end, len(tracks) + MOST_TRACKS - self._count)
        if lane is None:
            self.left_out += 1
            return None
        if lane == len(tracks):
            tracks.append(self._track(key, lane))
            self._count += 1
            self._lanes[key] = free, tracks
        return tracks[lane]

    def _track(self, key: tuple[int, ...], lane: int) -> int:
        """Return a new one; those of one name and parent are drawn as one with as many lines."""
        pid, parent = key[0], self.of_process[key[0]]
        if len(key) > 2:
            _, device, context, stream = key
            name = f"g{device}, context {context}, stream {stream}"
            return int(self._writer.track(name, parent).uuid)
        thread = key[1]
        if thread == UNKNOWN_THREAD or lane:  # calls of one thread do not overlap: not one thread
            return int(self._writer.track("calls", parent).uuid)
        track = self._writer.track("", parent)
        track.thread.pid, track.thread.tid = pid, thread
        track.thread.thread_name = f"calls of thread {thread}"
        return int(track.uuid)


def _slices(writer: Writer, tracks: _Tracks, rows: Operations) -> None:
    keys = np.stack((rows.pid, rows.device, rows.context, rows.stream), axis=1)
    for key, begin, end, name, flow, details in zip(
        map(tuple, keys.tolist()),
        rows.start_ns.tolist(),
        np.maximum(rows.start_ns, rows.end_ns).tolist(),
        slice_names(rows),
        _flows(rows).tolist(),
        annotated(rows, writer),
        strict=True,
    ):
        track = tracks.take(key, begin, end)
        if track is not None:
            writer.slice(track, (begin, end), writer.text[name], details, flow)


def _calls(writer: Writer, tracks: _Tracks, operations: Operations) -> None:
    """Write calls, once each: several operations can be of one, as those of a graph are."""
    columns = ("pid", "thread", "what", "name", "call_start_ns", "call_end_ns")
    called = operations.where(lambda o: o.call_start_ns > 0, *columns, by="call_start_ns")
    last: dict[tuple[int, ...], int] = {}
    for piece in called.pieces():
        start, end = piece.call_start_ns, np.maximum(piece.call_start_ns, piece.call_end_ns)
        for key, begin, until, kernel, name, flow in zip(
            map(tuple, np.stack((piece.pid, piece.thread), axis=1).tolist()),
            start.tolist(),
            end.tolist(),
            piece.is_kernel.tolist(),
            piece.name.tolist(),
            _flows(piece).tolist(),
            strict=True,
        ):
            if last.get(key) == begin:
                continue
            last[key] = begin
            track = tracks.take(key, begin, until)
            if track is not None:
                text = CALL if kernel else piece.names[name] or CALL
                writer.slice(track, (begin, until), writer.text[text], (), flow)


def _flows(rows: Operations) -> IntArray:
    """Return a number for each operation's call, which joins the two; 0 for none.

    Of 63 bits made of process, thread and begin: those of ten million calls differ, but for a
    chance of 5e-6.
    """
    mixed = np.zeros(len(rows), np.uint64)
    for column in (rows.pid, rows.thread, rows.call_start_ns):
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    flows: IntArray = np.where(rows.call_start_ns > 0, mixed >> np.uint64(1), 0).astype(np.int64)
    return flows


def write_csv(folder: Path, timeline: Timeline) -> tuple[Path, ...]:
    """Write a timeline's files into a folder, which is made, and return their paths.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write_rows(folder / COPIES, _COPY_COLUMNS, _copies(timeline))
        _write_rows(folder / COUNTERS, _COUNTER_COLUMNS, _records(timeline))
    return folder / COPIES, folder / COUNTERS


def seconds_from(start_ns: int, at_ns: int) -> str:
    """Return the seconds between two times as text with nine digits, which no float rounds."""
    since = at_ns - start_ns
    whole, rest = divmod(abs(since), _NS)
    return f"{'-' if since < 0 else ''}{whole}.{rest:09d}"


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    def write(binary: BinaryIO) -> None:
        file = io.TextIOWrapper(binary, newline="", encoding="utf-8")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(map(safe_cells, rows))
        file.flush()
        file.detach()  # whoever opened it closes it

    replace_when_written(path, write)


def _copies(timeline: Timeline) -> Iterator[Sequence[Any]]:
    ranges, called = OpenRanges(timeline.ranges), CalledFrom(timeline.python_lines)
    lines = line_texts(timeline.python_lines)
    for rows in timeline.operations.where(lambda o: o.moves, *COLUMNS).pieces():
        in_range = [ranges.names[code] for code in ranges.codes(rows).tolist()]
        of_lines = [lines[stack] for stack in called.stacks(rows).tolist()]
        yield from _copy_rows(rows, timeline.start_ns, in_range, of_lines)


def _copy_rows(
    rows: Operations, origin: int, in_range: list[str], of_lines: list[str]
) -> Iterator[Sequence[Any]]:
    starts, ends = rows.start_ns.tolist(), rows.end_ns.tolist()
    yield from zip(
        [seconds_from(origin, at) for at in starts],
        [seconds_from(origin, at) for at in ends],
        starts,
        ends,
        [OperationCode(code).name.lower() for code in rows.what.tolist()],
        [DirectionCode(code).label for code in rows.direction.tolist()],
        rows.bytes.tolist(),
        _numbers(bandwidths_gbs(rows.bytes.astype(np.float64), rows.seconds).tolist()),
        rows.pid.tolist(),
        _known(rows.thread.tolist(), UNKNOWN_THREAD),
        rows.device.tolist(),
        rows.context.tolist(),
        rows.stream.tolist(),
        [MemoryKind(code).label for code in rows.source_kind.tolist()],
        _known(rows.source_device.tolist(), HOST_DEVICE),
        [MemoryKind(code).label for code in rows.destination_kind.tolist()],
        _known(rows.destination_device.tolist(), HOST_DEVICE),
        rows.asynchronous.astype(np.int64).tolist(),
        [rows.names[number] for number in rows.name.tolist()],
        _known(rows.call_start_ns.tolist(), 0),
        _known(rows.call_end_ns.tolist(), 0),
        rows.correlation.tolist(),
        in_range,
        of_lines,
        strict=True,
    )


def _records(timeline: Timeline) -> Iterator[Sequence[Any]]:
    for counters in timeline.counters:
        for chunk, starts in counters.pieces(_CHUNK):
            yield from _record_rows(counters, chunk, starts, timeline.start_ns)


def _record_rows(
    counters: Counters, chunk: slice, start: IntArray, origin: int
) -> Iterator[Sequence[Any]]:
    end = counters.end_ns[chunk]
    known = counters.known[chunk]
    seconds = np.where(known, (end - start).astype(np.float64) * 1e-9, np.nan)
    is_known = known.tolist()
    received, sent = counters.rx_bytes[chunk], counters.tx_bytes[chunk]
    for row in zip(
        [seconds_from(origin, at) for at in start.tolist()],
        [seconds_from(origin, at) for at in end.tolist()],
        start.tolist(),
        end.tolist(),
        known.astype(np.int64).tolist(),
        [count if k else "" for count, k in zip(received.tolist(), is_known, strict=True)],
        [count if k else "" for count, k in zip(sent.tolist(), is_known, strict=True)],
        _numbers(bandwidths_gbs(received.astype(np.float64), seconds).tolist()),
        _numbers(bandwidths_gbs(sent.astype(np.float64), seconds).tolist()),
        strict=True,
    ):
        yield (counters.source, counters.gpu, *row, counters.link)


def _numbers(values: Iterable[float]) -> list[str]:
    return ["" if math.isnan(value) else f"{value:.6g}" for value in values]


def _known(values: Iterable[int], missing: int) -> list[int | str]:
    return ["" if value == missing else value for value in values]
