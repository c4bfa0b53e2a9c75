"""Findings of what was measured alone: copies, loads of memory, getting it, giving it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from lanescope.copies import Memory, Operation, Pattern, Route
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
from lanescope.studies.taruc.contended import SuiteResults
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import Series, Setting, SizePoint, field_text, percent
from lanescope.units.sizes import size_text
from lanescope.units.words import rate_text, three_digits, time_text

#: A fall of the bandwidth by less than this is no step out of a cache.
_STEP = 0.15
#: Flushed and warm caches are compared at this size, which most caches hold.
_CACHED_BYTES = 1 << 20
#: Waiting for each copy is compared at this size: a small one is all call, a large one none.
_CALL_BYTES = 128 << 10
#: Kinds of memory are compared at this size: large enough that pages count.
_COMPARED_BYTES = 128 << 20
#: The first touch is told where it is at least this share of both.
_MOST_OF_IT = 0.5
_DOES = {
    Operation.ALLOCATE: "Allocating",
    Operation.TOUCH: "First touching",
    Operation.RELEASE: "Releasing",
}


def host_findings(suite: SuiteResults) -> list[Finding]:
    """Return what copies between nodes show."""
    series = suite.of(Benchmark.HOST)
    return [*_far_host(series), *_cache_steps(series), *_warmth(series), *_patterns(series)]


def _far_host(series: Sequence[Series]) -> Iterable[Finding]:
    """What another node's memory costs a thread, by kind of memory."""
    within = [s for s in _usual(series) if s.setting.source == s.setting.destination]
    bound = [s for s in within if s.setting.thread is not None]
    far = comparisons(bound, attrgetter("thread", "memory"), attrgetter("local"))
    for (node, thread), found in grouped(far, attrgetter("source", "thread")).items():
        slower = sorted((c for c in found if c.slower), key=lambda c: -c.ratio)
        if not slower:
            continue
        rest = unaffected([str(c.setting.memory) for c in found if not c.counts])
        yield finding(
            "far-host-memory",
            Benchmark.HOST,
            f"Memory of node {node[1:]} costs {percent(slower[0].loss)} of copy bandwidth from "
            f"socket {thread[1:]}: {'; '.join(map(_fall, slower))}{rest}.",
            (name for c in slower for name in c.evidence),
            slower[0].loss,
        )


def _fall(comparison: Comparison) -> str:
    what = f"with {comparison.setting.memory} memory, {comparison.size}"
    return f"{_slowed(comparison)} {what}"


def _slowed(comparison: Comparison) -> str:
    base, other = comparison.rates
    return f"{rate_text(base)} to {rate_text(other)}"


def _usual(series: Sequence[Series]) -> list[Series]:
    """The plainest pattern, with flushed caches where that was measured: memory itself."""
    patterns = {s.setting.pattern for s in series}
    caches = {s.setting.caches for s in series}
    pattern = next((str(p) for p in Pattern if str(p) in patterns), "")
    state = "flushed" if "flushed" in caches else "warm"
    return [s for s in series if (s.setting.pattern, s.setting.caches) == (pattern, state)]


def _cache_steps(series: Sequence[Series]) -> Iterable[Finding]:
    """At which sizes a copy falls out of a cache: of each kind of memory at home."""
    described: set[Memory] = set()
    for one in series:
        setting = one.setting
        warm = (setting.pattern, setting.caches) == ("repeated", "warm")
        if not warm or not setting.local or setting.memory in described:
            continue
        points = [p for p in one.measured if p.gbs is not None]
        steps = list(_steps(points))
        if not steps:
            continue
        described.add(setting.memory)
        top = steps[0][0]
        falls = [
            f"above {size_text(a.bytes)} it falls to {rate_text(b.gbs or 0.0)} "
            f"({size_text(b.bytes)})"
            for a, b in steps
        ]
        yield finding(
            "cache-steps",
            Benchmark.HOST,
            f"A copy of {setting.memory} memory within {setting.source} runs at "
            f"{rate_text(top.gbs or 0.0)} at {size_text(top.bytes)}; {', '.join(falls)}.",
            (p.experiment for step in steps for p in step),
            1 - (steps[-1][1].gbs or 0.0) / (top.gbs or 1.0),
        )


def _steps(points: Sequence[SizePoint]) -> Iterable[tuple[SizePoint, SizePoint]]:
    """Falls of the bandwidth with growing size: the last point before and the first after."""
    start: SizePoint | None = None
    for a, b in pairwise(points):
        falls = (b.gbs or 0.0) < (a.gbs or 0.0) * 0.9
        if falls and start is None:
            start = a
        if not falls and start is not None:
            yield from _step(start, a)
            start = None
    if start is not None:
        yield from _step(start, points[-1])


