"""A watch as a trace that https://ui.perfetto.dev opens.

Each process is a track with one for each of its streams, where copies, memsets and kernels
are slices, and one for each thread, where the calls are that caused them, joined by arrows; NVTX
ranges are slices of tracks beside these.
Counters are tracks of their own. Times are nanoseconds since 1970, as in the timeline.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lanescope.run.atomic import replace_when_written
from lanescope.watch.codes import UNKNOWN_THREAD, IntArray, What
from lanescope.watch.export.packets import Writer, builder_class
from lanescope.watch.export.range_slices import write_ranges
from lanescope.watch.export.slices import CALL, LABELS, annotated, slice_names, texts_of
from lanescope.watch.export.tracks import MOST_POINTS, counter_track, lanes, unknown_spans
from lanescope.watch.operations import Operations
from lanescope.watch.run import WatchRun
from lanescope.watch.stored import in_memory
from lanescope.watch.timeline import NVLINK, Counters, Process, Timeline

_ABOUT, _UNKNOWN = "about this trace", "nothing is known"
_WAYS = (("to GPU, wire", "rx_bytes"), ("from GPU, wire", "tx_bytes"))
_NVLINK_WAYS = (("NVLink rx", "rx_bytes"), ("NVLink tx", "tx_bytes"))


def write_perfetto(path: Path, run: WatchRun, most_points: int = MOST_POINTS) -> None:
    """Write a watch as a Perfetto trace.

    Parameters
    ----------
    most_points
        Counters with more records than this are written as means and peaks of equally many
        records; the trace says so.

    Raises
    ------
    InputError
        If the ``perfetto`` package is missing.
    OSError
        If the file cannot be written.
    """
    builder_class()  # before anything is made that a failure would leave
    replace_when_written(path, lambda file: _write(file, run, most_points))


def _write(file: BinaryIO, run: WatchRun, most_points: int) -> None:
    timeline = run.timeline
    operations = in_memory(timeline.operations)
    if np.any(operations.start_ns[1:] < operations.start_ns[:-1]):
        operations = operations.rows(np.argsort(operations.start_ns, kind="stable"))
    texts = (_ABOUT, _UNKNOWN, *texts_of(operations), *timeline.ranges.names)
    writer = Writer(file, timeline.start_ns, texts, LABELS)
    about = {"program": shlex.join(run.manifest.program), "command": run.manifest.command}
    for counters in timeline.counters:
        about |= _counters(writer, counters, most_points)
    _processes(writer, timeline, operations)
    about |= {f"note {i}": note for i, note in enumerate(run.manifest.notes, 1)}
    about["lanescope"] = run.manifest.tool_version
    uuid = writer.track("lanescope").uuid
    writer.instant(uuid, timeline.start_ns, writer.text[_ABOUT], about)
    writer.flush()


def _counters(writer: Writer, counters: Counters, most: int) -> dict[str, str]:
    """Write a counter's tracks and return what the trace says of them."""
    gpu, source = f"g{counters.gpu}", counters.source
    over_nvlink = counters.link == NVLINK
    told = {}
    if over_nvlink:
        source += " of NVLink"
    for way, column in _NVLINK_WAYS if over_nvlink else _WAYS:
        found = counter_track(counters, getattr(counters, column), most)
        each = "each record"
        if found.peak is not None:
            each = f"the mean of each {found.records:,} records; the peak is their fastest one"
            told[f"{gpu} {source}"] = f"points are {each}; the run folder holds all of them"
        for word, points in (("", found.mean), (" peak", found.peak)):
            if points is not None:
                name = f"{gpu} {way}{word} (GB/s), {counters.source}"
                what = "Payload" if over_nvlink else "Wire bytes"
                track = writer.track(name, description=f"{what} by {source}: {each}.")
                track.counter.unit_name = "GB/s"
                writer.points(track.uuid, points.at_ns.tolist(), points.gbs.tolist())
    if spans := unknown_spans(counters):
        words = "Counters are drawn as 0 there, which was not measured."
        uuid = writer.track(f"{gpu} not known, {source}", description=words).uuid
        for span in spans:
            writer.slice(uuid, span, writer.text[_UNKNOWN])
    return told


