"""Findings about copies: between NUMA nodes, with GPUs, between GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from lanescope.copies import Memory, Pattern, Route
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
from lanescope.studies.taruc.points import Point, Series, Setting, field_text, percent
from lanescope.units.sizes import size_text
from lanescope.units.words import enumeration, rate_text

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
    usual = _usual(series)

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.thread is None or setting.source != setting.destination:
            return None
        return (setting.thread, setting.memory), setting.local

    by_node: dict[tuple[str, str], list[Comparison]] = defaultdict(list)
    for comparison in comparisons(usual, role):
        setting = comparison.other.setting
        by_node[setting.source, setting.thread or ""].append(comparison)
    for (node, thread), found in by_node.items():
        slower = sorted((c for c in found if c.slower), key=lambda c: -c.ratio)
        if not slower:
            continue
        spared = [str(c.other.setting.memory) for c in found if not c.counts]
        verb = "is" if len(spared) == 1 else "are"
        rest = f"; {enumeration(spared)} {verb} unaffected" if spared else ""
        yield finding(
            "far-host-memory",
            Benchmark.HOST,
            f"Memory of node {node[1:]} costs {percent(slower[0].loss)} of copy bandwidth from "
            f"socket {thread[1:]}: {'; '.join(map(_fall, slower))}{rest}.",
            (name for c in slower for name in c.evidence),
            slower[0].loss,
        )


def _fall(comparison: Comparison) -> str:
    base, other = comparison.rates
    return (
        f"{rate_text(base)} to {rate_text(other)} with {comparison.other.setting.memory} memory, "
        f"{size_text(comparison.b.bytes)}"
    )


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
    def role(one: Series) -> tuple[Hashable, bool] | None:
        if not one.setting.local or one.setting.pattern != "repeated":
            return None
        return replace(one.setting, caches=""), one.setting.caches == "warm"

    found = comparisons(series, role, _CACHED_BYTES)
    if top := worst(found):
        base, other = top.rates
        yield finding(
            "flushed-caches",
            Benchmark.HOST,
            f"Flushed caches cost a copy of {size_text(top.b.bytes)} {percent(top.loss)} of its "
            f"bandwidth: {rate_text(base)} to {rate_text(other)} ({top.other.setting.memory} "
            f"memory within {top.other.setting.source}){how_many(found)}.",
            top.evidence,
            top.loss,
        )


def _patterns(series: Sequence[Series]) -> Iterable[Finding]:
    def role(one: Series) -> tuple[Hashable, bool] | None:
        if not one.setting.local:
            return None
        return replace(one.setting, pattern=""), one.setting.pattern == "repeated"

    found = comparisons(series, role)
    if top := worst(found):
        base, other = top.rates
        pattern = field_text("pattern", top.other.setting.pattern)
        yield finding(
            "patterns",
            Benchmark.HOST,
            f"Copies of {size_text(top.b.bytes)} of {pattern} get {rate_text(other)}, "
            f"{percent(top.loss)} less than at the same address "
            f"({rate_text(base)}; {top.other.setting.memory} memory within "
            f"{top.other.setting.source}){how_many(found)}.",
            top.evidence,
            top.loss,
        )


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

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        key = (setting.gpu, setting.direction, setting.memory, setting.timing, setting.pattern)
        return key, far(setting) == (False, False)

    words = {
        (True, False): "Memory of another node",
        (False, True): "A thread on another node",
        (True, True): "Memory and a thread of another node",
    }
    by_kind: dict[tuple[tuple[bool, bool], Memory], list[Comparison]] = defaultdict(list)
    for comparison in comparisons(series, role):
        setting = comparison.other.setting
        if any(far(setting)):
            by_kind[far(setting), setting.memory].append(comparison)
    for (what, memory), found in by_kind.items():
        if top := worst(found):
            base, other = top.rates
            yield finding(
                "far-device-copies",
                Benchmark.HOSTDEV,
                f"{words[what]} costs copies between {memory} memory and a GPU up to "
                f"{percent(top.loss)}: {rate_text(base)} to {rate_text(other)} "
                f"({_device(top.other.setting)}, memory of {top.other.setting.node}, "
                f"{size_text(top.b.bytes)}){how_many(found)}.",
                top.evidence,
                top.loss,
            )


def _timing(series: Sequence[Series]) -> Iterable[Finding]:
    def role(one: Series) -> tuple[Hashable, bool] | None:
        return replace(one.setting, timing=""), one.setting.timing == "async"

    found = comparisons(series, role, _CALL_BYTES)
    if top := worst(found):
        base, other = top.rates
        yield finding(
            "sync-async",
            Benchmark.HOSTDEV,
            f"Synchronous copies of {size_text(top.b.bytes)} get {rate_text(other)}, "
            f"{percent(top.loss)} less than asynchronous ones ({rate_text(base)}; "
            f"{_device(top.other.setting)}, {top.other.setting.memory} memory){how_many(found)}.",
            top.evidence,
            top.loss,
        )


def _pageable(series: Sequence[Series]) -> Iterable[Finding]:
    kinds = (Memory.PAGEABLE, Memory.PINNED)

    def role(one: Series) -> tuple[Hashable, bool] | None:
        setting = one.setting
        if setting.memory not in kinds or setting.timing != "sync":
            return None
        return replace(setting, memory=Memory.PINNED), setting.memory is Memory.PINNED

    found = comparisons(series, role)
    if top := worst(found):
        base, other = top.rates
        yield finding(
            "pageable-device-copies",
            Benchmark.HOSTDEV,
            f"Copies of {size_text(top.b.bytes)} of pageable memory get {rate_text(other)}, "
            f"{percent(top.loss)} less than of pinned memory ({rate_text(base)}; "
            f"{_device(top.other.setting)}){how_many(found)}.",
            top.evidence,
            top.loss,
        )


def _staged(series: Sequence[Series]) -> Iterable[Finding]:
    def role(one: Series) -> tuple[Hashable, bool] | None:
        if one.setting.route not in (Route.PEER, Route.STAGED):
            return None
        return one.setting.path, one.setting.route == Route.PEER

    found = comparisons(series, role)
    if top := worst(found):
        base, other = top.rates
        yield finding(
            "staged-peers",
            Benchmark.PEER,
            f"Staged through the host, copies of {size_text(top.b.bytes)} from "
            f"{top.other.setting.source} to {top.other.setting.destination} get "
            f"{rate_text(other)}, {percent(top.loss)} less than peer to peer "
            f"({rate_text(base)}){how_many(found)}.",
            top.evidence,
            top.loss,
        )


def _device(setting: Setting) -> str:
    return f"{setting.gpu}, {field_text('direction', setting.direction)}"