def _step(a: SizePoint, b: SizePoint) -> Iterable[tuple[SizePoint, SizePoint]]:
    if points_differ(a, b) and (b.gbs or 0.0) < (1 - _STEP) * (a.gbs or 0.0):
        yield a, b


def _warmth(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        return (
            f"Flushed caches cost a copy of {top.size} {percent(top.loss)} of its bandwidth: "
            f"{_slowed(top)} ({top.setting.memory} memory within {top.setting.source})"
        )

    repeated = (s for s in series if s.setting.local and s.setting.pattern == "repeated")
    found = comparisons(repeated, _but("caches"), lambda s: s.caches == "warm", _CACHED_BYTES)
    return of_worst("flushed-caches", Benchmark.HOST, found, words)


def _but(field: str) -> Callable[[Setting], Setting]:
    """Return what gives all of a setting but a field, which is text."""
    return lambda setting: replace(setting, **{field: ""})  # type: ignore[arg-type]


def _patterns(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        return (
            f"Copies of {top.size} of {field_text('pattern', top.setting.pattern)} "
            f"{_less(top)} at the same address ({rate_text(top.rates[0])}; {top.setting.memory} "
            f"memory within {top.setting.source})"
        )

    local = (s for s in series if s.setting.local)
    found = comparisons(local, _but("pattern"), lambda s: s.pattern == "repeated")
    return of_worst("patterns", Benchmark.HOST, found, words)


def _less(comparison: Comparison) -> str:
    return f"get {rate_text(comparison.rates[1])}, {percent(comparison.loss)} less than"


def device_findings(suite: SuiteResults) -> list[Finding]:
    """Return what copies to, from and between GPUs show."""
    series = suite.of(Benchmark.HOSTDEV)
    homes = {gpu.id: suite.machine.nearest_node(gpu).id for gpu in suite.machine.gpus}
    return [
        *_far_device(series, homes),
        *_timing(series),
        *_pageable(series),
        *_staged(suite.of(Benchmark.PEER)),
    ]


def _far_device(series: Sequence[Series], homes: dict[str, str]) -> Iterable[Finding]:
    """What far memory, a far thread and both cost copies between host and GPUs."""

    def far(setting: Setting) -> tuple[bool, bool]:
        home = homes.get(setting.gpu or "")
        return setting.node != home, setting.thread not in (None, home)

    alike = attrgetter("gpu", "direction", "memory", "timing", "pattern")
    compared = comparisons(series, alike, lambda s: far(s) == (False, False))
    who = {
        (True, False): "Memory of another node",
        (False, True): "A thread on another node",
        (True, True): "Memory and a thread of another node",
    }
    for (what, memory), found in grouped(compared, lambda s: (far(s), s.memory)).items():

        def words(top: Comparison, what: str = who[what], memory: Memory = memory) -> str:
            return (
                f"{what} costs copies between {memory} memory and a GPU up to "
                f"{percent(top.loss)}: {_slowed(top)} ({_device(top.setting)}, memory of "
                f"{top.setting.node}, {top.size})"
            )

        yield from of_worst("far-device-copies", Benchmark.HOSTDEV, found, words)


def _timing(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        return (
            f"Synchronous copies of {top.size} {_less(top)} asynchronous ones "
            f"({rate_text(top.rates[0])}; {_device(top.setting)}, {top.setting.memory} memory)"
        )

    found = comparisons(series, _but("timing"), lambda s: s.timing == "async", _CALL_BYTES)
    return of_worst("sync-async", Benchmark.HOSTDEV, found, words)


def _pageable(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        return (
            f"Copies of {top.size} of pageable memory {_less(top)} of pinned memory "
            f"({rate_text(top.rates[0])}; {_device(top.setting)})"
        )

    kinds = (Memory.PAGEABLE, Memory.PINNED)
    waited = (s for s in series if s.setting.memory in kinds and s.setting.timing == "sync")
    pinned = Memory.PINNED
    found = comparisons(waited, lambda s: replace(s, memory=pinned), lambda s: s.memory is pinned)
    return of_worst("pageable-device-copies", Benchmark.HOSTDEV, found, words)


def _staged(series: Sequence[Series]) -> Iterable[Finding]:
    def words(top: Comparison) -> str:
        return (
            f"Staged through the host, copies of {top.size} from {top.setting.source} to "
            f"{top.setting.destination} {_less(top)} peer to peer ({rate_text(top.rates[0])})"
        )

    known = (s for s in series if s.setting.route in (Route.PEER, Route.STAGED))
    found = comparisons(known, attrgetter("path"), lambda s: s.route == Route.PEER)
    return of_worst("staged-peers", Benchmark.PEER, found, words)


def _device(setting: Setting) -> str:
    return f"{setting.gpu}, {field_text('direction', setting.direction)}"


def load_findings(suite: SuiteResults) -> list[Finding]:
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


def overhead_findings(suite: SuiteResults) -> list[Finding]:
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
