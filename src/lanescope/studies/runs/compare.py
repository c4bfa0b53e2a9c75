"""What changed between two runs, or watches: the effect of each path, or of like copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any, NamedTuple

import numpy as np

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    ColumnOf,
    Kind,
    Style,
    Table,
    TableCell,
    Text,
    Tone,
)
from lanescope.report.format import (
    bytes_text,
    count_text,
    gbs_text,
    percent_text,
    seconds_text,
    sum_text,
    unchanged_text,
)
from lanescope.results import Result, median_interval
from lanescope.store.run import Run
from lanescope.studies.runs.rows import PathRow, path_rows
from lanescope.trace.codes import DirectionCode, FloatArray, MemoryKind
from lanescope.trace.operations import Operations
from lanescope.trace.run import WatchRun

_NOTE = (
    "Effect: of B on A; above 0 is faster. The interval is that of the ratio of both medians, from "
    "their 95 % intervals as independent errors. It holds within these two runs: how much runs "
    "differ from each other, only further runs of the same say."
)
#: Fewer copies have no 95 % interval of their median.
_FEWEST = 6
#: So many of a group say what they take.
_MOST = 200_000
#: Groups with fewer of both watches' bytes and copies are left to --json.
_MOST_ROWS = 20
_WATCH_NOTE = (
    "Effect: of B on A; above 0 is faster. Its interval reaches from the least to the most that "
    "the 95 % intervals of both medians allow. It holds within these two watches: how much runs of "
    "the program differ, only further ones say."
)


@dataclass(frozen=True, slots=True)
class PathChange:
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


def changes(before: Run, after: Run) -> list[PathChange]:
    """Return the paths that both runs measured, with what became of them."""
    earlier = {_key(row): row for row in _measured(before.results)}
    pairs = ((earlier.get(_key(row)), row) for row in _measured(after.results))
    return [_change(old, new) for old, new in pairs if old is not None]


def unmatched(before: Run, after: Run) -> list[str]:
    """Return what only one of the runs has, a sentence for each run."""
    rows = [{_key(row): row for row in _measured(run.results)} for run in (before, after)]
    sentences = []
    for name, mine, other in (("A", rows[0], rows[1]), ("B", rows[1], rows[0])):
        alike = {(row.label, row.copy.bytes) for row in other.values()}
        labels = {label for label, _ in alike}
        alone = [
            f"{row.label}, {bytes_text(row.copy.bytes)}"
            if row.label in labels and (row.label, row.copy.bytes) not in alike
            else row.label
            for key, row in mine.items()
            if key not in other
        ]
        if alone:
            more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
            sentences.append(f"Only {name} measured {'; '.join(alone[:3])}{more}.")
    return sentences


def headline(found: Sequence[PathChange], threshold: float) -> str:
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
        columns: list[ColumnOf[PathChange]] = [
            ColumnOf("path", lambda one: one.after.label),
            ColumnOf("A", lambda one: _value(one.before)),
            ColumnOf("B", lambda one: _value(one.after)),
            ColumnOf(
                "effect",
                lambda one: TableCell(one.effect, strong=one.is_certain(threshold)),
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


def _key(row: PathRow) -> tuple[str, int, int, tuple[int, ...]]:
    """Return what tells a path from others: experiment, copy, size, and who took turns with it.

    Where an engine took it in turns in one run alone, its rates are not of the same. Arrays of
    host memory are as large as the machine makes them.
    """
    copies = row.result.copies
    number = next(n for n, c in enumerate(copies) if c is row.measured)
    on_host = row.copy.source.is_host and row.copy.destination.is_host
    size = 0 if on_host else row.copy.bytes
    return row.result.experiment.name, number, size, copies[number].in_turns_with


def _change(before: PathRow, after: PathRow) -> PathChange:
    if before.gbs and after.gbs:
        ratio = after.gbs / before.gbs
    else:
        ratio = _seconds(before) / _seconds(after)
    known = [width for row in (before, after) if (width := _half_width(row)) is not None]
    half = ratio * hypot(*known) if len(known) == 2 else None
    return PathChange(before, after, ratio - 1, half)


def _value(row: PathRow) -> str:
    return f"{gbs_text(row.gbs)} GB/s" if row.gbs else seconds_text(_seconds(row))


def _badge(change: PathChange, threshold: float) -> Badge:
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
    cores = [sum(len(n.cores) for n in run.manifest.machine.nodes) for run in (before, after)]
    if all(cores) and cores[0] != cores[1]:
        said.append(f"A has {count_text(cores[0], 'core')}, B {cores[1]}.")
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


class GroupKey(NamedTuple):
    """Copies that are alike: their path, how they are called, and their size."""

    direction: int
    memory: int
    asynchronous: int
    bytes: int

    @property
    def label(self) -> str:
        """The group in words, such as ``h2d of pinned memory, asynchronous, 4 MiB``."""
        memory = f" of {MemoryKind(self.memory).label} memory" if self.memory else ""
        how = "asynchronous" if self.asynchronous else "synchronous"
        return f"{DirectionCode(self.direction).label}{memory}, {how}, {bytes_text(self.bytes)}"


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """How many like copies there were, and what they took.

    Attributes
    ----------
    count
        All of them.
    median
        Seconds that one took; None where none has a time.
    low, high
        The 95 % interval of it; None where too few have a time.
    """

    count: int
    median: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class WatchChange:
    """Like copies in both watches; a watch without them has none."""

    key: GroupKey
    before: GroupTimes
    after: GroupTimes

    @property
    def effect(self) -> tuple[float, float, float] | None:
        """How much faster B's are, as a share, with the interval; None where one has none."""
        a, b = self.before, self.after
        if a.median is None or a.low is None or a.high is None:
            return None
        if b.median is None or b.low is None or b.high is None:
            return None
        return a.median / b.median - 1, a.low / b.high - 1, a.high / b.low - 1

    def is_slower(self, threshold: float) -> bool:
        """Whether B's are slower by more than a threshold for certain."""
        return self.effect is not None and self.effect[2] < -threshold

    def is_faster(self, threshold: float) -> bool:
        """Whether B's are faster by more than a threshold for certain."""
        return self.effect is not None and self.effect[1] > threshold


