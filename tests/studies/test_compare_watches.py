"""What changed between two watches."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from lanescope.machine import Machine, NumaNode
from lanescope.report.format import seconds_text
from lanescope.studies.runs.compare import (
    comparison_json,
    watch_changes,
    watch_comparison,
    watch_headline,
)
from lanescope.trace.codes import MemoryKind, OperationCode
from lanescope.trace.operations import Operations
from lanescope.trace.run import WatchManifest, WatchRun
from lanescope.trace.timeline import Process, Timeline
from tests.printed import printed

START = 1_795_000_000 * 10**9
MIB = 1 << 20


def watched(*groups: tuple[int, int, float], timed_by: str = "gpu", seed: int = 1) -> WatchRun:
    """Groups: how many copies to the GPU, of how many bytes, and their median in seconds."""
    random = np.random.default_rng(seed)
    sizes = np.concatenate([np.full(count, size) for count, size, _ in groups])
    lasted = np.concatenate([random.normal(s, 0.02 * s, count) for count, _, s in groups])
    starts = START + np.arange(sizes.size) * 10**7
    kind = np.full(sizes.size, MemoryKind.PINNED)
    operations = Operations.of(
        pid=np.full(sizes.size, 7),
        source_kind=kind,
        destination_kind=np.full(sizes.size, MemoryKind.DEVICE),
        destination_device=np.zeros(sizes.size),
        asynchronous=np.ones(sizes.size),
        bytes=sizes,
        start_ns=starts,
        end_ns=starts + np.round(lasted * 1e9).astype(np.int64),
    )
    process = Process(7, "run", START, timed_by=timed_by)
    timeline = Timeline(START, START + 10**9, operations=operations, processes=(process,))
    machine = Machine("m", nodes=(NumaNode(0, ()),))
    manifest = WatchManifest(
        "lanescope watch", ("run",), "2026-11-25T00:00:00+00:00", "0", machine, START
    )
    return WatchRun(manifest, timeline)


def test_copies_that_take_longer_are_slower_for_certain() -> None:
    before = watched((50, 4 * MIB, 80e-6), (50, MIB, 20e-6))
    after = watched((50, 4 * MIB, 100e-6), (50, MIB, 20e-6), seed=2)
    large, small = watch_changes(before, after)
    assert (large.key.bytes, small.key.bytes) == (4 * MIB, MIB)
    assert large.is_slower(0.02)
    assert not small.is_slower(0.02)
    assert not small.is_faster(0.02)
    assert large.effect is not None
    assert large.effect[0] == pytest.approx(-0.2, abs=0.02)
    assert watch_changes(after, before)[0].is_faster(0.02)
    words = watch_headline(before, after, [large, small], 0.02)
    assert "1 group of like copies slower, most h2d of pinned memory, asynchronous, 4 MiB" in words
    assert "slower" in printed(watch_comparison(before, after, 0.02))


def test_a_large_effect_that_is_not_certain_is_not_as_before() -> None:
    before, after = watched((8, MIB, 20e-6)), watched((8, MIB, 20.7e-6), seed=2)
    (change,) = watch_changes(before, after)
    assert change.effect is not None
    assert change.effect[0] < -0.02
    assert not change.is_slower(0.02)
    said = printed(watch_comparison(before, after, 0.02))
    assert "not certain" in said
    assert "as before" not in said


def test_few_copies_and_those_of_one_watch_have_no_verdict() -> None:
    before, after = watched((5, MIB, 20e-6), (50, 2 * MIB, 40e-6)), watched((50, MIB, 30e-6))
    found = {change.key.bytes: change for change in watch_changes(before, after)}
    assert [found[size].effect for size in (MIB, 2 * MIB)] == [None, None]
    assert (found[2 * MIB].before.count, found[2 * MIB].after.count) == (50, 0)


def test_a_median_is_shown_where_times_are_too_few_for_an_interval() -> None:
    run = watched((2, 400 * MIB, 8e-3))
    (change,) = found = watch_changes(run, run)
    assert change.before.median == pytest.approx(8e-3, rel=0.1)
    assert change.effect is None
    words = watch_headline(run, run, found, 0.02)
    assert "like copies have fewer than 6 times in A or B" in words
    assert printed(watch_comparison(run, run, 0.02)).count(seconds_text(change.before.median)) == 2
    assert comparison_json(run, run, 0.02)["changes"][0]["median_seconds"][0] is not None


def test_a_watch_of_kernels_alone_has_no_groups() -> None:
    run = watched((2, MIB, 8e-3))
    kernels = Operations.of(
        pid=[7, 7],
        what=[OperationCode.KERNEL] * 2,
        start_ns=np.array([0, 5]) + START,
        end_ns=np.array([1, 6]) + START,
    )
    after = replace(run, timeline=replace(run.timeline, operations=kernels))
    assert watch_changes(after, after) == []
    (change,) = watch_changes(run, after)
    assert (change.before.count, change.after.count) == (2, 0)


def test_times_of_the_gpu_and_of_calls_are_not_compared() -> None:
    before, after = watched((50, MIB, 20e-6)), watched((50, MIB, 60e-6), timed_by="calls")
    (change,) = watch_changes(before, after)
    assert change.effect is None
    assert "times are not compared" in printed(watch_comparison(before, after, 0.02))
    told = comparison_json(before, after, 0.02)
    assert told["changes"][0]["count"] == [50, 50]
    json.dumps(told)
