"""What the history says: each path over its runs, when it changed, and what changed with it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from lanescope.document.blocks import (
    Badge,
    Block,
    Column,
    ColumnOf,
    Group,
    Style,
    Table,
    TableCell,
    Text,
    Tone,
    Value,
)
from lanescope.history.index import (
    FALSE_ALARMS,
    LEAST_HISTORY,
    History,
    SeriesPoint,
    Shift,
    StableLevel,
    levels,
    scatter,
    shift_between,
    shift_to,
)
from lanescope.history.records import HistoryRecord, Observation, ObservationUnit
from lanescope.report.format import count_text, gbs_text, percent_text, seconds_text

_SHOWN = 60
#: Where an effect that is not certain is worth a word.
_SMALL_EFFECT = 0.02


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A path whose level changed between two runs.

    Attributes
    ----------
    label
        The path, as its newest run calls it.
    devices
        Host and GPUs with their slots, of the newest run.
    last_before, first_after
        When the last run of the old level and the first of the new one began, UTC.
    before, after
        Medians of both levels, with how many runs they are of.
    effect, half_width
        Of the new level on the old one, less 1, with half of its 95 % interval; of a latency the
        old time over the new one, so that below 0 is slower everywhere.
    newest
        Whether the path is still there: no later change.
    also_changed
        What else is different since, such as ``driver 570.1 → 580.2``.
    """

    series: str
    label: str
    devices: str
    last_before: str
    first_after: str
    before: float
    after: float
    unit: ObservationUnit
    runs: tuple[int, int]
    effect: float
    half_width: float
    newest: bool
    also_changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """A path's newest value and the level that it had before.

    Attributes
    ----------
    runs
        How many earlier runs there are.
    usual
        Median of the runs since the last change; None without any.
    shift
        From there to the newest value; None where the runs are too few.
    """

    observation: Observation
    runs: int
    usual: float | None
    shift: Shift | None

    @property
    def slower(self) -> bool:
        """Whether it is slower for certain than its own history."""
        return self.shift is not None and self.shift.certain and self.shift.effect < 0


def changes(
    all_series: Iterable[Sequence[SeriesPoint]], least_effect: float, about: str = ""
) -> list[LevelChange]:
    """Return every change of level, those that made paths slower first.

    Of unchanged hosts one in a thousand may show one: see `lanescope.history.index`.
    """
    chosen = [points for points in all_series if concerns(points[-1], about)]
    of_host = Counter(points[-1].host for points in chosen)
    found = [
        one
        for points in chosen
        for one in _changes(points, least_effect, FALSE_ALARMS / of_host[points[-1].host])
    ]
    return sorted(found, key=lambda one: (not one.newest, one.effect))


def _changes(
    points: Sequence[SeriesPoint], least_effect: float, false_alarms: float
) -> Iterator[LevelChange]:
    speeds = _speeds(points)
    cut = levels(speeds, least_effect, false_alarms)
    for before, after in itertools.pairwise(cut):
        old, new = points[before.end - 1], points[after.first]
        newest = points[-1]
        shift = shift_between(speeds, before, after, least_effect, false_alarms)
        yield LevelChange(
            newest.observation.series,
            newest.observation.label,
            devices_text(newest),
            old.began,
            new.began,
            _value(before, points),
            _value(after, points),
            newest.observation.unit,
            (before.runs, after.runs),
            shift.effect,
            shift.half_width,
            after is cut[-1],
            tuple(_also_changed(old, new)),
        )


def _value(level: StableLevel, points: Sequence[SeriesPoint]) -> float:
    return median(point.observation.value for point in points[level.first : level.end])


def _speed(unit: ObservationUnit, value: float) -> float:
    """Return what is more where it is better, from a value; and back."""
    return value if unit is ObservationUnit.GBS else 1 / value


def _speeds(points: Sequence[SeriesPoint]) -> list[float]:
    return [_speed(point.observation.unit, point.observation.value) for point in points]


def _also_changed(old: SeriesPoint, new: SeriesPoint) -> Iterator[str]:
    if old.host != new.host:
        yield f"host {old.host} → {new.host}"
    for name in {**old.software, **new.software}:
        before, after = old.software.get(name), new.software.get(name)
        if before and after and before != after:
            yield f"{name} {before} → {after}"
    earlier = {device.key: device for device in old.devices}
    for device in new.devices:
        if (known := earlier.get(device.key)) is None:
            continue
        for name in ("slot", "vbios"):
            before, after = getattr(known, name), getattr(device, name)
            if before and after and before != after:
                yield f"{name.replace('vbios', 'VBIOS')} of {device.key} {before} → {after}"


