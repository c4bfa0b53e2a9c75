"""The report of a suite: findings, and a section for each micro-benchmark; its start alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

from lanescope.copies import Operation
from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    Details,
    Findings,
    Group,
    Kind,
    Section,
    Style,
    Table,
    Text,
    Value,
)
from lanescope.document.contents import Chart
from lanescope.report.format import (
    MISSING,
    bytes_text,
    count_text,
    gbs_text,
    percent_text,
    seconds_text,
)
from lanescope.results import MIN_SAMPLES
from lanescope.store.run import Run
from lanescope.studies.runs.tables import unmeasured
from lanescope.studies.taruc.charts import taruc_charts
from lanescope.studies.taruc.contended import Scaling, SuiteResults, suite_of
from lanescope.studies.taruc.findings import findings
from lanescope.studies.taruc.parameters import TITLES, Benchmark
from lanescope.studies.taruc.points import Series, Setting, SizePoint, field_text, is_suite

#: So many findings are on the first screen.
MOST_FINDINGS = 12
#: So many rows of a table are on a terminal: of one alone, and of one among others.
_MOST_ROWS, _MOST_ROWS_OF_MANY = 24, 8
#: Longer tables start folded on a page.
_MOST_OPEN_ROWS = 12
#: What tells the rows of a micro-benchmark apart.
_FIELDS = {
    Benchmark.OVERHEAD: ("source", "memory", "thread"),
    Benchmark.HOST: ("path", "thread", "memory", "pattern", "caches"),
    Benchmark.HOSTDEV: ("path", "thread", "memory", "pattern", "timing"),
    Benchmark.PEER: ("path", "route"),
    Benchmark.NURMA: ("source", "thread", "memory", "operation", "stride"),
}

_CONTENTION_NOTES = (
    "full with: so many threads, or streams for each GPU and way, get the best within 2 % or its "
    "95 % interval",
    "fairness: Jain's index of the least fair step, 1 when all get the same, 1/n when one of n "
    "gets all",
    "of limit: the best as a share of what the links allow",
)


def taruc_findings(run: Run) -> list[Block]:
    """Return what a suite found, the first in the open; nothing of a run without one."""
    measured = any(is_suite(result) and result.copies for result in run.results)
    if run.predicted or not measured:
        return []
    found = findings(run.manifest.machine, run.results)
    if not found:
        return [Text(nothing_found(run))]
    first, more = found[:MOST_FINDINGS], found[MOST_FINDINGS:]
    words = count_text(len(more), "more finding")
    folded = [Details([Findings(more, brief=True)], words)] if more else []
    return [Findings(first, brief=True), *folded]


def taruc_sections(run: Run) -> Iterator[Section]:
    """Yield a section for each micro-benchmark: its table and its charts."""
    suite = suite_of(run.manifest.machine, run.results)
    tables = suite_tables(suite)
    charts = taruc_charts(run)
    for bench in Benchmark:
        mine = [chart for chart in charts if chart.section == bench]
        rows = _rows(tables[bench], run.predicted) if bench in tables else ()
        main = _charts([chart for chart in mine if chart.main])
        rest = [chart for chart in mine if not chart.main]
        more = [Details(_charts(rest), count_text(len(rest), "more chart"))] if rest else []
        yield Section(bench, TITLES[bench], [*rows, *main, *more])


def _charts(charts: Sequence[Chart]) -> list[Block]:
    """Charts, and the notes of all of them, each once."""
    notes = list(dict.fromkeys(note for chart in charts for note in chart.notes))
    return [*charts, Bullets(notes, Style.QUIET)]


def _rows(table: Table, predicted: bool) -> list[Block]:
    word = "predicted" if predicted else "measured"
    columns = [
        replace(column, title=column.title[:1].upper() + column.title[1:])
        for column in table.columns
    ]
    table = replace(table, title=f"{table.title}, {word}", columns=columns)
    count = len(table.groups[0].rows)
    if count <= _MOST_OPEN_ROWS:
        return [table]
    return [Details([table], f"Table of {count_text(count, 'row')}")]


def taruc_overview(run: Run) -> list[Block]:
    """Return what a terminal shows of a suite: the first rows and findings; nothing without one."""
    suite = suite_of(run.manifest.machine, run.results)
    tables = suite_tables(suite)
    most = _MOST_ROWS if len(tables) == 1 else _MOST_ROWS_OF_MANY
    blocks: list[Block] = [block for table in tables.values() for block in _first_rows(table, most)]
    if missing := unmeasured(run):
        blocks += [Text("Not measured"), Bullets([f"- {line}" for line in missing])]
    found = findings(run.manifest.machine, run.results)
    if found:
        first = [f"- {one.sentence}" for one in found[:MOST_FINDINGS]]
        blocks += [Text("Findings"), Bullets(first)]
        if len(found) > MOST_FINDINGS:
            more = count_text(len(found) - MOST_FINDINGS, "more finding")
            blocks.append(Text(f"{more} on the page and in --json"))
    elif blocks and not suite.predicted:
        blocks.append(Text(nothing_found(run)))
    return blocks


def _first_rows(table: Table, most: int) -> list[Block]:
    rows = table.groups[0].rows
    if len(rows) <= most:
        return [table]
    more = f"{count_text(len(rows) - most, 'more row')} on the page"
    return [replace(table, groups=[Group(rows[:most])], notes=(more, *table.notes))]


def nothing_found(run: Run) -> str:
    """Return what is said instead of findings."""
    copies = [copy for result in run.results for copy in result.copies]
    if any(copy.statistics.half_width is not None for copy in copies):
        why = "Nothing differs by more than 3 % and by more than both 95 % intervals."
    else:
        why = f"With fewer than {MIN_SAMPLES} samples of a point nothing can be told apart."
    return f"Findings: none. {why}"


def taruc_conclusion(run: Run) -> str:
    """Return how much of the micro-benchmarks was measured, in a sentence; empty without any."""
    results = [r for r in run.results if is_suite(r)]
    if not results:
        return ""
    measured = sum(bool(r.copies) for r in results)
    missing = len(results) - measured
    found = len(findings(run.manifest.machine, run.results))
    word = "predicted, not measured" if run.predicted else "measured"
    clauses = [f"{count_text(measured, 'experiment')} of the micro-benchmarks {word}"]
    if missing:
        clauses.append(f"{missing} {'neither' if run.predicted else 'not measured'}")
    if not run.predicted:
        clauses.append(count_text(found, "finding") if found else "no findings")
    return "; ".join(clauses) + "."


def suite_tables(suite: SuiteResults) -> dict[Benchmark, Table]:
    """Return a table for each micro-benchmark that was measured."""
    tables = {
        Benchmark.OVERHEAD: _overhead(suite.of(Benchmark.OVERHEAD)),
        **{
            bench: _copies(bench, suite.of(bench))
            for bench in (Benchmark.HOST, Benchmark.HOSTDEV, Benchmark.PEER)
        },
        Benchmark.NURMA: _loads(suite.of(Benchmark.NURMA)),
        Benchmark.CONTENTION: _contention(suite.scalings),
    }
    return {bench: table for bench, table in tables.items() if table.groups[0].rows}


def _table(
    bench: Benchmark,
    columns: Sequence[str | Column],
    rows: Sequence[Sequence[Value]],
    notes: tuple[str, ...] = (),
) -> Table:
    made = [one if isinstance(one, Column) else Column(one, Kind.FIGURES) for one in columns]
    return Table(TITLES[bench], made, [Group(rows)], notes)


def _overhead(series: Sequence[Series]) -> Table:
    places: dict[tuple[Hashable, ...], dict[Operation, Series]] = defaultdict(dict)
    for one in series:
        key = (one.setting.source, one.setting.memory, one.setting.thread)
        places[key][one.setting.operation] = one
    rows = []
    for stages in places.values():
        setting = next(iter(stages.values())).setting
        sizes = [p.bytes for s in stages.values() for p in s.measured]
        if not sizes:
            continue
        times = [
            _time(stages[o].at(max(sizes)) if o in stages else None)
            for o in (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)
        ]
        rows.append((_name(setting), bytes_text(max(sizes)), *times))
    columns = (Column("memory"), "size", "allocation", "first touch", "release")
    return _table(Benchmark.OVERHEAD, columns, rows)


def _copies(bench: Benchmark, series: Sequence[Series]) -> Table:
    rows = []
    for one in series:
        rated = [p for p in one.measured if p.gbs is not None]
        if not rated:
            continue
        best = max(rated, key=lambda p: p.gbs or 0.0)
        rows.append(
            (
                _name(one.setting),
                f"{_time(rated[0])} at {bytes_text(rated[0].bytes)}",
                f"{gbs_text(best.gbs)} at {bytes_text(best.bytes)}",
                f"{gbs_text(rated[-1].gbs)} at {bytes_text(rated[-1].bytes)}",
            )
        )
    columns = (Column("copy"), "time of the smallest", "best GB/s", "GB/s of the largest")
    return _table(bench, columns, rows)


def _loads(series: Sequence[Series]) -> Table:
    rows = []
    for one in series:
        if one.measured:
            first, last = one.measured[0], one.measured[-1]
            rows.append(
                (
                    _name(one.setting),
                    f"{_time(first)} in {bytes_text(first.bytes)}",
                    f"{_time(last)} in {bytes_text(last.bytes)}",
                    gbs_text(last.gbs),
                )
            )
    columns = (Column("loads"), "one load, smallest", "one load, largest", "GB/s")
    return _table(Benchmark.NURMA, columns, rows)


def _contention(scalings: Sequence[Scaling]) -> Table:
    rows = []
    for scaling in scalings:
        best, enough = scaling.best, scaling.enough
        if best is None or enough is None:
            continue
        alone = [s for s in scaling.measured if not s.shares_cpus]
        fairness = [s.fairness for s in alone if s.fairness is not None]
        rows.append(
            (
                _scaling_name(scaling),
                gbs_text(best.aggregate_gbs),
                str(enough.count),
                f"{min(fairness):.2f}" if fairness else "–",
                percent_text(best.share_of_limit),
                best.first_full or MISSING,
            )
        )
    columns = (
        *(Column("participants"), "best GB/s", "full with", "fairness", "of limit"),
        Column("first full"),
    )
    return _table(Benchmark.CONTENTION, columns, rows, _CONTENTION_NOTES)


def _name(setting: Setting) -> str:
    words = (field_text(f, value) for f in _FIELDS[setting.bench] if (value := getattr(setting, f)))
    return _joined(words)


def _scaling_name(scaling: Scaling) -> str:
    fields: tuple[str, ...] = ("who", "operation", "direction", "where")
    contention = scaling.contention
    if contention.kind == "pcie":
        fields = ("who", "direction", "where")
    elif contention.kind == "sockets":
        fields = ("who", "operation")
    return _joined(field_text(f, value) for f in fields if (value := getattr(contention, f)))


def _joined(words: Iterable[str]) -> str:
    return ", ".join(w for w in words if w)


def _time(point: SizePoint | None) -> str:
    return MISSING if point is None or point.seconds is None else seconds_text(point.seconds[0])
