"""Findings about single loads: pages, order, nodes, strides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

from lanescope.document.finding import Finding
from lanescope.experiment import Memory, Operation
from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.measurement.words import time_text
from lanescope.model.taruc.compare import Comparison, comparisons
from lanescope.model.taruc.finding import finding, how_many, listed, worst
from lanescope.model.taruc.points import Series
from lanescope.model.taruc.suite import Suite
from lanescope.model.taruc.words import field_text, percent, times_text
from lanescope.units.sizes import size_text


def load_findings(suite: Suite) -> list[Finding]:
    """Return what dependent and independent loads show."""
    series = suite.of(Benchmark.NURMA)
    return [*_pages(series), *_random(series), *_far_loads(series), *_strides(series)]


def _pages(series: Sequence[Series]) -> Iterable[Finding]:
    """What address translation costs: small pages against huge ones."""
    kinds = {s.setting.memory for s in series}
    small = Memory.SMALL_PAGES if Memory.SMALL_PAGES in kinds else Memory.PAGEABLE

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.memory not in (small, Memory.HUGE) or not setting.local:
            return None
        key = (setting.source, setting.operation, setting.stride)
        return key, setting.memory is Memory.HUGE

    by_operation: dict[Operation, list[Comparison]] = defaultdict(list)
    for comparison in comparisons(series, role):
        by_operation[comparison.other.setting.operation].append(comparison)
    for operation, found in by_operation.items():
        if top := worst(found):
            base, other = top.times
            yield finding(
                f"tlb-{operation}",
                Benchmark.NURMA,
                f"Small pages make {field_text('operation', operation)} {times_text(top.ratio)} "
                f"huge pages do: {time_text(other)} and not {time_text(base)} a load "
                f"({_accessed(top)}); {percent(top.loss)} of the time is the TLB's"
                f"{how_many(found)}.",
                top.evidence,
                top.loss,
            )


def _random(series: Sequence[Series]) -> Iterable[Finding]:
    """Loads at random against loads in order, of the same lines."""
    loads = (Operation.CHASE, Operation.CHASE_RANDOM)

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.operation not in loads or not setting.local:
            return None
        key = (setting.source, setting.memory, setting.stride)
        return key, setting.operation is Operation.CHASE

    found = comparisons(series, role)
    if top := worst(found):
        base, other = top.times
        yield finding(
            "random-loads",
            Benchmark.NURMA,
            f"A dependent load at random takes {time_text(other)}, {times_text(top.ratio)} one in "
            f"order ({time_text(base)}; {top.other.setting.memory} memory of "
            f"{top.other.setting.source}, {_accessed(top)}){how_many(found)}.",
            top.evidence,
            top.ratio - 1,
        )


def _far_loads(series: Sequence[Series]) -> Iterable[Finding]:
    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.thread is None:
            return None
        key = (setting.thread, setting.memory, setting.operation, setting.stride)
        return key, setting.local

    by_node: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for comparison in comparisons(series, role):
        setting = comparison.other.setting
        by_node[setting.source, setting.thread or ""].append(comparison)
    for (node, thread), found in by_node.items():
        if top := worst(found):
            setting = top.other.setting
            base, other = top.times
            yield finding(
                "far-loads",
                Benchmark.NURMA,
                f"A load from memory of {node} by a thread on {thread} takes {time_text(other)}, "
                f"{times_text(top.ratio)} one from its own node ({time_text(base)}; "
                f"{field_text('operation', setting.operation)}, {setting.memory}, "
                f"{_accessed(top)}){how_many(found)}{_spared(found)}.",
                top.evidence,
                top.ratio - 1,
            )


def _spared(found: Sequence[Comparison]) -> str:
    hit = {c.other.setting.memory for c in found if c.counts}
    spared = sorted({str(c.other.setting.memory) for c in found} - {str(m) for m in hit})
    verb = "is" if len(spared) == 1 else "are"
    return f"; {listed(spared)} {verb} unaffected" if spared else ""


def _strides(series: Sequence[Series]) -> Iterable[Finding]:
    """What loads that lie far apart cost against loads next to each other."""
    strides = sorted({s.setting.stride for s in series})
    if len(strides) < 2:
        return

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if not setting.local or setting.stride not in (strides[0], strides[-1]):
            return None
        key = (setting.source, setting.memory, setting.operation)
        return key, setting.stride == strides[0]

    found = comparisons(series, role)
    if top := worst(found):
        setting = top.other.setting
        base, other = top.times
        yield finding(
            "strides",
            Benchmark.NURMA,
            f"{field_text('operation', setting.operation)[:1].upper()}"
            f"{field_text('operation', setting.operation)[1:]} that lie "
            f"{size_text(setting.stride)} apart take {time_text(other)} each, "
            f"{times_text(top.ratio)} those {size_text(strides[0])} apart ({time_text(base)}; "
            f"{setting.memory} memory of {setting.source}){how_many(found)}.",
            top.evidence,
            top.ratio - 1,
        )


def _accessed(comparison: Comparison) -> str:
    stride = field_text("stride", comparison.other.setting.stride)
    return f"{size_text(comparison.b.bytes)} accessed, {stride}"
