"""Replayed schedules as a timeline, before and after: for the page, and for Perfetto."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.document.blocks import Timeline as TimelineBlock
from lanescope.findings.advice.critical_path import Activity, Segment
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.schedule import Placed
from lanescope.findings.advice.what_if import PhaseWhatIf, Replay
from lanescope.report.format import bytes_text
from lanescope.report.palette import FROM_GPU, TO_GPU
from lanescope.report.perfetto import write_perfetto
from lanescope.report.timeline_html import RowGroup, packed
from lanescope.report.timeline_lanes import KERNEL_COLOUR, RANGE, Lane, lanes_of
from lanescope.trace.codes import MemoryKind, What
from lanescope.trace.operations import Operations
from lanescope.trace.ranges import Ranges
from lanescope.trace.run import WatchRun
from lanescope.trace.timeline import Process, Timeline
from lanescope.units.words import shortened

BEFORE, AFTER = "before, as measured", "after, predicted"
_HUES = {
    Activity.HOST: "#8d6aa8",
    Activity.H2D: TO_GPU,
    Activity.KERNELS: KERNEL_COLOUR,
    Activity.D2H: FROM_GPU,
    Activity.LAG: "#b0563b",
}
_MOST_OPERATIONS = 50_000
_STREAM_BITS, _LONGEST_NAME = 32, 60


def timeline_block(one: PhaseWhatIf, run: WatchRun) -> TimelineBlock:
    """Return both schedules and their critical paths as rows on one axis of time."""
    names = run.timeline.operations.names
    replays = (one.before, one.after)
    operations = [_operations(names, replay, number) for number, replay in enumerate(replays)]
    lanes = lanes_of(Operations.concat(operations), _MOST_OPERATIONS)
    for number, replay in enumerate(replays):
        lanes = lanes.with_more(*_path_lanes(names, replay, number, len(lanes.operations)))
    groups = [RowGroup(0, BEFORE, "before"), RowGroup(1, AFTER, "after")]
    longest = max(replay.nanoseconds for replay in replays)
    return packed(lanes, [], groups, (0, round(longest)))


def write_trace(path: Path, one: PhaseWhatIf, run: WatchRun) -> None:
    """Write both schedules and their critical paths as a Perfetto trace.

    Raises
    ------
    InputError
        If the ``perfetto`` package is missing.
    OSError
        If the file cannot be written.
    """
    names = run.timeline.operations.names
    begin = run.timeline.start_ns
    replays = (one.before, one.after)
    operations = [
        _operations(names, replay, number, begin) for number, replay in enumerate(replays)
    ]
    timeline = Timeline(
        begin,
        begin + round(max(replay.nanoseconds for replay in replays)),
        operations=Operations.concat(operations),
        processes=tuple(
            Process(number + 1, title, begin) for number, title in enumerate((BEFORE, AFTER))
        ),
        ranges=Ranges.concat(
            [_path_ranges(names, replay, number, begin) for number, replay in enumerate(replays)]
        ),
    )
    write_perfetto(path, replace(run, timeline=timeline), ranges="critical path")


def _operations(names: Sequence[str], replay: Replay, number: int, begin: int = 0) -> Operations:
    """Return what was placed as operations of GPU `number`, of a process of its own."""
    placed, kinds = replay.placed, np.array([one.task.kind for one in replay.placed])
    host = np.array([int(one.task.memory) for one in placed])
    on_gpu, device = int(MemoryKind.DEVICE), np.full(len(placed), number)
    streams = np.array([one.task.stream for one in placed])
    return Operations.of(
        names,
        pid=device + 1,
        what=np.where(kinds == WORK, int(What.KERNEL), int(What.COPY)),
        start_ns=_whole((one.start for one in placed), begin),
        end_ns=_whole((one.end for one in placed), begin),
        bytes=[one.task.bytes for one in placed],
        source_kind=np.select([kinds == IN, kinds == OUT], [host, on_gpu], 0),
        destination_kind=np.select([kinds == IN, kinds == OUT], [on_gpu, host], 0),
        source_device=np.where(kinds == OUT, number, -1),
        destination_device=np.where(kinds == IN, number, -1),
        asynchronous=[not one.task.blocks for one in placed],
        device=device,
        context=streams >> _STREAM_BITS,
        stream=streams & ((1 << _STREAM_BITS) - 1),
        thread=device * 0 + 1,
        correlation=np.arange(1, len(placed) + 1),
        name=[one.task.name for one in placed],
        call_start_ns=_whole((one.submitted for one in placed), begin),
        call_end_ns=_whole(map(_returned, placed), begin),
    )


def _returned(one: Placed) -> float:
    """Return when the host was back from the call."""
    task = one.task
    return max(one.end + task.hold if task.blocks else one.submitted + task.hold, one.submitted)


def _whole(values: Any, begin: int) -> Any:
    return np.rint(np.fromiter(values, float)).astype(np.int64) + begin


def _path_lanes(
    names: Sequence[str], replay: Replay, number: int, first: int
) -> tuple[list[Lane], Operations]:
    """Return a lane for each thing that the critical path is spent on, and their rows."""
    lanes, rows = [], []
    for activity in Activity:
        own = [one for one in replay.path if one.activity is activity]
        if own:
            label = f"critical path: {activity}"
            lanes.append(Lane(number, label, "range", _HUES[activity], first, len(own)))
            first += len(own)
            rows += own
    words = [_words(names, replay, one) for one in rows]
    known = {word: place for place, word in enumerate(dict.fromkeys(words), 1)}
    return lanes, Operations.of(
        ("", *known),
        pid=[number + 1 for _ in rows],
        what=[RANGE for _ in rows],
        start_ns=_whole((one.begin for one in rows), 0),
        end_ns=_whole((one.end for one in rows), 0),
        name=[known[word] for word in words],
    )


def _path_ranges(names: Sequence[str], replay: Replay, number: int, begin: int) -> Ranges:
    words = [_words(names, replay, one) for one in replay.path]
    known = {word: place for place, word in enumerate(dict.fromkeys(words))}
    many = len(words)
    return Ranges.of(
        tuple(known),
        pid=[number + 1] * many,
        thread=[-1] * many,
        start_ns=_whole((one.begin for one in replay.path), begin),
        end_ns=_whole((one.end for one in replay.path), begin),
        pushed=[False] * many,
        name=[known[word] for word in words],
    )


def _words(names: Sequence[str], replay: Replay, segment: Segment) -> str:
    """Return what a segment of the critical path is, and of which operation."""
    task = replay.placed[segment.place].task
    name = shortened(names[task.name] if task.name < len(names) else "", _LONGEST_NAME)
    copy = f"{'h2d' if task.kind == IN else 'd2h'} copy of {bytes_text(task.bytes)}"
    operation = (name or "kernel") if task.kind == WORK else copy
    if segment.activity is Activity.HOST:
        return f"host, before {operation}"
    return f"start latency of {operation}" if segment.activity is Activity.LAG else operation


def slowest_segments(replay: Replay, names: Sequence[str]) -> Iterator[tuple[str, float, int]]:
    """Yield what the critical path is spent on, with nanoseconds and count, the most first."""
    spent: dict[str, tuple[float, int]] = {}
    for one in replay.path:
        word = _words(names, replay, one)
        total, count = spent.get(word, (0.0, 0))
        spent[word] = total + one.end - one.begin, count + 1
    for word, (total, count) in sorted(spent.items(), key=lambda item: -item[1][0]):
        yield word, total, count
