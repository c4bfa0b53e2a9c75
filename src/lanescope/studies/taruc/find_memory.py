"""Findings about memory: single loads of it, and what it costs to get, touch and give back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from lanescope.copies import Memory, Operation
from lanescope.document.contents import Finding
from lanescope.studies.taruc.compare import (
    Comparison,
    comparisons,
    finding,
    grouped,
    of_worst,
    points_differ,
    unaffected,
)
from lanescope.studies.taruc.contended import Suite
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import Series, Setting, field_text, percent
from lanescope.units.sizes import size_text
from lanescope.units.words import three_digits, time_text


def load_findings(suite: Suite) -> list[Finding]:
    """Return what dependent and independent loads show."""
    series = suite.of(Benchmark.NURMA)
    return [*_pages(series), *_random(series), *_far_loads(series), *_strides(series)]


def _pages(series: Sequence[Series]) -> Iterable[Finding]:
    """What address translation costs: small pages against huge ones."""
    kinds = {s.setting.memory for s in series}
    small = Memory.SMALL_PAGES if Memory.SMALL_PAGES in kinds else Memory.PAGEABLE

    def words(top: Comparison) -> str:
        base, other = map(time_text, top.times)
        what = f"{field_text('operation', top.setting.operation)} {_times_text(top.ratio)}"
        return (
            f"Small pages make {what} huge pages do: {other} and not {base} a load "
            f"({_accessed(top)}); {percent(top.loss)} of the time is the TLB's"
        )

    wanted = (s for s in _local(series) if s.setting.memory in (small, Memory.HUGE))
    alike = attrgetter("source", "operation", "stride")
    compared = comparisons(wanted, alike, lambda s: s.memory is Memory.HUGE)
    for operation, found in grouped(compared, attrgetter("operation")).items():
        yield from of_worst(f"tlb-{operation}", Benchmark.NURMA, found, words)


def _local(series: Sequence[Series]) -> list[Series]:
    return [s for s in series if s.setting.local]


def _random(series: Sequence[Series]) -> Iterable[Finding]:
    """Loads at random against loads in order, of the same lines."""

    def words(top: Comparison) -> str:
        base, other = map(time_text, top.times)
        return (
            f"A dependent load at random takes {other}, {_times_text(top.ratio)} one in order "
            f"({base}; {top.setting.memory} memory of {top.setting.source}, {_accessed(top)})"
        )

    loads = (Operation.CHASE, Operation.CHASE_RANDOM)
    dependent = (s for s in _local(series) if s.setting.operation in loads)
    alike = attrgetter("source", "memory", "stride")
    found = comparisons(dependent, alike, lambda s: s.operation is Operation.CHASE)
    return of_worst("random-loads", Benchmark.NURMA, found, words, _longer)


def _far_loads(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        base, other = map(time_text, top.times)
        setting = top.setting
        return (
            f"A load from memory of {setting.source} by a thread on {setting.thread} takes "
            f"{other}, {_times_text(top.ratio)} one from its own node ({base}; "
            f"{field_text('operation', setting.operation)}, {setting.memory}, {_accessed(top)})"
        )

    bound = (s for s in series if s.setting.thread is not None)
    alike = attrgetter("thread", "memory", "operation", "stride")
    compared = comparisons(bound, alike, attrgetter("local"))
    for found in grouped(compared, attrgetter("source", "thread")).values():
        hit = {c.setting.memory for c in found if c.counts}
        rest = unaffected(sorted({str(c.setting.memory) for c in found} - set(map(str, hit))))
        yield from of_worst("far-loads", Benchmark.NURMA, found, words, _longer, rest)


def _strides(series: Sequence[Series]) -> Iterable[Finding]:
    """What loads that lie far apart cost against loads next to each other."""
    strides = sorted({s.setting.stride for s in series})
    if len(strides) < 2:
        return ()

    def words(top: Comparison) -> str:
        base, other = map(time_text, top.times)
        loads = field_text("operation", top.setting.operation)
        return (
            f"{loads[:1].upper()}{loads[1:]} that lie {size_text(top.setting.stride)} apart take "
            f"{other} each, {_times_text(top.ratio)} those {size_text(strides[0])} apart ({base}; "
            f"{top.setting.memory} memory of {top.setting.source})"
        )

    ends = (s for s in _local(series) if s.setting.stride in (strides[0], strides[-1]))
    alike = attrgetter("source", "memory", "operation")
    found = comparisons(ends, alike, lambda s: s.stride == strides[0])
    return of_worst("strides", Benchmark.NURMA, found, words, _longer)


def _longer(comparison: Comparison) -> float:
    return comparison.ratio - 1


def _accessed(comparison: Comparison) -> str:
    stride = field_text("stride", comparison.setting.stride)
    return f"{comparison.size} accessed, {stride}"


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
        setting = comparison.setting
        base, other = comparison.times
        touch = _touch_words(series, comparison) if setting.operation is Operation.ALLOCATE else ""
        yield finding(
            f"{setting.operation}-{setting.memory}",
            Benchmark.OVERHEAD,
            f"{_DOES[setting.operation]} {comparison.size} of {setting.memory} "
            f"memory takes {time_text(other)}, {_times_text(comparison.ratio)} pageable memory "
            f"({time_text(base)}){touch}.",
            comparison.evidence,
            comparison.ratio,
        )


def _touch_words(series: Sequence[Series], allocation: Comparison) -> str:
    """What the first touch of the same memory takes, where that differs, too."""
    place = (allocation.setting.source, allocation.setting.memory)
    for touch in _against(series, Memory.PAGEABLE, (Operation.TOUCH,)):
        setting = touch.setting
        if (setting.source, setting.memory) == place and touch.counts:
            base, other = touch.times
            return f", but its first touch takes {time_text(other)} and not {time_text(base)}"
    return ""


def _against(
    series: Sequence[Series], memory: Memory, operations: Sequence[Operation]
) -> list[Comparison]:
    """Compare kinds of memory at home on the first node that has a thread."""
    local = [s for s in _local(series) if s.setting.node]
    first = local[0].setting.source if local else ""
    here = [s for s in _local(series) if s.setting.source == first]
    wanted = (s for s in here if s.setting.operation in operations)
    return comparisons(
        wanted, attrgetter("operation"), lambda s: s.memory is memory, _COMPARED_BYTES
    )


def _allocates(setting: Setting) -> bool:
    return setting.operation is Operation.ALLOCATE


def _pools(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        base, other = map(time_text, top.times)
        return (
            f"Allocating {top.size} on {top.setting.source} takes {other}, "
            f"{_times_text(top.ratio)} from the driver's pool ({base})"
        )

    on_gpus = (s for s in series if s.setting.gpu is not None)
    made = (s for s in on_gpus if _allocates(s.setting))
    alike = attrgetter("source", "thread")
    found = comparisons(made, alike, lambda s: s.memory is Memory.POOL, _COMPARED_BYTES)
    return of_worst("allocate-pool", Benchmark.OVERHEAD, found, words, attrgetter("ratio"))


def _touches(series: Sequence[Series]) -> Iterable[Finding]:
    """Where the first touch is most of what getting memory costs."""
    local = [s for s in _local(series) if s.setting.node is not None]
    got = (s for s in local if s.setting.operation is not Operation.RELEASE)
    alike = attrgetter("source", "memory")
    compared = comparisons(got, alike, _allocates, _COMPARED_BYTES)
    best: dict[Memory, Comparison] = {}
    for comparison in compared:
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
            f"{comparison.size} of {memory} memory: {time_text(touch)} of "
            f"{time_text(allocation + touch)}.",
            comparison.evidence,
            share,
        )


def _far_overhead(series: Sequence[Series]) -> Iterable[Finding]:
    """What memory of another node costs to get."""

    def words(top: Comparison) -> str:
        base, other = map(time_text, top.times)
        setting = top.setting
        return (
            f"{_DOES[setting.operation]} {top.size} of {setting.memory} memory of "
            f"{setting.source} by a thread on {setting.thread} takes {other}, "
            f"{_times_text(top.ratio)} memory of its own node ({base})"
        )

    bound = (s for s in series if None not in (s.setting.node, s.setting.thread))
    compared = comparisons(bound, attrgetter("thread", "memory", "operation"), attrgetter("local"))
    for operation, found in grouped(compared, attrgetter("operation")).items():
        yield from of_worst(f"far-{operation}", Benchmark.OVERHEAD, found, words, _longer)


def _times_text(ratio: float) -> str:
    """Return how much longer: a percentage up to twice, then a factor.

    >>> _times_text(1.38), _times_text(300.4)
    ('38 % longer than', '300 times as long as')
    """
    if ratio < 2:
        return f"{(ratio - 1) * 100:.0f} % longer than"
    return f"{three_digits(ratio)} times as long as"
