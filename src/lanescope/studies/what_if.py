"""``advise --what-if``: measured rounds under edits, before and after, and what bounds them.

Both schedules are a timeline, for the page and for Perfetto.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.calls import checked
from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    ColumnOf,
    Document,
    Group,
    Kind,
    Section,
    Style,
    Table,
    TableCell,
    Text,
)
from lanescope.document.blocks import TimelineBlock as TimelineBlock
from lanescope.errors import InputError
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.schedule import Placed
from lanescope.findings.advice.what_if import (
    Activity,
    CriticalSegment,
    PhaseWhatIf,
    ScheduleReplay,
    shares,
)
from lanescope.kinds import StrPath
from lanescope.report import format as fmt
from lanescope.report.html import FROM_GPU, TO_GPU
from lanescope.report.timeline_html import RowGroup, packed
from lanescope.report.timeline_lanes import KERNEL_COLOUR, RANGE, Lane, lanes_of
from lanescope.report.watch_files import write_perfetto
from lanescope.studies.analysis import PagedResult, seconds_fields
from lanescope.trace.codes import MemoryKind, OperationCode
from lanescope.trace.operations import Operations
from lanescope.trace.run import WatchRun
from lanescope.trace.timeline import Process, Ranges, Timeline
from lanescope.units.words import shortened

#: So many things that the critical path is spent on are listed.
_MOST_LISTED = 6
_BEFORE, _AFTER = "before, as measured", "after, predicted"
_HUES = {
    Activity.HOST: "#8d6aa8",
    Activity.H2D: TO_GPU,
    Activity.KERNELS: KERNEL_COLOUR,
    Activity.D2H: FROM_GPU,
    Activity.LAG: "#b0563b",
}
_MOST_OPERATIONS = 50_000
_STREAM_BITS, _LONGEST_NAME = 32, 60


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WhatIf(PagedResult):
    """What edits make of the phases of a watch, the largest gain of the run first.

    Attributes
    ----------
    edits
        As they were named, in the order in which they are made.
    parameters
        Whose link parameters predict the copies that change; None where none was needed.
    notes
        Sentences on what the numbers do not say.
    """

    run: WatchRun
    edits: tuple[str, ...]
    parameters: str | None
    phases: tuple[PhaseWhatIf, ...]
    notes: tuple[str, ...] = ()

    def in_brief(self) -> list[str]:
        """Return the edits, and what they make of the phase that gains most."""
        phases = fmt.count_text(len(self.phases), "phase")
        lines = [f"what if {', '.join(self.edits)}: {phases} of {self.run.folder}"]
        for one in self.phases[:1]:
            after = fmt.estimate_text(one.after_seconds)
            lines.append(
                f"{_title(one)}: a round takes {after} in place of "
                f"{fmt.seconds_text(one.seconds)} (predicted)"
            )
        return lines

    def blocks(self) -> list[Section]:
        """Return what each phase takes before and after, and the critical path of both."""
        return [self._summary(), *self._phases(titled=True)]

    def _summary(self) -> Section:
        predicted = (
            "All is as measured but for what the edit changes."
            if self.parameters is None
            else "Copies that the edit changes are predicted with the parameters of "
            f"{self.parameters}; all else is as measured."
        )
        edits = ", ".join(self.edits)
        head = f"Measured rounds, replayed with {edits}. {predicted} In brackets 95 % intervals."
        losses = [_loss(one) for one in self.phases if one.run_gain_seconds < 0]
        notes = map(Text, [*losses, *self.notes])
        return Section("what-if", "What if", [Text(head), self._table(), *notes])

    def _phases(self, *, titled: bool) -> Iterator[Section]:
        """Yield each phase; a terminal, which has no headings, needs the title in the text."""
        for at, one in enumerate(self.phases):
            title = [Text(_title(one), Style.STRONG)] if titled else []
            yield Section(f"phase-{at}", _title(one), [*title, *self._phase(one)])

    def page_document(self) -> Document:
        """Return the page: the same, and the schedule of the phase that gains most."""
        first, manifest = self.phases[0], self.run.manifest
        about = (
            f"{_title(first)}, {fmt.count_text(first.rounds, 'round')}: above as measured, below "
            "as predicted, on one axis of time. The rows 'critical path' show what the end of "
            "the last round depends on: to shorten anything else gains nothing."
        )
        schedule = Section("schedule", "Schedule", [Text(about), _timeline_block(first, self.run)])
        return Document(
            title=f"lanescope advise --what-if {','.join(self.edits)}",
            heading=f"What if {', '.join(self.edits)}",
            started=manifest.started,
            facts=(manifest.machine.name, f"lanescope {manifest.tool_version}"),
            commands=(manifest.command,),
            headline=None,
            sections=(self._summary(), schedule, *self._phases(titled=False)),
            tool_version=manifest.tool_version,
        )

    @checked
    def perfetto(self, path: StrPath) -> Path:
        """Write the schedule of the phase that gains most for ui.perfetto.dev; return where.

        Raises
        ------
        InputError
            If it cannot be written, or the ``perfetto`` package is missing.
        """
        try:
            _write_trace(Path(path), self.phases[0], self.run)
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror}; name another place"
            ) from error
        return Path(path)

    def as_dict(self) -> dict[str, Any]:
        """Return all phases; times are seconds, of a round where nothing else is said."""
        return {
            "version": self.schema,
            "edits": list(self.edits),
            "parameters": self.parameters,
            "phases": [_fields(one) for one in self.phases],
            "notes": list(self.notes),
        }

    def _table(self) -> Table:
        columns: list[ColumnOf[PhaseWhatIf]] = [
            ColumnOf("process", _process),
            ColumnOf("rounds", lambda one: one.phase.rounds_in_run, Kind.COUNT),
            ColumnOf("measured", lambda one: one.seconds, Kind.SECONDS, "A round"),
            ColumnOf("predicted", _predicted, Kind.SECONDS, "A round after the edits"),
            ColumnOf("gain", _gain, Kind.SHARE, "Of a round"),
            ColumnOf(
                "of the run",
                lambda one: one.run_gain_seconds,
                Kind.SECONDS,
                "Gain of all rounds of the run",
            ),
        ]
        return Table.of("", columns, self.phases)

    def _phase(self, one: PhaseWhatIf) -> Iterator[Block]:
        if one.no_effect:
            yield Text(f"Changes nothing here: {', '.join(one.no_effect)}.")
        yield _path_table(one)
        after = shares(one.after.path)
        bound = max(after, key=lambda activity: after[activity])
        yield Text(
            "The largest share of the critical path, which is what the end of the last round "
            f"depends on, after the edits: {bound}, {after[bound]:.0%} (predicted)."
        )
        names = self.run.timeline.operations.names
        yield Text("The critical path after the edits, by what it is spent on (predicted):")
        yield Bullets([*_listed(one.after, names, one.rounds)])


def _listed(replay: ScheduleReplay, names: Sequence[str], rounds: int) -> Iterator[str]:
    for at, (word, total, count) in enumerate(_slowest_segments(replay, names)):
        if at == _MOST_LISTED:
            return
        yield (
            f"{word}: {fmt.seconds_text(total * 1e-9 / rounds)} a round "
            f"({fmt.count_text(count, 'time')} in {fmt.count_text(rounds, 'round')})"
        )


def _process(one: PhaseWhatIf) -> TableCell:
    """Return what `_title` says in a narrow cell: a table is 80 columns wide."""
    phase = one.phase
    return TableCell(str(phase.pid), below=(f"g{phase.gpu}, phase {phase.number}",))


def _predicted(one: PhaseWhatIf) -> TableCell:
    after = one.after_seconds
    interval = () if after.is_exact else (fmt.time_spread_text(after.low, after.high),)
    return TableCell(after.value, below=interval)


def _gain(one: PhaseWhatIf) -> float:
    return 1 - one.after_seconds.value / one.seconds if one.seconds else 0.0


def _path_table(one: PhaseWhatIf) -> Table:
    rounds = fmt.count_text(one.rounds, "round")
    columns = [Column("critical path"), Column(rounds, Kind.SECONDS, "Those that are replayed")]
    columns += [Column(_narrow(one), Kind.SHARE, str(one).capitalize()) for one in Activity]
    rows: list[list[str | float]] = [
        [word, replay.nanoseconds * 1e-9, *shares(replay.path).values()]
        for word, replay in (("measured", one.before), ("predicted", one.after))
    ]
    return Table("", columns, [Group(rows)])


def _narrow(activity: Activity) -> str:
    return activity.removeprefix("copies ")


def _title(one: PhaseWhatIf) -> str:
    phase = one.phase
    return f"Process {phase.pid} on g{phase.gpu}, phase {phase.number}"


def _loss(one: PhaseWhatIf) -> str:
    """Say that the edits make a phase slower."""
    lost = fmt.seconds_text(-one.run_gain_seconds)
    return f"{_title(one)} becomes slower: the run loses {lost} by these edits (predicted)."


def _fields(one: PhaseWhatIf) -> dict[str, Any]:
    phase = one.phase
    return {
        "pid": phase.pid,
        "gpu": phase.gpu,
        "number": phase.number,
        "rounds": one.rounds,
        "rounds_in_run": phase.rounds_in_run,
        "measured_seconds": one.seconds,
        "predicted": seconds_fields(one.after_seconds),
        "predicted_run_gain_seconds": one.run_gain_seconds,
        "no_effect": list(one.no_effect),
        "critical_path_before": _path_fields(one.before, one.rounds),
        "critical_path_after": _path_fields(one.after, one.rounds),
    }


def _path_fields(replay: ScheduleReplay, rounds: int) -> dict[str, float]:
    seconds = replay.nanoseconds * 1e-9 / rounds
    return {
        f"{activity.value.replace(' ', '_')}_seconds": share * seconds
        for activity, share in shares(replay.path).items()
    }


def _timeline_block(one: PhaseWhatIf, run: WatchRun) -> TimelineBlock:
    """Return both schedules and their critical paths as rows on one axis of time."""
    names = run.timeline.operations.names
    replays = (one.before, one.after)
    operations = [_operations(names, replay, number) for number, replay in enumerate(replays)]
    lanes = lanes_of(Operations.concat(operations), _MOST_OPERATIONS)
    for number, replay in enumerate(replays):
        lanes = lanes.with_more(*_path_lanes(names, replay, number, len(lanes.operations)))
    groups = [RowGroup(0, _BEFORE, "before"), RowGroup(1, _AFTER, "after")]
    longest = max(replay.nanoseconds for replay in replays)
    return packed(lanes, [], groups, (0, round(longest)))


def _write_trace(path: Path, one: PhaseWhatIf, run: WatchRun) -> None:
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
            Process(number + 1, title, begin) for number, title in enumerate((_BEFORE, _AFTER))
        ),
        ranges=Ranges.concat(
            [_path_ranges(names, replay, number, begin) for number, replay in enumerate(replays)]
        ),
    )
    write_perfetto(path, replace(run, timeline=timeline), ranges="critical path")


def _operations(
    names: Sequence[str], replay: ScheduleReplay, number: int, begin: int = 0
) -> Operations:
    """Return what was placed as operations of GPU `number`, of a process of its own."""
    placed, kinds = replay.placed, np.array([one.task.kind for one in replay.placed])
    host = np.array([int(one.task.memory) for one in placed])
    on_gpu, device = int(MemoryKind.DEVICE), np.full(len(placed), number)
    streams = np.array([one.task.stream for one in placed])
    return Operations.of(
        names,
        pid=device + 1,
        what=np.where(kinds == WORK, int(OperationCode.KERNEL), int(OperationCode.COPY)),
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
    names: Sequence[str], replay: ScheduleReplay, number: int, first: int
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


def _path_ranges(names: Sequence[str], replay: ScheduleReplay, number: int, begin: int) -> Ranges:
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


def _words(names: Sequence[str], replay: ScheduleReplay, segment: CriticalSegment) -> str:
    """Return what a segment of the critical path is, and of which operation."""
    task = replay.placed[segment.place].task
    name = shortened(names[task.name] if task.name < len(names) else "", _LONGEST_NAME)
    copy = f"{'h2d' if task.kind == IN else 'd2h'} copy of {fmt.bytes_text(task.bytes)}"
    operation = (name or "kernel") if task.kind == WORK else copy
    if segment.activity is Activity.HOST:
        return f"host, before {operation}"
    return f"start latency of {operation}" if segment.activity is Activity.LAG else operation


def _slowest_segments(
    replay: ScheduleReplay, names: Sequence[str]
) -> Iterator[tuple[str, float, int]]:
    """Yield what the critical path is spent on, with nanoseconds and count, the most first."""
    spent: dict[str, tuple[float, int]] = {}
    for one in replay.path:
        word = _words(names, replay, one)
        total, count = spent.get(word, (0.0, 0))
        spent[word] = total + one.end - one.begin, count + 1
    for word, (total, count) in sorted(spent.items(), key=lambda item: -item[1][0]):
        yield word, total, count