def _processes(writer: Writer, timeline: Timeline, operations: Operations) -> None:
    known = {process.pid: process for process in timeline.processes}
    for pid in np.union1d(operations.pid, timeline.ranges.pid).tolist():
        known.setdefault(pid, Process(pid, "", timeline.start_ns))
    names = slice_names(operations)
    for pid, process in known.items():
        track = writer.track("")
        track.process.pid = pid
        track.process.process_name = process.command or f"process {pid}"
        mine = np.flatnonzero(operations.pid == pid)
        calls = _Calls(operations, mine)
        _streams(writer, track.uuid, operations, mine, names, calls)
        calls.write(writer, track.uuid, pid)
        write_ranges(writer, track.uuid, timeline, pid)


class _Calls:
    """The calls of one process: several operations can be of one, as those of a graph are."""

    def __init__(self, operations: Operations, mine: IntArray) -> None:
        self._operations = operations
        called = mine[operations.call_start_ns[mine] > 0]
        begins = operations.call_start_ns[called]
        key = np.stack((operations.thread[called], begins), axis=1)
        _, first, which = np.unique(key, axis=0, return_index=True, return_inverse=True)
        self._rows = called[first]
        #: Number of each operation's call, which joins the two; 0 for none.
        self.flow = np.zeros(len(operations), np.int64)
        self.flow[called] = self._rows[which.ravel()] + 1

    def write(self, writer: Writer, process: int, pid: int) -> None:
        """Write a track for each thread that called."""
        operations = self._operations
        threads = operations.thread[self._rows]
        for thread in np.unique(threads).tolist():
            rows = self._rows[threads == thread]
            start, end = operations.call_start_ns[rows], operations.call_end_ns[rows]
            tracks: dict[int, int] = {}
            for row, begin, until, lane in zip(
                rows.tolist(),
                start.tolist(),
                np.maximum(start, end).tolist(),
                lanes(start, end).tolist(),
                strict=True,
            ):
                if lane not in tracks:
                    tracks[lane] = _thread(writer, process, pid, thread, lane)
                kernel = operations.what[row] == What.KERNEL
                name = CALL if kernel else operations.names[operations.name[row]] or CALL
                writer.slice(tracks[lane], (begin, until), writer.text[name], (), row + 1)


def _thread(writer: Writer, process: int, pid: int, thread: int, lane: int) -> int:
    if thread == UNKNOWN_THREAD or lane:  # calls of one thread do not overlap: not one thread
        return int(writer.track("calls", process).uuid)
    track = writer.track("", process)
    track.thread.pid, track.thread.tid = pid, thread
    track.thread.thread_name = f"calls of thread {thread}"
    return int(track.uuid)


def _streams(
    writer: Writer,
    process: int,
    operations: Operations,
    mine: IntArray,
    names: list[str],
    calls: _Calls,
) -> None:
    for name, rows in _by_stream(operations, mine):
        found = operations.rows(rows)
        lane_of = lanes(found.start_ns, found.end_ns)
        # tracks of one name and parent are drawn as one with as many lines
        tracks = [writer.track(name, process).uuid for _ in range(int(lane_of.max()) + 1)]
        for row, begin, end, lane, flow, told in zip(
            rows.tolist(),
            found.start_ns.tolist(),
            np.maximum(found.start_ns, found.end_ns).tolist(),
            lane_of.tolist(),
            calls.flow[rows].tolist(),
            annotated(found, writer),
            strict=True,
        ):
            writer.slice(tracks[lane], (begin, end), writer.text[names[row]], told, flow)


def _by_stream(operations: Operations, mine: IntArray) -> Iterator[tuple[str, IntArray]]:
    columns = (operations.device, operations.context, operations.stream)
    key = np.stack([column[mine] for column in columns], axis=1)
    found, which = np.unique(key, axis=0, return_inverse=True)
    for number, (device, context, stream) in enumerate(found.tolist()):
        yield f"g{device}, context {context}, stream {stream}", mine[which.ravel() == number]
