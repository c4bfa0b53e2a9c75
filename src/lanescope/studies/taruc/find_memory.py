"""Findings about memory: single loads of it, and what it costs to get, touch and give back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

from lanescope.copies import Memory, Operation
from lanescope.document.finding import Finding
from lanescope.studies.taruc.compare import (
    Comparison,
    comparisons,
    finding,
    how_many,
    points_differ,
    worst,
)
from lanescope.studies.taruc.contended import Suite
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import Series, field_text, percent
from lanescope.units.sizes import size_text
from lanescope.units.words import enumeration, three_digits, time_text


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
                f"Small pages make {field_text('operation', operation)} {_times_text(top.ratio)} "
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
            f"A dependent load at random takes {time_text(other)}, {_times_text(top.ratio)} one in "
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
                f"{_times_text(top.ratio)} one from its own node ({time_text(base)}; "
                f"{field_text('operation', setting.operation)}, {setting.memory}, "
                f"{_accessed(top)}){how_many(found)}{_spared(found)}.",
                top.evidence,
                top.ratio - 1,
            )


def _spared(found: Sequence[Comparison]) -> str:
    hit = {c.other.setting.memory for c in found if c.counts}
    spared = sorted({str(c.other.setting.memory) for c in found} - {str(m) for m in hit})
    verb = "is" if len(spared) == 1 else "are"
    return f"; {enumeration(spared)} {verb} unaffected" if spared else ""


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
            f"{_times_text(top.ratio)} those {size_text(strides[0])} apart ({time_text(base)}; "
            f"{setting.memory} memory of {setting.source}){how_many(found)}.",
            top.evidence,
            top.ratio - 1,
        )


def _accessed(comparison: Comparison) -> str:
    stride = field_text("stride", comparison.other.setting.stride)
    return f"{size_text(comparison.b.bytes)} accessed, {stride}"


#: Kinds of memory are compared at this size: large enough that pages count.
_COMPARED_BYTES = 128 << 20
#: The first touch is told where it is at least this share of both.
_MOST_OF_IT = 0.5
_DOES = {
    Operation.ALLOCATE: "Allocating",
    Operation.TOUCH: "First touching",
    Operation.RELEASE: "Releasing",
}


def overhead_findings(suite: Suite) -> list[Finding]:
    """Return what allocation, first touch and release show."""
    series = suite.of(Benchmark.OVERHEAD)
    return [*_kinds(series), *_pools(series), *_touches(series), *_far_overhead(series)]


def _kinds(series: Sequence[Series]) -> Iterable[Finding]:
    """What kinds of host memory cost to allocate and release, against pageable memory."""
    for comparison in _against(series, Memory.PAGEABLE, (Operation.ALLOCATE, Operation.RELEASE)):
        if not comparison.slower:
            continue
        setting = comparison.other.setting
        base, other = comparison.times
        touch = _touch_words(series, comparison) if setting.operation is Operation.ALLOCATE else ""
        yield finding(
            f"{setting.operation}-{setting.memory}",
            Benchmark.OVERHEAD,
            f"{_DOES[setting.operation]} {size_text(comparison.b.bytes)} of {setting.memory} "
            f"memory takes {time_text(other)}, {_times_text(comparison.ratio)} pageable memory "
            f"({time_text(base)}){touch}.",
            comparison.evidence,
            comparison.ratio,
        )


def _touch_words(series: Sequence[Series], allocation: Comparison) -> str:
    """What the first touch of the same memory takes, where that differs, too."""
    place = (allocation.other.setting.source, allocation.other.setting.memory)
    for touch in _against(series, Memory.PAGEABLE, (Operation.TOUCH,)):
        setting = touch.other.setting
        if (setting.source, setting.memory) == place and touch.counts:
            base, other = touch.times
            return f", but its first touch takes {time_text(other)} and not {time_text(base)}"
    return ""


def _against(
    series: Sequence[Series], memory: Memory, operations: Sequence[Operation]
) -> list[Comparison]:
    """Compare kinds of memory at home on the first node that has a thread."""
    local = [s for s in series if s.setting.local and s.setting.node]
    first = local[0].setting.source if local else ""

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.source != first or not setting.local or setting.operation not in operations:
            return None
        return setting.operation, setting.memory is memory

    return comparisons(series, role, _COMPARED_BYTES)


def _pools(series: Sequence[Series]) -> Iterable[Finding]:
    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.gpu is None or setting.operation is not Operation.ALLOCATE:
            return None
        return (setting.source, setting.thread), setting.memory is Memory.POOL

    found = comparisons(series, role, _COMPARED_BYTES)
    if top := worst(found):
        base, other = top.times
        yield finding(
            "allocate-pool",
            Benchmark.OVERHEAD,
            f"Allocating {size_text(top.b.bytes)} on {top.other.setting.source} takes "
            f"{time_text(other)}, {_times_text(top.ratio)} from the driver's pool "
            f"({time_text(base)}){how_many(found)}.",
            top.evidence,
            top.ratio,
        )


def _touches(series: Sequence[Series]) -> Iterable[Finding]:
    """Where the first touch is most of what getting memory costs."""

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.operation is Operation.RELEASE or not setting.local or setting.node is None:
            return None
        return (setting.source, setting.memory), setting.operation is Operation.ALLOCATE

    best: dict[Memory, Comparison] = {}
    for comparison in comparisons(series, role, _COMPARED_BYTES):
        if points_differ(comparison.a, comparison.b):
            best.setdefault(comparison.base.setting.memory, comparison)
    for memory, comparison in best.items():
        allocation, touch = comparison.times
        share = touch / (allocation + touch)
        if share < _MOST_OF_IT:
            continue
        yield finding(
            "first-touch",
            Benchmark.OVERHEAD,
            f"The first touch is {percent(share)} of allocation and touch together for "
            f"{size_text(comparison.b.bytes)} of {memory} memory: {time_text(touch)} of "
            f"{time_text(allocation + touch)}.",
            comparison.evidence,
            share,
        )


def _far_overhead(series: Sequence[Series]) -> Iterable[Finding]:
    """What memory of another node costs to get."""

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.node is None or setting.thread is None:
            return None
        return (setting.thread, setting.memory, setting.operation), setting.local

    by_operation: dict[Operation, list[Comparison]] = defaultdict(list)
    for comparison in comparisons(series, role):
        by_operation[comparison.other.setting.operation].append(comparison)
    for operation, found in by_operation.items():
        if top := worst(found):
            setting = top.other.setting
            base, other = top.times
            yield finding(
                f"far-{operation}",
                Benchmark.OVERHEAD,
                f"{_DOES[operation]} {size_text(top.b.bytes)} of {setting.memory} memory of "
                f"{setting.source} by a thread on {setting.thread} takes {time_text(other)}, "
                f"{_times_text(top.ratio)} memory of its own node ({time_text(base)})"
                f"{how_many(found)}.",
                top.evidence,
                top.ratio - 1,
            )


def _times_text(ratio: float) -> str:
    """Return how much longer: a percentage up to twice, then a factor.

    >>> _times_text(1.38), _times_text(300.4)
    ('38 % longer than', '300 times as long as')
    """
    if ratio < 2:
        return f"{(ratio - 1) * 100:.0f} % longer than"
    return f"{three_digits(ratio)} times as long as"
