"""What tables and plots show of each path and of each cell of a case, as flat values.

A path is one copy; a cell's value with its spread is of one copy or several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lanescope.copies import Copy, Engine, Experiment, Memory, Purpose, Timing
from lanescope.copies.experiment import Case, Cell, Matrix, Unit, set_title
from lanescope.copies.terms import Operation
from lanescope.report.format import bytes_text, count_text
from lanescope.results import CopyResult, Result, Source, Status, Verdict
from lanescope.units.sizes import bandwidth_gbs

#: Groups of paths in the order in which they are shown.
GROUPS = ("Host memory", "Host and GPU", "Between GPUs", "Inside a GPU")
_Spread = tuple[float, float] | tuple[None, None]
#: From bad to good: the verdict of several copies is the first of theirs.
_WORST_FIRST = (
    Status.IMPOSSIBLE,
    Status.SLOW,
    Status.NOT_MEASURED,
    Status.BUSY,
    Status.UNRESOLVED,
    Status.PREDICTED,
    Status.UNJUDGED,
    Status.NOT_APPLICABLE,
    Status.HEALTHY,
)


@dataclass(frozen=True, slots=True)
class PathRow:
    """One copy as it is shown.

    Attributes
    ----------
    label
        Its name for people; unique words, no numbers.
    detail
        What was moved and by whom.
    group
        One of `GROUPS`.
    result, measured
        Where the row comes from; `measured` is None when nothing was measured.
    low_gbs, high_gbs
        Bandwidth at the 95th and the 5th percentile of the time.
    """

    label: str
    detail: str
    group: str
    result: Result
    copy: Copy
    measured: CopyResult | None
    verdict: Verdict
    low_gbs: float | None = None
    high_gbs: float | None = None

    @property
    def gbs(self) -> float | None:
        """Bandwidth of the median, GB/s; None when not measured."""
        return None if self.measured is None else self.measured.gbs

    @property
    def limit_gbs(self) -> float | None:
        """Its ceiling in GB/s; None when unknown."""
        return None if self.measured is None else self.measured.limit_gbs

    @property
    def share_of_limit(self) -> float | None:
        """Bandwidth as a share of the limit; None when either is unknown."""
        return None if self.measured is None else self.measured.share_of_limit

    @property
    def half_width(self) -> float | None:
        """Relative 95 % half-width of the median; None when unknown."""
        if self.measured is None or not self.measured.own_rate:
            return None
        return self.measured.statistics.half_width

    @property
    def is_latency(self) -> bool:
        """Whether it is a latency, or the load of one: it belongs to no bandwidth."""
        return self.result.experiment.has_latency

    @property
    def predicted(self) -> bool:
        """Whether its numbers are predictions."""
        return self.result.source is Source.PREDICTED


def path_rows(results: Iterable[Result]) -> tuple[PathRow, ...]:
    """Return a row for each copy, or one for an experiment that was not measured."""
    listed = list(results)
    return tuple(row for result in listed for row in _rows(result, alone=len(listed) == 1))


def bandwidth_rows(results: Iterable[Result]) -> tuple[PathRow, ...]:
    """Return the rows that have a bandwidth, or would have if they had been measured."""
    return tuple(row for row in path_rows(results) if not row.is_latency)


def headline_results(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results that stand for their path.

    Of copies that differ only in size, as a sweep makes them, that is the
    largest one measured: the small ones say nothing about the link. What was
    measured for a map of small copies stands for no path at all.
    """
    curves = _curves(results)
    largest = {
        id(max(curve, key=lambda r: (bool(r.copies), r.experiment.copies[0].bytes)))
        for curve in curves
    }
    swept = {id(r) for curve in curves for r in curve}
    return tuple(
        r
        for r in results
        if (id(r) not in swept or id(r) in largest) and not (_is_cell(r) and r.copies)
    )


