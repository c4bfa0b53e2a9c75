"""``advise --what-if``: measured rounds under edits, before and after, and what bounds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.calls import checked
from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    Document,
    Group,
    Kind,
    Section,
    Style,
    Table,
    Text,
)
from lanescope.errors import InputError
from lanescope.findings.advice.critical_path import Activity, shares
from lanescope.findings.advice.what_if import PhaseWhatIf, Replay
from lanescope.kinds import StrPath
from lanescope.report import format as fmt
from lanescope.studies.analysis import PagedResult, seconds_fields
from lanescope.studies.what_if_timeline import slowest_segments, timeline_block, write_trace
from lanescope.trace.run import WatchRun

#: So many things that the critical path is spent on are listed.
_MOST_LISTED = 6


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
        schedule = Section("schedule", "Schedule", [Text(about), timeline_block(first, self.run)])
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
            write_trace(Path(path), self.phases[0], self.run)
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
        columns = (
            Column("phase"),
            Column("rounds", Kind.COUNT),
            Column("round, measured", Kind.SECONDS),
            Column("round, predicted", Kind.SECONDS),
            Column("gain", Kind.SHARE),
            Column("gain of the run", Kind.SECONDS),
        )
        rows = [
            (
                _title(one),
                one.phase.rounds_in_run,
                one.seconds,
                one.after_seconds,
                1 - one.after_seconds.value / one.seconds if one.seconds else 0.0,
                one.run_gain_seconds,
            )
            for one in self.phases
        ]
        return Table("", columns, [Group(rows)])

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


def _listed(replay: Replay, names: Sequence[str], rounds: int) -> Iterator[str]:
    for at, (word, total, count) in enumerate(slowest_segments(replay, names)):
        if at == _MOST_LISTED:
            return
        yield (
            f"{word}: {fmt.seconds_text(total * 1e-9 / rounds)} a round "
            f"({fmt.count_text(count, 'time')} in {fmt.count_text(rounds, 'round')})"
        )


def _path_table(one: PhaseWhatIf) -> Table:
    rounds = fmt.count_text(one.rounds, "round")
    columns = [Column("critical path"), Column(rounds, Kind.SECONDS, "Those that are replayed")]
    columns += [Column(str(activity), Kind.SHARE) for activity in Activity]
    rows: list[list[str | float]] = [
        [word, replay.nanoseconds * 1e-9, *shares(replay.path).values()]
        for word, replay in (("before, measured", one.before), ("after, predicted", one.after))
    ]
    return Table("", columns, [Group(rows)])


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


def _path_fields(replay: Replay, rounds: int) -> dict[str, float]:
    seconds = replay.nanoseconds * 1e-9 / rounds
    return {
        f"{activity.value.replace(' ', '_')}_seconds": share * seconds
        for activity, share in shares(replay.path).items()
    }