def concerns(point: SeriesPoint, about: str) -> bool:
    """Whether a host, path, GPU or slot holds a text, in any case of letters; all do of none."""
    devices = [text for d in point.devices for text in (d.key, d.slot, d.name) if text]
    texts = (point.host, point.observation.label, point.observation.series, *devices)
    return any(about.casefold() in text.casefold() for text in texts)


def devices_text(point: SeriesPoint) -> str:
    """Return where a point was measured, as an operator looks for it."""
    gpus = (f"{device.id} at {device.slot or device.key}" for device in point.devices)
    return ", ".join([point.host, *gpus])


def against_history(
    record: HistoryRecord, history: History, least_effect: float
) -> list[LevelComparison]:
    """Return each path of a run with its own history, the worst first."""
    names = [one.series for one in record.observations]
    earlier = history.values(names, record)
    share = FALSE_ALARMS / max(len(names), 1)
    found = [
        _compared(one, earlier.get(one.series, ()), least_effect, share)
        for one in record.observations
    ]
    return sorted(found, key=lambda one: one.shift.effect if one.shift else 1.0)


def _compared(
    one: Observation,
    earlier: Sequence[tuple[ObservationUnit, float]],
    least_effect: float,
    false_alarms: float = FALSE_ALARMS,
) -> LevelComparison:
    same = [_speed(unit, value) for unit, value in earlier if unit is one.unit]
    if not same:
        return LevelComparison(one, 0, None, None)
    level = levels(same, least_effect, false_alarms)[-1]
    shift = shift_to(same, level, _speed(one.unit, one.value), least_effect, false_alarms)
    return LevelComparison(one, len(same), _speed(one.unit, level.value), shift)


# Documents


def changes_blocks(
    found: Sequence[LevelChange], judged: int, series: int, runs: int
) -> list[Block]:
    """Return the changes as a sentence and a table; `judged` of the paths have enough runs."""
    headline = changes_headline(found, judged, series, runs)
    blocks: list[Block] = [Text(headline, Style.STRONG)]
    if found:
        columns = [Column(name) for name in ("since", "path", "where", "before", "after", "effect")]
        rows = [_change_cells(one) for one in found[:_SHOWN]]
        more = [f"{len(found) - _SHOWN} more; --json has all."] if len(found) > _SHOWN else []
        notes = (
            "Effect: of the new level on the old one, ± half of its 95 % interval, below 0 is "
            "slower; in brackets the runs of each level.",
            *more,
        )
        blocks.append(Table("Changes", columns, [Group(rows)], notes))
    return blocks


def changes_headline(found: Sequence[LevelChange], judged: int, series: int, runs: int) -> str:
    """Return in a sentence what is slower now than before, of the paths that can be judged."""
    slower = [one for one in found if one.newest and one.effect < 0]
    about = f"{count_text(runs, 'run')}, {count_text(series, 'path')}"
    if not judged:
        return (
            f"{about}: none can be judged, as it takes {LEAST_HISTORY} runs of a path; 'lanescope "
            "history add' adds some."
        )
    if judged < series:
        about += f", {judged} of them with the {LEAST_HISTORY} runs that it takes"
    if not slower:
        return f"{about}: none is slower now than it was."
    worst = slower[0]
    since = f"since {worst.first_after[:10]}"
    also = f" ({'; '.join(worst.also_changed)} at the same time)" if worst.also_changed else ""
    return (
        f"{about}: {len(slower)} slower than before, most {worst.label} of {worst.devices} by "
        f"{percent_text(-worst.effect)} {since}{also}."
    )


def _change_cells(one: LevelChange) -> list[Value | TableCell]:
    tone = Tone.BAD if one.newest and one.effect < 0 else None
    return [
        TableCell(f"{one.last_before[:16]} to {one.first_after[:16]}", below=one.also_changed),
        one.label,
        one.devices,
        f"{value_text(one.before, one.unit)} ({one.runs[0]})",
        f"{value_text(one.after, one.unit)} ({one.runs[1]})",
        TableCell(_effect_text(one.effect, one.half_width), tone=tone, strong=tone is not None),
    ]


