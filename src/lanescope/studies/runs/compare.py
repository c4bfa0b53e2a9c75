"""What changed between two runs: each path's effect with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    ColumnOf,
    Kind,
    Style,
    Table,
    Text,
    Tone,
)
from lanescope.report.format import (
    count_text,
    gbs_text,
    percent_text,
    seconds_text,
    unchanged_text,
)
from lanescope.results.result import Result
from lanescope.store.run import Run
from lanescope.studies.runs.values import PathRow, path_rows

_NOTE = (
    "Effect: of B on A; above 0 is faster. The interval is that of the ratio of both medians, from "
    "their 95 % intervals as independent errors. It holds within these two runs: how much runs "
    "differ from each other, only further runs of the same say."
)


@dataclass(frozen=True, slots=True)
class Change:
    """One path in both runs.

    Attributes
    ----------
    before, after
        Its rows in both runs.
    effect
        Rate of B over rate of A, minus 1; of a latency the times the other way round.
    half_width
        Half of the 95 % interval of the effect; None where one of the medians has none.
    """

    before: PathRow
    after: PathRow
    effect: float
    half_width: float | None

    def is_certain(self, threshold: float) -> bool:
        """Whether the whole interval lies further from 0 than a threshold."""
        return self.half_width is not None and abs(self.effect) - self.half_width > threshold

    def is_slower(self, threshold: float) -> bool:
        """Whether it got slower by more than a threshold for certain."""
        return self.effect < 0 and self.is_certain(threshold)


def changes(before: Run, after: Run) -> list[Change]:
    """Return the paths that both runs measured, with what became of them."""
    earlier = {_key(row): row for row in _measured(before.results)}
    pairs = ((earlier.get(_key(row)), row) for row in _measured(after.results))
    return [_change(old, new) for old, new in pairs if old is not None]


def unmatched(before: Run, after: Run) -> list[str]:
    """Return what only one of the runs has, a sentence for each run."""
    keys = [{_key(row): row.label for row in _measured(run.results)} for run in (before, after)]
    sentences = []
    for name, mine, other in (("A", keys[0], keys[1]), ("B", keys[1], keys[0])):
        if alone := [label for key, label in mine.items() if key not in other]:
            more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
            sentences.append(f"Only {name} measured {'; '.join(alone[:3])}{more}.")
    return sentences


def headline(found: Sequence[Change], threshold: float) -> str:
    """Return in a sentence what changed."""
    if not found:
        return "The runs have no measured path in common."
    if all(change.half_width is None for change in found):
        return f"No path can be judged: {count_text(len(found), 'path')} without an interval."
    slower = [c for c in found if c.is_slower(threshold)]
    faster = [c for c in found if c.effect > 0 and c.is_certain(threshold)]
    clauses = []
    for word, changed in (("slower", slower), ("faster", faster)):
        if changed:
            most = max(changed, key=lambda c: abs(c.effect))
            clauses.append(
                f"{count_text(len(changed), 'path')} {word}, most {most.after.label} by "
                f"{percent_text(abs(most.effect))}"
            )
    unknown = sum(c.half_width is None for c in found)
    judged = (c for c in found if c.half_width is not None)
    rest = [c.effect for c in judged if not c.is_certain(threshold)]
    clauses += unchanged_text(rest, threshold, "path")
    if unknown:
        clauses.append(f"{count_text(unknown, 'path')} without an interval, so not judged")
    return "; ".join(clauses) + "."


def comparison(before: Run, after: Run, threshold: float) -> list[Block]:
    """Return what changed between two runs as blocks; what got slower comes first."""
    found = sorted(changes(before, after), key=lambda c: c.effect)
    blocks: list[Block] = [Text(headline(found, threshold), Style.STRONG)]
    if before.predicted or after.predicted:
        which = " and ".join(n for n, r in (("A", before), ("B", after)) if r.predicted)
        blocks.insert(0, Text(f"PREDICTED, not measured: {which}.", Style.WARNING))
    if found:
        columns: list[ColumnOf[Change]] = [
            ColumnOf("path", lambda one: one.after.label),
            ColumnOf("A", lambda one: _value(one.before)),
            ColumnOf("B", lambda one: _value(one.after)),
            ColumnOf(
                "effect",
                lambda one: Cell(one.effect, strong=one.is_certain(threshold)),
                Kind.SHARE,
            ),
            ColumnOf("95 % half-width", lambda one: one.half_width, Kind.HALF_WIDTH),
            ColumnOf("verdict", lambda one: _badge(one, threshold)),
        ]
        blocks.append(Table.of("Each path in both runs", columns, found, (_NOTE,)))
    return [*blocks, Bullets([*_other_machine(before, after), *unmatched(before, after)])]


def _measured(results: Iterable[Result]) -> list[PathRow]:
    rows = path_rows(results)
    return [row for row in rows if row.measured and row.measured.own_rate and _seconds(row)]


def _seconds(row: PathRow) -> float:
    return row.measured.statistics.median_seconds if row.measured else 0.0


def _half_width(row: PathRow) -> float | None:
    return None if row.measured is None else row.measured.statistics.half_width


def _key(row: PathRow) -> tuple[str, int, tuple[int, ...]]:
    """Return what tells a path from others: its experiment, its copy, and who took turns with it.

    Where an engine took it in turns in one run alone, its rates are not of the same.
    """
    copies = row.result.copies
    number = next(n for n, c in enumerate(copies) if c is row.measured)
    return row.result.experiment.name, number, copies[number].in_turns_with


def _change(before: PathRow, after: PathRow) -> Change:
    if before.gbs and after.gbs:
        ratio = after.gbs / before.gbs
    else:
        ratio = _seconds(before) / _seconds(after)
    known = [width for row in (before, after) if (width := _half_width(row)) is not None]
    half = ratio * hypot(*known) if len(known) == 2 else None
    return Change(before, after, ratio - 1, half)


def _value(row: PathRow) -> str:
    return f"{gbs_text(row.gbs)} GB/s" if row.gbs else seconds_text(_seconds(row))


def _badge(change: Change, threshold: float) -> Badge:
    if change.half_width is None:
        return Badge("no interval", Tone.OPEN)
    if not change.is_certain(threshold):
        is_small = abs(change.effect) <= threshold
        return Badge("as before", Tone.QUIET) if is_small else Badge("not certain", Tone.OPEN)
    return Badge("slower", Tone.BAD, "▼") if change.effect < 0 else Badge("faster", Tone.GOOD, "▲")


def _other_machine(before: Run, after: Run) -> list[str]:
    names = [run.manifest.machine.name for run in (before, after)]
    gpus = [[gpu.name for gpu in run.manifest.machine.gpus] for run in (before, after)]
    said = []
    if names[0] != names[1] or gpus[0] != gpus[1]:
        said.append(f"A is of {names[0]} ({_gpus(gpus[0])}), B of {names[1]} ({_gpus(gpus[1])}).")
    drivers = [run.manifest.machine.driver for run in (before, after)]
    if drivers[0] != drivers[1]:
        one, other = ("no driver" if name is None else f"driver {name}" for name in drivers)
        said.append(f"A has {one}, B {other}.")
    versions = [run.manifest.tool_version for run in (before, after)]
    if versions[0] != versions[1]:
        said.append(f"A was made by lanescope {versions[0]}, B by {versions[1]}.")
    return said


def _gpus(names: Sequence[str]) -> str:
    return ", ".join(f"{names.count(n)} x {n}" for n in dict.fromkeys(names)) or "no GPUs"
