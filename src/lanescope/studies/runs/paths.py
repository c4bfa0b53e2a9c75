"""What tables and plots show of each path: one flat value per copy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lanescope.copies import Copy, Engine, Experiment, Memory, Purpose, Timing
from lanescope.copies.experiment import set_title
from lanescope.copies.operation import Operation
from lanescope.report.format import bytes_text, count_text
from lanescope.results.result import CopyResult, Result, Source, Status, Verdict
from lanescope.units.bandwidth import bandwidth_gbs

#: Groups of paths in the order in which they are shown.
GROUPS = ("Host memory", "Host and GPU", "Between GPUs", "Inside a GPU")


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
    def budget_spent(self) -> bool:
        """Whether the time budget ended the sampling, and not the target."""
        return self.result.stop is not None and self.result.stop.reason == "budget"

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


def clock_text(timing: Timing) -> str:
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
        return f"{first.path}, {_host_memory(first)}, {clock_text(experiment.timing)}"
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
