"""Compact tables of a suite: a few columns for each micro-benchmark, as plain text cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from lanescope.experiment import Operation
from lanescope.experiment.taruc.benchmark import TITLES, Benchmark
from lanescope.model.taruc import Point, Series, Setting, Suite
from lanescope.model.taruc.contended import Scaling
from lanescope.model.taruc.words import field_text
from lanescope.report.format import MISSING, bytes_text, gbs_text, percent_text, seconds_text

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


@dataclass(frozen=True, slots=True)
class SuiteTable:
    """The table of one micro-benchmark; the first column names the row.

    `notes` say what columns mean.
    """

    bench: Benchmark
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def suite_tables(suite: Suite) -> list[SuiteTable]:
    """Return a table for each micro-benchmark that was measured."""
    tables = [
        _overhead(suite.of(Benchmark.OVERHEAD)),
        *(
            _copies(bench, suite.of(bench))
            for bench in (Benchmark.HOST, Benchmark.HOSTDEV, Benchmark.PEER)
        ),
        _loads(suite.of(Benchmark.NURMA)),
        _contention(suite.scalings),
    ]
    return [t for t in tables if t.rows]


def _overhead(series: Sequence[Series]) -> SuiteTable:
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
    columns = ("memory", "size", "allocation", "first touch", "release")
    return SuiteTable(Benchmark.OVERHEAD, TITLES[Benchmark.OVERHEAD], columns, tuple(rows))


def _copies(bench: Benchmark, series: Sequence[Series]) -> SuiteTable:
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
    columns = ("copy", "time of the smallest", "best GB/s", "GB/s of the largest")
    return SuiteTable(bench, TITLES[bench], columns, tuple(rows))


def _loads(series: Sequence[Series]) -> SuiteTable:
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
    columns = ("loads", "one load, smallest", "one load, largest", "GB/s")
    return SuiteTable(Benchmark.NURMA, TITLES[Benchmark.NURMA], columns, tuple(rows))


def _contention(scalings: Sequence[Scaling]) -> SuiteTable:
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
    columns = ("participants", "best GB/s", "full with", "fairness", "of limit", "first full")
    return SuiteTable(
        Benchmark.CONTENTION, TITLES[Benchmark.CONTENTION], columns, tuple(rows), _CONTENTION_NOTES
    )


def _name(setting: Setting) -> str:
    words = (field_text(f, value) for f in _FIELDS[setting.bench] if (value := getattr(setting, f)))
    return _joined(words)


def _scaling_name(scaling: Scaling) -> str:
    fields: tuple[str, ...] = ("who", "operation", "way", "where")
    contention = scaling.contention
    if contention.kind == "pcie":
        fields = ("who", "way", "where")
    elif contention.kind == "sockets":
        fields = ("who", "operation")
    return _joined(field_text(f, value) for f in fields if (value := getattr(contention, f)))


def _joined(words: Iterable[str]) -> str:
    return ", ".join(w for w in words if w)


def _time(point: Point | None) -> str:
    return MISSING if point is None or point.seconds is None else seconds_text(point.seconds[0])
