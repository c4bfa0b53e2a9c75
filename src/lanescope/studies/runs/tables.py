"""What tables and sentences show of results.

Tables of paths, curves, latencies, and of the times behind every number; sentences on open points,
on what has no number, on sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lanescope.copies.experiment import set_title
from lanescope.document.blocks import (
    Badge,
    Column,
    Group,
    Judgement,
    Kind,
    Span,
    Table,
    TableCell,
    Tone,
    Value,
    Words,
)
from lanescope.report.format import count_text, gbs_text, microseconds_text, percent_text
from lanescope.report.html import STATUS_SIGNS
from lanescope.results import CopyResult, Result, Source, Status, Verdict
from lanescope.store.run import Run
from lanescope.studies.runs.charts import SweepSeries
from lanescope.studies.runs.rows import GROUPS, PathRow, path_rows, source_word
from lanescope.studies.taruc.points import is_suite

_SPREAD = "p5 to p95"
_SPREAD_HINT = "Bandwidth at the 95th and at the 5th percentile of the time"
_HALF_WIDTH = Column(
    "95 % half-width",
    Kind.HALF_WIDTH,
    "Half of the 95 % confidence interval of the median, as a share of it",
)
_LIMIT = Column("limit GB/s", Kind.GBS, "Payload that the slowest link on the way can carry")
_LOAD = Column("load GB/s", Kind.GBS, "Of the copies that kept the path busy meanwhile")
_BUDGET_NOTE = "* the time budget ended the sampling before the target half-width"

_TONES = {
    Status.HEALTHY: Tone.GOOD,
    Status.SLOW: Tone.BAD,
    Status.IMPOSSIBLE: Tone.WRONG,
    Status.UNJUDGED: Tone.QUIET,
    Status.UNRESOLVED: Tone.OPEN,
    Status.PREDICTED: Tone.PREDICTED,
    Status.NOT_MEASURED: Tone.OPEN,
    Status.BUSY: Tone.OPEN,
    Status.NOT_APPLICABLE: Tone.QUIET,
}
_MOST_NAMES = 6
_MOST_REASONS = 3
_MOST_UNMEASURED = 5


def badge(verdict: Verdict) -> Badge:
    """Return a verdict as a word with its sign."""
    return Badge(str(verdict.status), _TONES[verdict.status], STATUS_SIGNS[verdict.status])


def judgement(verdict: Verdict) -> Judgement:
    """Return a verdict with its reason and remedy."""
    return Judgement(badge(verdict), verdict.reason, verdict.remedy)


def paths_table(rows: Sequence[PathRow]) -> Table:
    """Return a row for each copy: bandwidth, spread, limit, verdict."""
    word = source_word([r.result for r in rows])
    columns = (
        Column("path"),
        Column("GB/s" if word == "measured" else f"GB/s, {word}", Kind.GBS),
        Column(_SPREAD, Kind.GBS, _SPREAD_HINT),
        _HALF_WIDTH,
        _LIMIT,
        Column("of limit", Kind.SHARE),
        Column("verdict"),
    )
    groups = [
        Group([_path_cells(r) for r in rows if r.group == name], name)
        for name in GROUPS
        if any(r.group == name for r in rows)
    ]
    title = f"{word.capitalize()} bandwidth and verdict of every path"
    return Table(title, columns, groups, _budget_notes([r.result.budget_spent for r in rows]))


def sweep_table(series: Sequence[SweepSeries]) -> Table:
    """Return what the curves of a sweep say: delay, plateau and where it is reached."""
    word = source_word(series).capitalize()
    columns = (
        Column("path, host memory, clock"),
        Column("delay", Kind.SECONDS, "Median time of copies of up to 64 B"),
        Column(_SPREAD, Kind.SECONDS, "Of the delay"),
        Column("plateau GB/s", Kind.GBS, "Median bandwidth of the largest sizes"),
        _LIMIT,
        Column("95 % from", Kind.BYTES, "Size from which on 95 % of the plateau holds"),
        Column("peak GB/s", Kind.GBS),
        Column("at", Kind.BYTES),
        Column("fit: delay", Kind.SECONDS, "Time of a copy of no bytes, from the fitted line"),
        Column("worst", Kind.SHARE, "Largest distance of a time from the fit"),
    )
    title = f"{word} delay and bandwidth by size of the copy"
    return Table(title, columns, [Group([_sweep_cells(s) for s in series])])


def latency_table(rows: Sequence[LatencyRow]) -> Table:
    """Return a row for each latency: time, spread, and how it was timed."""
    predicted = all(row.result.source is Source.PREDICTED for row in rows)
    loaded = any(row.load_gbs is not None for row in rows)
    columns = (
        Column("latency"),
        Column("time", Kind.SECONDS, "Median of one load, one call or one round trip"),
        Column(_SPREAD, Kind.SECONDS),
        _HALF_WIDTH,
        *([_LOAD] if loaded else ()),
        Column("how"),
    )
    made = [
        (
            TableCell(row.title, hint=row.result.experiment.name),
            TableCell(row.seconds, strong=True),
            Span(row.low_seconds, row.high_seconds),
            TableCell(row.half_width, mark="*" if row.result.budget_spent else ""),
            *(["" if row.load_gbs is None else row.load_gbs] if loaded else ()),
            row.result.method if row.measured is not None else judgement(row.verdict),
        )
        for row in rows
    ]
    title = "Latencies, which are not predicted" if predicted else "Measured latencies"
    return Table(
        title, columns, [Group(made)], _budget_notes([r.result.budget_spent for r in rows])
    )


def raw_table(results: Sequence[Result]) -> Table:
    """Return the times behind every number, one row for each copy."""
    columns = (
        Column("experiment"),
        Column("path"),
        Column("bytes", Kind.BYTES, "Size of one array"),
        Column("n", Kind.COUNT, "Number of samples"),
        Column("median, µs", Kind.COUNT),
        Column("min, µs", Kind.COUNT),
        Column("5th, µs", Kind.COUNT, "5th percentile"),
        Column("95th, µs", Kind.COUNT, "95th percentile"),
        Column("max, µs", Kind.COUNT),
        Column("GB/s", Kind.GBS),
        Column("why sampling ended"),
    )
    rows = [_raw_cells(r) for r in path_rows(results)]
    return Table(f"Time of one repetition, {source_word(results)}", columns, [Group(rows)])


def _budget_notes(spent: Sequence[bool]) -> tuple[str, ...]:
    return (_BUDGET_NOTE,) if any(spent) else ()


def _path_cells(row: PathRow) -> list[Value | TableCell]:
    limit_reason = row.measured.limit_reason if row.measured else row.verdict.reason
    return [
        TableCell(row.label, hint=row.detail),
        TableCell(row.gbs, strong=True),
        None if row.predicted else Span(row.low_gbs, row.high_gbs),
        TableCell(row.half_width, mark="*" if row.result.budget_spent else ""),
        TableCell(row.limit_gbs, hint=limit_reason),
        TableCell(row.share_of_limit, tone=_TONES[row.verdict.status]),
        judgement(row.verdict),
    ]


def _sweep_cells(series: SweepSeries) -> list[Value | TableCell]:
    predicted = series.source is Source.PREDICTED
    return [
        f"{series.title}, predicted" if predicted else series.title,
        series.delay_seconds,
        None if predicted else Span(series.delay_low_seconds, series.delay_high_seconds),
        TableCell(series.plateau_gbs, strong=True),
        series.limit_gbs,
        series.saturation_bytes,
        series.peak_gbs,
        series.peak_bytes,
        series.fit.delay_seconds,
        series.fit.worst_residual,
    ]


def _raw_cells(row: PathRow) -> list[Value | TableCell]:
    found = row.measured.statistics if row.measured else None
    names = ("median_seconds", "min_seconds", "p5_seconds", "p95_seconds", "max_seconds")
    times = (microseconds_text(getattr(found, name, None)) for name in names)
    return [
        row.result.experiment.name,
        row.copy.path,
        row.copy.bytes,
        None if found is None else found.n,
        *times,
        row.gbs,
        row.verdict.reason if row.result.stop is None else str(row.result.stop),
    ]


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One latency as it is shown.

    Attributes
    ----------
    title
        Its name for people.
    measured
        Its times; None when nothing was measured.
    load_gbs
        Bandwidth of the copies that kept the path busy meanwhile, in GB/s; None
        where nothing did.
    verdict
        Why there is no number, where there is none.
    """

    title: str
    result: Result
    measured: CopyResult | None
    load_gbs: float | None
    verdict: Verdict

    @property
    def seconds(self) -> float | None:
        """Median time; None when not measured."""
        return None if self.measured is None else self.measured.statistics.median_seconds

    @property
    def low_seconds(self) -> float | None:
        """5th percentile; None when not measured."""
        return None if self.measured is None else self.measured.statistics.p5_seconds

    @property
    def high_seconds(self) -> float | None:
        """95th percentile; None when not measured."""
        return None if self.measured is None else self.measured.statistics.p95_seconds

    @property
    def half_width(self) -> float | None:
        """Relative 95 % half-width of the median; None when unknown."""
        return None if self.measured is None else self.measured.statistics.half_width