def swept_results(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results that are points of a curve: the same copy at other sizes is there."""
    swept = {id(r) for curve in _curves(results) for r in curve}
    return tuple(r for r in results if id(r) in swept)


class _Sourced(Protocol):
    @property
    def source(self) -> Source: ...


def source_word(results: Iterable[_Sourced]) -> str:
    """Return ``measured``, ``predicted`` or both, for titles."""
    sources = {r.source for r in results}
    if sources == {Source.PREDICTED}:
        return "predicted"
    return "measured and predicted" if Source.PREDICTED in sources else "measured"


def _clock_text(timing: Timing) -> str:
    """Return the clock of a way of timing, in words."""
    return "host clock" if timing is Timing.HOST else "GPU events"


def _curves(results: Sequence[Result]) -> list[list[Result]]:
    groups: dict[object, list[Result]] = defaultdict(list)
    for result in results:
        special = result.experiment.has_latency or _is_cell(result)
        if len(result.experiment.copies) == 1 and not special:
            copy = result.experiment.copies[0]
            groups[
                replace(copy, bytes=copy.pieces), result.experiment.timing, result.source
            ].append(result)
    return [
        group for group in groups.values() if len({r.experiment.copies[0].bytes for r in group}) > 1
    ]


def _rows(result: Result, *, alone: bool) -> list[PathRow]:
    experiment = result.experiment
    labels = _own_texts(experiment) if alone else None
    group = _group(experiment.copies[0])
    if result.not_measured is not None or not result.copies:
        verdict = result.not_measured or Verdict(Status.NOT_MEASURED, "no samples were taken")
        label = _label(experiment, None)
        copy = experiment.copies[0]
        return [PathRow(label, _detail(copy), group, result, copy, None, verdict)]
    return [
        PathRow(
            label=labels[number] if labels else _label(experiment, entry.copy),
            detail=_detail(entry.copy),
            group=group,
            result=result,
            copy=entry.copy,
            measured=entry,
            verdict=entry.verdict,
            low_gbs=_gbs_at(entry, entry.statistics.p95_seconds),
            high_gbs=_gbs_at(entry, entry.statistics.p5_seconds),
        )
        for number, entry in enumerate(result.copies)
    ]


def _own_texts(experiment: Experiment) -> list[str] | None:
    """What tells the copies of a set from each other, where they are the whole run.

    None where the experiment has a title of its own.
    """
    if experiment.title != set_title(experiment.copies) or len(experiment.copies) == 1:
        return None
    texts = [set_title((copy,)) for copy in experiment.copies]
    return [
        f"{text}, {texts[:number].count(text) + 1} of {count}"
        if (count := texts.count(text)) > 1
        else text
        for number, text in enumerate(texts)
    ]


def _is_cell(result: Result) -> bool:
    """Whether it is a cell of a map of small copies, which has tables of its own."""
    return result.experiment.purpose is Purpose.SMALL


def _gbs_at(entry: CopyResult, seconds: float) -> float | None:
    if entry.copy.operation.is_latency or not entry.own_rate:
        return None
    return bandwidth_gbs(entry.copy.counted_bytes, seconds)


def _label(experiment: Experiment, copy: Copy | None) -> str:
    first = experiment.copies[0]
    if experiment.purpose is Purpose.SWEEP and len(experiment.copies) == 1:
        return f"{first.path}, {_host_memory(first)}, {_clock_text(experiment.timing)}"
    if copy is None or len(experiment.copies) == 1:
        return experiment.title
    both_directions, _, how = experiment.title.partition(", ")
    if "⇄" in both_directions and how:
        return f"{copy.path}, {how}"
    return f"{copy.path} ({experiment.title})"


def _host_memory(copy: Copy) -> Memory:
    return (copy.source if copy.source.is_host else copy.destination).memory


def _detail(copy: Copy) -> str:
    if copy.engine is Engine.CPU:
        threads = count_text(len(copy.cpus), "thread") if copy.cpus else "host threads"
        return f"{copy.operation} of {bytes_text(copy.bytes)} arrays by {threads}"
    if copy.engine is Engine.NCCL:
        what = "all-reduce" if copy.operation is Operation.ALL_REDUCE else "send and receive"
        return f"{bytes_text(copy.bytes)}, {what} by NCCL"
    who = "a kernel" if copy.engine is Engine.SM else "a copy engine"
    return (
        f"{bytes_text(copy.bytes)}, {_host_memory(copy)} memory, by {who} of {copy.executing_gpu}"
    )


def _group(copy: Copy) -> str:
    hosts = (copy.source.is_host, copy.destination.is_host)
    if all(hosts):
        return GROUPS[0]
    if any(hosts):
        return GROUPS[1]
    return GROUPS[3] if copy.source.part == copy.destination.part else GROUPS[2]


@dataclass(frozen=True, slots=True)
class CellValue:
    """What is known of one cell.

    Attributes
    ----------
    median, mean
        In the matrix's unit; sums where several copies make up the cell. None
        when there is no number.
    samples
        The same for every sample; empty for sums, whose copies are not sampled
        in step.
    low, high
        Nine of ten samples lie between them, in the matrix's unit; None where
        there are no samples or only a prediction.
    half_width, variation
        Of the least certain of its copies, as shares; None when unknown.
    copies
        The results that make it up.
    verdict
        The worst of its copies, or why there is no number.
    """

    cell: Cell
    median: float | None
    mean: float | None
    samples: tuple[float, ...]
    low: float | None
    high: float | None
    half_width: float | None
    variation: float | None
    copies: tuple[CopyResult, ...]
    verdict: Verdict

    @property
    def limit_gbs(self) -> float | None:
        """Sum of the copies' limits, GB/s; None when one is unknown."""
        limits = [c.limit_gbs for c in self.copies]
        return None if not limits or None in limits else sum(filter(None, limits))

    @property
    def share_of_limit(self) -> float | None:
        """Sum of the copies' rates as a share of the sum of their limits."""
        rates = [c.carried_gbs for c in self.copies]
        if self.limit_gbs is None or None in rates:
            return None
        return sum(filter(None, rates)) / self.limit_gbs

    def number(self, *, mean: bool = False) -> float | None:
        """Return the median or the mean."""
        return self.mean if mean else self.median


def case_values(case: Case, results: Mapping[str, Result]) -> tuple[CellValue, ...]:
    """Return the values of all cells of all matrices of a case; see `cell_values`."""
    return tuple(v for matrix in case.matrices for v in cell_values(matrix, results))


def sum_of(values: Iterable[CellValue], *, mean: bool = False) -> float | None:
    """Return the sum of what is known of some cells, in their unit; None when nothing is."""
    known = [n for v in values if (n := v.number(mean=mean)) is not None]
    return sum(known) if known else None


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the first of the worst of one or more verdicts."""
    return min(verdicts, key=lambda v: _WORST_FIRST.index(v.status))


def cell_values(matrix: Matrix, results: Mapping[str, Result]) -> tuple[CellValue, ...]:
    """Return the value of each cell of a matrix.

    Parameters
    ----------
    results
        By the experiment's name.
    """
    return tuple(
        _value(cell, matrix.unit, results.get(cell.experiment or "")) for cell in matrix.cells
    )


def _value(cell: Cell, unit: Unit, result: Result | None) -> CellValue:
    if result is None or not result.copies:
        verdict = _why_missing(cell, result)
        return CellValue(cell, None, None, (), None, None, None, None, (), verdict)
    copies = tuple(result.copies[i] for i in cell.measured)
    verdict = worst_verdict(c.verdict for c in copies)
    if not _sum_is_known(cell, copies):
        return CellValue(cell, None, None, (), None, None, None, None, (), verdict)
    series = [[_in_unit(c, s, unit) for s in c.seconds if s > 0] for c in copies]
    low, high = _spread(result, copies, unit)
    widths = [c.statistics.half_width for c in copies]
    variations = [c.statistics.variation for c in copies]
    return CellValue(
        cell=cell,
        median=sum(_in_unit(c, c.statistics.median_seconds, unit) for c in copies),
        mean=float(sum(np.mean(s) for s in series)),
        samples=tuple(series[0]) if len(series) == 1 else (),
        low=low,
        high=high,
        half_width=_worst(widths),
        variation=_worst(variations),
        copies=copies,
        verdict=verdict,
    )


def _sum_is_known(cell: Cell, copies: Sequence[CopyResult]) -> bool:
    """Whether those that took turns on an engine are all in the cell, or none of them."""
    known = all(c.own_rate or c.in_turns_with for c in copies)
    return known and all(set(c.in_turns_with) <= set(cell.measured) for c in copies)


def _why_missing(cell: Cell, result: Result | None) -> Verdict:
    if cell.not_applicable is not None:
        return Verdict(Status.NOT_APPLICABLE, cell.not_applicable)
    if result is not None and result.not_measured is not None:
        return result.not_measured
    return Verdict(Status.NOT_MEASURED, "the run ended before it")


def _spread(result: Result, copies: Sequence[CopyResult], unit: Unit) -> _Spread:
    if len(copies) != 1 or result.source is Source.PREDICTED:
        return None, None
    ends = copies[0].statistics.p5_seconds, copies[0].statistics.p95_seconds
    if not min(ends) > 0:
        return None, None
    low, high = sorted(_in_unit(copies[0], s, unit) for s in ends)  # the longest time is slowest
    return low, high


def _in_unit(copy: CopyResult, seconds: float, unit: Unit) -> float:
    if unit is Unit.NANOSECONDS:
        return float(seconds * 1e9)
    return bandwidth_gbs(copy.copy.counted_bytes, float(seconds))


def _worst(shares: Sequence[float | None]) -> float | None:
    known = [s for s in shares if s is not None]
    return max(known) if len(known) == len(shares) else None