def watch_changes(before: WatchRun, after: WatchRun) -> list[WatchChange]:
    """Return what became of like copies, those with the most bytes in both watches first.

    Where copies of one watch are timed by the GPU and those of the other by their calls, times are
    not compared.
    """
    timed = _times_are_alike(before, after)
    a, b = (dict(_groups(run.timeline.operations, timed=timed)) for run in (before, after))
    none = GroupTimes(0)
    found = [WatchChange(key, a.get(key, none), b.get(key, none)) for key in {**a, **b}]
    return sorted(found, key=lambda one: -one.key.bytes * (one.before.count + one.after.count))


def _times_are_alike(before: WatchRun, after: WatchRun) -> bool:
    by_calls = [run.timeline.has_call_times for run in (before, after)]
    return by_calls[0] == by_calls[1]


def _groups(operations: Operations, *, timed: bool) -> Iterator[tuple[GroupKey, GroupTimes]]:
    counts: dict[GroupKey, int] = {}
    times: dict[GroupKey, list[FloatArray]] = {}
    for piece in operations.pieces():
        rows = piece.rows(piece.is_copy)
        if not len(rows):
            continue
        columns = (rows.direction, rows.host_memory, rows.asynchronous, rows.bytes)
        stacked = np.stack([column.astype(np.int64) for column in columns], axis=1)
        keys, which = np.unique(stacked, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        parts = np.split(rows.seconds[order], np.cumsum(np.bincount(which.ravel()))[:-1])
        for values, seconds in zip(keys.tolist(), parts, strict=True):
            key = GroupKey(*values)
            counts[key] = counts.get(key, 0) + seconds.size
            if timed and sum(part.size for part in times.get(key, ())) < _MOST:
                times.setdefault(key, []).append(seconds[seconds > 0])
    for key, count in counts.items():
        yield key, _times_of(count, np.concatenate(times.get(key, [np.empty(0)])))


def _times_of(count: int, seconds: FloatArray) -> GroupTimes:
    if not seconds.size:
        return GroupTimes(count)
    if seconds.size < _FEWEST:
        return GroupTimes(count, float(np.median(seconds)))
    return GroupTimes(count, float(np.median(seconds)), *median_interval(seconds))


def watch_headline(
    before: WatchRun, after: WatchRun, found: Sequence[WatchChange], threshold: float
) -> str:
    """Return in a sentence or two what changed."""
    a, b = (seconds_text(run.timeline.seconds) for run in (before, after))
    compared = [one for one in found if one.effect is not None]
    slower = [one for one in compared if one.is_slower(threshold)]
    faster = [one for one in compared if one.is_faster(threshold)]
    clauses = []
    for word, changed in (("slower", slower), ("faster", faster)):
        if changed:
            most = max(changed, key=lambda one: abs(one.effect[0]) if one.effect else 0.0)
            effect = most.effect[0] if most.effect else 0.0
            clauses.append(
                f"{count_text(len(changed), 'group')} of like copies {word}, most "
                f"{most.key.label}, by {percent_text(abs(effect))}"
            )
    same = (
        one for one in compared if not one.is_slower(threshold) and not one.is_faster(threshold)
    )
    effects = [one.effect[0] for one in same if one.effect is not None]
    clauses += unchanged_text(effects, threshold, "group")
    timed = [one for one in found if None not in (one.before.median, one.after.median)]
    too_few = f"like copies have fewer than {_FEWEST} times in A or B, too few for an interval"
    words = "; ".join(clauses) or (too_few if timed else "no like copies have times in both")
    return f"A lasted {a}, B {b}. Of the copies: {words}."


def watch_comparison(before: WatchRun, after: WatchRun, threshold: float) -> list[Block]:
    """Return what changed between two watches as blocks."""
    found = watch_changes(before, after)
    columns: list[ColumnOf[WatchChange]] = [
        ColumnOf("copies", lambda one: one.key.label),
        ColumnOf("A: how many", lambda one: one.before.count, Kind.COUNT),
        ColumnOf("B: how many", lambda one: one.after.count, Kind.COUNT),
        ColumnOf("A: each", lambda one: one.before.median, Kind.SECONDS),
        ColumnOf("B: each", lambda one: one.after.median, Kind.SECONDS),
        ColumnOf("effect", lambda one: one.effect and one.effect[0], Kind.SHARE),
        ColumnOf("95 % interval", _interval),
        ColumnOf("verdict", lambda one: _watch_badge(one, threshold)),
    ]
    headline = watch_headline(before, after, found, threshold)
    blocks: list[Block] = [Text(headline, Style.STRONG)]
    if found:
        shown = found[:_MOST_ROWS]
        blocks.append(Table.of("Like copies in both watches", columns, shown, (_WATCH_NOTE,)))
    return [*blocks, Bullets(list(_notes(before, after, found)))]


def _interval(change: WatchChange) -> str | None:
    if change.effect is None:
        return None
    _, low, high = change.effect
    return f"{percent_text(low)} to {percent_text(high)}"


def _watch_badge(change: WatchChange, threshold: float) -> Badge:
    if change.effect is None:
        return Badge("no interval", Tone.OPEN)
    if change.is_slower(threshold):
        return Badge("slower", Tone.BAD, "▼")
    if change.is_faster(threshold):
        return Badge("faster", Tone.GOOD, "▲")
    is_small = abs(change.effect[0]) <= threshold
    return Badge("as before", Tone.QUIET) if is_small else Badge("not certain", Tone.OPEN)


def _notes(before: WatchRun, after: WatchRun, found: Sequence[WatchChange]) -> Iterator[str]:
    if not _times_are_alike(before, after):
        yield (
            "Copies of one watch are timed by the GPU, those of the other by their calls: times "
            "are not compared. Watch both with --trace always, or neither."
        )
    for name in ("A", "B"):
        copied: dict[str, int] = {}
        for one in found:
            count = (one.before if name == "A" else one.after).count
            if not count:
                continue
            label = DirectionCode(one.key.direction).label
            copied[label] = copied.get(label, 0) + count * one.key.bytes
        words = ", ".join(f"{label} {sum_text(size)}" for label, size in sorted(copied.items()))
        yield f"{name} copied {words or 'nothing'}."
    if before.manifest.program != after.manifest.program:
        yield "The programs or their arguments differ."
    gpus = [[gpu.name for gpu in run.manifest.machine.gpus] for run in (before, after)]
    if gpus[0] != gpus[1]:
        yield "The GPUs differ."
    if len(found) > _MOST_ROWS:
        yield f"{len(found) - _MOST_ROWS} more groups are in --json."


def comparison_json(before: WatchRun, after: WatchRun, threshold: float) -> dict[str, Any]:
    """Return what changed as plain values: seconds, shares and bytes."""
    found = watch_changes(before, after)
    return {
        "summary": watch_headline(before, after, found, threshold),
        "threshold": threshold,
        "seconds": [run.timeline.seconds for run in (before, after)],
        "changes": [
            {
                "copies": one.key.label,
                "bytes": one.key.bytes,
                "count": [one.before.count, one.after.count],
                "median_seconds": [one.before.median, one.after.median],
                "effect": None if one.effect is None else one.effect[0],
                "interval": None if one.effect is None else list(one.effect[1:]),
                "slower": one.is_slower(threshold),
                "faster": one.is_faster(threshold),
            }
            for one in found
        ],
    }