def latency_rows(results: Iterable[Result]) -> tuple[LatencyRow, ...]:
    """Return a row for each experiment that holds a latency."""
    return tuple(_latency_row(result) for result in results if result.experiment.has_latency)


def latency_sentence(rows: Sequence[LatencyRow]) -> str:
    """Return what became of some latencies in a sentence; empty for none."""
    missing = sum(row.measured is None for row in rows)
    known = len(rows) - missing
    clauses = []
    if known:
        verb = "was" if known == 1 else "were"
        clauses.append(f"{count_text(known, 'latency', 'latencies')} {verb} measured")
    if missing:
        verb = "was" if missing == 1 else "were"
        clauses.append(f"{count_text(missing, 'latency', 'latencies')} {verb} not measured")
    return "; ".join(clauses) + "." if clauses else ""


def _latency_row(result: Result) -> LatencyRow:
    measured = next((c for c in result.copies if c.copy.operation.is_latency), None)
    load = next((c for c in result.copies if not c.copy.operation.is_latency), None)
    if measured is not None:
        verdict = measured.verdict
    else:
        verdict = result.not_measured or Verdict(Status.NOT_MEASURED, "no samples were taken")
    title = result.experiment.title
    return LatencyRow(title, result, measured, None if load is None else load.gbs, verdict)


