"""Findings about copies with GPUs: nodes, ways of timing, kinds of memory, routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from lanescope.document.finding import Finding
from lanescope.experiment import Memory, Route
from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.measurement.words import rate_text
from lanescope.model.taruc.compare import Comparison, comparisons
from lanescope.model.taruc.finding import finding, how_many, worst
from lanescope.model.taruc.points import Series, Setting
from lanescope.model.taruc.suite import Suite
from lanescope.model.taruc.words import field_text, percent
from lanescope.units.sizes import size_text

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
        key = (setting.gpu, setting.way, setting.memory, setting.timing, setting.pattern)
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
    return f"{setting.gpu}, {field_text('way', setting.way)}"
