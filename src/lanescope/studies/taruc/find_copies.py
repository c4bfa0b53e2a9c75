"""Findings about copies: between NUMA nodes, with GPUs, between GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter

from lanescope.copies import Memory, Pattern, Route
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
from lanescope.studies.taruc.points import Point, Series, Setting, field_text, percent
from lanescope.units.sizes import size_text
from lanescope.units.words import rate_text

#: A fall of the bandwidth by less than this is no step out of a cache.
_STEP = 0.15
#: Flushed and warm caches are compared at this size, which most caches hold.
_CACHED_BYTES = 1 << 20


def host_findings(suite: Suite) -> list[Finding]:
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


def _steps(points: Sequence[Point]) -> Iterable[tuple[Point, Point]]:
    """Falls of the bandwidth with growing size: the last point before and the first after."""
    start: Point | None = None
    for a, b in pairwise(points):
        falls = (b.gbs or 0.0) < (a.gbs or 0.0) * 0.9
        if falls and start is None:
            start = a
        if not falls and start is not None:
            yield from _step(start, a)
            start = None
    if start is not None:
        yield from _step(start, points[-1])


def _step(a: Point, b: Point) -> Iterable[tuple[Point, Point]]:
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


#: Waiting for each copy is compared at this size: a small one is all call, a large one none.
_CALL_BYTES = 128 << 10


def device_findings(suite: Suite) -> list[Finding]:
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