def _effect_text(effect: float, half_width: float) -> str:
    return f"{100 * effect:+.1f} ± {100 * half_width:.1f} %"


def value_text(value: float, unit: ObservationUnit) -> str:
    """Return a value with its unit."""
    return f"{gbs_text(value)} GB/s" if unit is ObservationUnit.GBS else seconds_text(value)


def series_blocks(shown: Sequence[Sequence[SeriesPoint]], least_effect: float) -> list[Block]:
    """Return a row for each path: its runs, its median and how much they differ."""
    columns = [
        Column(name)
        for name in ("path", "where", "runs", "from", "to", "median", "scatter", "newest")
    ]
    longest = sorted(shown, key=len, reverse=True)
    rows = [_series_cells(points, least_effect) for points in longest[:_SHOWN]]
    left = len(shown) - len(rows)
    more = [f"{left} more, of fewer runs; name a part, or take --json."] if left else []
    note = (
        "Scatter: how much runs differ from one to the next, one standard deviation; newest: "
        f"on the median of its level so far, from {LEAST_HISTORY} earlier runs on."
    )
    return [Table("Paths over their runs", columns, [Group(rows)], (note, *more))]


def _series_cells(points: Sequence[SeriesPoint], least_effect: float) -> list[Value | TableCell]:
    newest = points[-1]
    middle = median(point.observation.value for point in points)
    earlier = [(point.observation.unit, point.observation.value) for point in points[:-1]]
    compared = _compared(newest.observation, earlier, least_effect)
    speeds = _speeds(points)
    return [
        newest.observation.label,
        devices_text(newest),
        str(len(points)),
        points[0].began[:10],
        newest.began[:10],
        value_text(middle, newest.observation.unit),
        percent_text(scatter(speeds)) if len(points) > 2 else "-",
        TableCell(
            value_text(newest.observation.value, newest.observation.unit), badge=_badge(compared)
        ),
    ]


def _badge(compared: LevelComparison) -> Badge:
    if compared.shift is None:
        return Badge("too few runs", Tone.OPEN)
    if not compared.shift.certain:
        is_small = abs(compared.shift.effect) <= _SMALL_EFFECT
        return Badge("as before", Tone.QUIET) if is_small else Badge("not certain", Tone.OPEN)
    return Badge("slower", Tone.BAD, "▼") if compared.slower else Badge("faster", Tone.GOOD, "▲")


def comparison_headline(found: Sequence[LevelComparison]) -> str:
    """Return in a sentence how a run lies in its own history."""
    judged = [one for one in found if one.shift is not None]
    if not judged:
        most = max((one.runs for one in found), default=0)
        return (
            f"No path can be judged by its history: {count_text(most, 'earlier run')} at most, and "
            f"it takes {LEAST_HISTORY}."
        )
    slower = [one for one in judged if one.slower]
    if not slower:
        return f"{count_text(len(judged), 'path')} without a certain loss on their own history."
    worst = slower[0]
    assert worst.shift is not None
    return (
        f"{len(slower)} of {count_text(len(judged), 'path')} slower than their own history, most "
        f"{worst.observation.label} by {percent_text(-worst.shift.effect)}."
    )


def comparison_blocks(found: Sequence[LevelComparison]) -> list[Block]:
    """Return how each path of a run lies in its own history."""
    blocks: list[Block] = [Text(comparison_headline(found), Style.STRONG)]
    columns: list[ColumnOf[LevelComparison]] = [
        ColumnOf("path", lambda one: one.observation.label),
        ColumnOf("earlier runs", lambda one: str(one.runs)),
        ColumnOf("usual", _usual),
        ColumnOf("this run", lambda one: value_text(one.observation.value, one.observation.unit)),
        ColumnOf("effect", lambda one: _shift_text(one.shift)),
        ColumnOf("verdict", _badge),
    ]
    note = (
        "Effect: on the usual value, ± half of its 95 % interval, which holds what runs of this "
        "path differ; a single run that is slower may have been disturbed: measure again."
    )
    return [*blocks, Table.of("This run and its history", columns, found, (note,))]


def _usual(one: LevelComparison) -> str:
    return "-" if one.usual is None else value_text(one.usual, one.observation.unit)


def _shift_text(shift: Shift | None) -> str:
    return "-" if shift is None else _effect_text(shift.effect, shift.half_width)