def open_points(rows: Sequence[PathRow]) -> list[Words]:
    """Return failed and unmeasured paths, a sentence each; nothing when there are none.

    A dead GPU spoils dozens of paths. They share a point when they ask for the
    same thing to be done.
    """
    groups: dict[tuple[Status, str | None, str | None], list[PathRow]] = {}
    for row in rows:
        verdict = row.verdict
        if verdict.failed:
            groups.setdefault((verdict.status, verdict.remedy, None), []).append(row)
        elif verdict.missing:
            key = (verdict.status, verdict.remedy, verdict.reason)
            groups.setdefault(key, []).append(row)
    ordered = sorted(groups.values(), key=lambda group: not group[0].verdict.failed)
    return [_point(group) for group in ordered]


def _point(rows: Sequence[PathRow]) -> Words:
    verdict = rows[0].verdict
    names = [r.label for r in rows]
    listed = "; ".join(names[:_MOST_NAMES]) + _more(len(names) - _MOST_NAMES, "path")
    reasons = list(dict.fromkeys(r.verdict.reason for r in rows))
    why = "; ".join(reasons[:_MOST_REASONS]) + _more(len(reasons) - _MOST_REASONS, "reason")
    end = "" if why.endswith((".", "]")) else "."
    remedy = f" {verdict.remedy}" if verdict.remedy else ""
    many = f"{count_text(len(rows), 'path')} " if len(rows) > 1 else ""
    return (many, badge(verdict), f": {listed}. {why[:1].upper() + why[1:]}{end}{remedy}")


def _more(count: int, noun: str) -> str:
    return f"; and {count_text(count, f'more {noun}')}" if count > 0 else ""


def unmeasured(run: Run) -> list[str]:
    """Return a sentence for each reason, the most frequent first.

    Each names how many points it holds back, one of them, and the remedy.
    """
    names: dict[Verdict, list[str]] = defaultdict(list)
    for result in run.results:
        if result.not_measured is not None and is_suite(result):
            names[result.not_measured].append(result.experiment.name)
    ordered = sorted(names.items(), key=lambda item: -len(item[1]))
    lines = [_why(verdict, points) for verdict, points in ordered[:_MOST_UNMEASURED]]
    if more := sum(len(points) for _, points in ordered[_MOST_UNMEASURED:]):
        lines.append(f"{count_text(more, 'point')} for other reasons, which --json tells.")
    return lines


def _why(verdict: Verdict, points: list[str]) -> str:
    which = points[0] if len(points) == 1 else f"{len(points)} points such as {points[0]}"
    remedy = f" {verdict.remedy}" if verdict.remedy else ""
    return f"{which}: {verdict.reason}{remedy}"


def total_sentences(results: Iterable[Result]) -> tuple[str, ...]:
    """Return what each set of copies carried that ran at the same time, in sentences.

    Where an engine took some in turns, only what each engine carried.
    """
    return tuple(sentence for result in results for sentence in _sentences(result))


def _sentences(result: Result) -> Iterator[str]:
    gbs = result.total_gbs
    if groups := result.groups_in_turns:
        for group in groups:
            copies = [result.experiment.copies[number] for number in group]
            yield (
                f"{set_title(copies)} took turns on an engine: "
                f"{gbs_text(result.joint_gbs(group[0]))} GB/s in sum."
            )
    elif gbs and len(result.copies) > 1:
        yield _sum(result, gbs)


def _sum(result: Result, gbs: float) -> str:
    limit = result.total_limit_gbs
    share = (
        f", {percent_text(gbs / limit)} of the {gbs_text(limit)} that the links allow at once"
        if limit
        else ""
    )
    return f"{result.experiment.title}: {gbs_text(gbs)} GB/s together{share}."
