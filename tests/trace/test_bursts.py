"""Single transfers in samples of the hardware."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lanescope.trace.counter_spool import read_counters
from lanescope.trace.store import read_watch
from lanescope.trace.stored_columns import in_memory
from lanescope.trace.summarise import bursts, summarise
from lanescope.trace.timeline import Counters, Timeline
from tests.trace.captures import H200

STEP = 10_000
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def counters(rx, own=None, known=None):
    n = len(rx)
    return Counters(
        "pm",
        0,
        STEP,
        np.arange(n) * STEP,
        np.array(rx),
        np.zeros(n, np.int64),
        np.arange(n) > 0 if known is None else known,
        own=np.zeros(n, bool) if own is None else own,
    )


@pytest.mark.parametrize(("direction", "name"), [(0, "copies-4kib-h2d"), (1, "copies-4kib-d2h")])
def test_single_copies_of_4_kib_on_an_idle_link_are_seen(tmp_path, direction, name):
    spool = tmp_path / "pm.g0.bin"
    spool.write_bytes(gzip.decompress((H200 / name / "pm.g0.bin.gz").read_bytes()))
    seen = bursts(read_counters(spool), direction)
    copies = json.loads((H200 / name / "copies.json").read_text())
    assert len(copies) == 8
    for begin, end in copies:
        meets = (seen.start_ns < end + STEP) & (seen.end_ns > begin - STEP)
        assert meets.sum() == 1
        assert 4096 <= seen.wire_bytes[meets][0] <= 6144
    others = (seen.start_ns > copies[0][1]).sum() - (len(copies) - 1)
    assert others <= 4  # two notes that CUDA's driver writes every 100 ms


def test_neighbours_are_one_burst_and_a_pause_parts_them():
    seen = bursts(counters([0, 0, 4096, 4096, 0, 8192, 0]), 0)
    assert seen.wire_bytes.tolist() == [8192, 8192]
    assert seen.start_ns.tolist() == [STEP, 4 * STEP]
    assert seen.end_ns.tolist() == [3 * STEP, 5 * STEP]


def test_what_may_be_the_samplers_or_is_unknown_is_left_out():
    rx = [0, 9000, 9000, 9000, 0]
    assert len(bursts(counters(rx, own=np.ones(5, bool)), 0)) == 0
    assert len(bursts(counters(rx, known=np.zeros(5, bool)), 0)) == 0
    assert len(bursts(counters([0, 1000, 1000, 1000, 1000, 1000]), 0)) == 0
    assert len(bursts(counters([]), 0)) == 0


def test_what_every_sample_has_parts_no_bursts_and_is_none():
    """Samples go to the host all the time; a copy comes on top of them."""
    steady = np.resize([1024, 1536, 1536, 1536], 400)
    copies = steady.copy()
    copies[100] += 4608
    copies[[200, 201]] += [2048, 3072]
    seen = bursts(counters(copies), 0)
    assert seen.start_ns.tolist() == [99 * STEP, 199 * STEP]
    assert all(4096 <= one <= 6144 for one in seen.wire_bytes.tolist())
    assert len(bursts(counters(steady), 0)) == 0
    assert len(bursts(counters(np.full(400, 40_000)), 0)) == 1  # a link that is never idle


def test_single_copies_stand_out_where_nvlinks_are_sampled_too():
    folder = RESULTS / "h100-x2" / "watch" / "copies-4kib-d2h"
    times = [
        tuple(map(int, line.split())) for line in (folder / "times.txt").read_text().splitlines()
    ]
    gpu = in_memory(read_watch(folder).timeline.counters[0])
    seen = bursts(gpu, 1)
    own = gpu.end_ns[gpu.own]
    found = []
    for begin, end in times:
        if ((own > begin - 50_000) & (own < end + 50_000)).any():
            continue
        meets = (seen.start_ns < end + 20_000) & (seen.end_ns > begin - 20_000)
        found.append(int(seen.wire_bytes[meets].max()))
    assert len(found) == 16
    assert min(found) >= 4096
    assert np.quantile(found, 0.9) <= 5120


def test_bursts_are_told_where_nothing_is_traced():
    seen = counters([0, 4096, 0, 8192, 8192, 0, 5000, 0])
    told = summarise(Timeline(0, int(seen.end_ns[-1]), (seen,)))
    (note,) = [n for n in told.notes if "bursts" in n]
    assert note.startswith("g0: 3 bursts of 4 KiB or more to the GPU, half of them up to 4.88 KiB")
    assert "the largest 16 KiB" in note


def test_a_single_burst_is_told_as_one():
    told = summarise(Timeline(0, 8 * STEP, (counters([0, 0, 8192, 0]),)))
    (note,) = [n for n in told.notes if "burst" in n]
    assert note.startswith("g0: one burst of 4 KiB or more to the GPU, 8 KiB on the wire;")
