from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.document.contents import Finding
from lanescope.findings.trace import find
from lanescope.findings.trace.copies import batches
from lanescope.machine import Machine, PcieLink, machine_named
from lanescope.machine.machine import Link
from lanescope.trace.limits import Ceilings
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import OperationCode, Operations, Timeline
from tests.trace.timelines import MS, PAGEABLE, US, S, copies, timeline

MIB = 1 << 20
H200 = machine_named("h200-x2")
MEASURED = Ceilings({(0, "h2d"): 50.0, (0, "d2h"): 50.0}, "measured by bench")


def found(seen: Timeline, machine: Machine | None = H200) -> dict[str, Finding]:
    return {f.kind: f for f in find(seen, summarise(seen, machine), machine, MEASURED)}


def test_large_pinned_asynchronous_copies_are_fine() -> None:
    assert found(timeline(copies(100, 10_000_000, lasts_ns=200 * US))) == {}


def test_pageable_asynchronous_copies_gain_the_difference_to_pinned_ones() -> None:
    slow = copies(100, 5_000_000, lasts_ns=500 * US, host=PAGEABLE)
    one = found(timeline(slow))["pageable-async"]
    assert "100 asynchronous h2d copies of g0 (476.8 MiB) use pageable memory" in one.sentence
    assert one.gain_seconds.high == pytest.approx(0.05 - 0.5 / 50)
    assert "measured by bench" in one.basis


def test_pinned_copies_of_the_same_watch_tell_the_rate() -> None:
    slow = copies(100, 5_000_000, lasts_ns=500 * US, host=PAGEABLE)
    pinned = copies(10, 5_000_000, lasts_ns=125 * US, start_ns=200 * MS)
    one = found(timeline(slow, pinned))["pageable-async"]
    assert one.gain_seconds.high == pytest.approx(0.05 - 0.5 / 40)
    assert "median of 10 large h2d copies of this watch" in one.basis


def test_one_copy_is_told_as_one() -> None:
    slow = found(timeline(copies(1, 500_000_000, lasts_ns=50 * MS, host=PAGEABLE)))
    sentence = slow["pageable-async"].sentence
    assert sentence.startswith("1 asynchronous h2d copy of g0 (476.8 MiB) uses pageable memory")
    waited = found(timeline(copies(1, MIB, lasts_ns=50 * MS, asynchronous=False)))
    assert "in 1 synchronous copy of 1 MiB in sum." in waited["synchronous-copies"].sentence


def test_small_pageable_copies_wait_for_nothing() -> None:
    assert found(timeline(copies(100, 4096, host=PAGEABLE))) == {}


def test_synchronous_copies_wait_by_their_calls() -> None:
    start = np.arange(100) * MS
    rows = copies(100, MIB, lasts_ns=100 * US, asynchronous=False)
    called = dataclasses.replace(rows, call_start_ns=start + 1, call_end_ns=start + 1 + 400 * US)
    one = found(timeline(called))["synchronous-copies"]
    assert "waited 0.04 s (4.0 % of the watch) in 100 synchronous copies" in one.sentence
    assert one.gain_seconds.high == pytest.approx(0.04 - 100 * 10e-6)


def test_without_call_times_flags_and_the_gpu_tell() -> None:
    one = found(timeline(copies(100, MIB, asynchronous=False)))["synchronous-copies"]
    assert "by the times of the GPU, at least 0.05 s" in one.sentence
    assert one.evidence[0].startswith("call times are not known")


def test_rare_synchronous_copies_do_not_matter() -> None:
    assert found(timeline(copies(10, MIB, asynchronous=False))) == {}


def test_tiny_copies_gain_their_fixed_cost() -> None:
    # 2 µs each, of which 0.02 µs are for the bytes; rows of 100 with a pause between
    rows = [
        copies(100, 1000, start_ns=i * 10 * MS, every_ns=5 * US, lasts_ns=2 * US) for i in range(50)
    ]
    one = found(timeline(*rows))["tiny-copies"]
    assert one.gain_seconds.high == pytest.approx((5000 - 50) * (2e-6 - 0.02e-6))
    assert "fit into 50 copies" in one.sentence


def test_calls_that_take_longer_than_the_gpu_are_what_tiny_copies_cost() -> None:
    rows = copies(5000, 1000, every_ns=9 * US, lasts_ns=2 * US)
    called = dataclasses.replace(
        rows, call_start_ns=rows.start_ns, call_end_ns=rows.start_ns + 7000
    )
    one = found(timeline(called))["tiny-copies"]
    assert "its call 7 µs of the thread" in one.sentence
    assert one.gain_seconds.high == pytest.approx((5000 - 1) * 7e-6)


def test_results_of_few_bytes_are_left_on_the_gpu() -> None:
    one = found(timeline(copies(5000, 4, down=False, every_ns=5 * US, lasts_ns=2 * US)))
    assert [snippet.what for snippet in one["tiny-copies"].code] == ["defer"]
    assert "leave such results on the GPU" in one["tiny-copies"].remedy
    one = found(timeline(copies(5000, 4, every_ns=5 * US, lasts_ns=2 * US)))
    assert [snippet.what for snippet in one["tiny-copies"].code] == ["batch"]


def test_many_synchronous_copies_that_wait_no_longer_than_a_call_takes_gain_nothing() -> None:
    rows = copies(20_000, 1000, asynchronous=False, every_ns=9 * US, lasts_ns=2 * US)
    called = dataclasses.replace(
        rows, call_start_ns=rows.start_ns, call_end_ns=rows.start_ns + 8000
    )
    assert set(found(timeline(called))) == {"tiny-copies"}


def test_what_is_mended_in_a_program_has_its_code_in_its_language() -> None:
    seen = timeline(copies(5000, 1000, every_ns=5 * US, lasts_ns=2 * US))
    (snippet,) = found(seen)["tiny-copies"].code  # of python train.py
    assert snippet.language == "PyTorch"
    own = (dataclasses.replace(seen.processes[0], command="./app"),)
    (snippet,) = found(dataclasses.replace(seen, processes=own))["tiny-copies"].code
    assert snippet.language == "CUDA C++"


def test_few_tiny_copies_do_not_add_up() -> None:
    assert found(timeline(copies(999, 1000, every_ns=5 * US, lasts_ns=2 * US))) == {}


def test_copies_of_different_streams_are_no_batch() -> None:
    rows = copies(10, 1000, every_ns=5 * US, lasts_ns=2 * US)
    apart = dataclasses.replace(rows, stream=np.arange(10))
    assert (batches(rows), batches(apart)) == (1, 10)


def kernels(start_ns: int, lasts_ns: int = 500 * US, count: int = 100) -> Operations:
    start = start_ns + np.arange(count) * MS
    return Operations.of(
        start_ns=start, end_ns=start + lasts_ns, what=np.full(count, OperationCode.KERNEL)
    )


def test_copies_and_kernels_in_turns_could_overlap() -> None:
    one = found(timeline(copies(100, 25_000_000), kernels(500 * US)))["no-overlap"]
    assert "copies take 0.05 s and kernels 0.05 s of 1 s, and only 0 s" in one.sentence
    assert one.gain_seconds.high == pytest.approx(0.05)


def test_what_overlaps_already_is_fine() -> None:
    assert "no-overlap" not in found(timeline(copies(100, 25_000_000), kernels(100 * US)))


def test_no_finding_follows_from_kernels_that_were_left_out():
    seen = timeline(copies(100, 25_000_000), kernels(500 * US))
    process = dataclasses.replace(seen.processes[0], left_out=3, left_out_kernels=3)
    assert "no-overlap" not in found(dataclasses.replace(seen, processes=(process,)))


def test_without_traced_kernels_nothing_is_said_of_overlap() -> None:
    assert "no-overlap" not in found(timeline(copies(1000, 25_000_000)))


def trained(generation: int) -> Machine:
    link = Link.of_pcie("h0", "g0", PcieLink(generation, 16, 5, 16, 256))
    return dataclasses.replace(H200, links=(link,))


def test_a_link_below_its_best_is_named_with_what_it_costs() -> None:
    seen = timeline(copies(100, 10_000_000, lasts_ns=400 * US))
    one = found(seen, trained(4))["trained-down"]
    assert "g0 to h0 runs at PCIe 4.0 x16, where both ends can do 5.0 x16" in one.sentence
    assert one.gain_seconds.high == pytest.approx(1 / 29.2 - 1 / 58.4, rel=0.01)


def test_rates_above_the_told_state_show_that_the_link_slept() -> None:
    seen = timeline(copies(100, 100_000_000, every_ns=2 * MS, lasts_ns=2 * MS))
    assert "trained-down" not in found(seen, trained(1))


def test_findings_come_with_the_largest_gain_first_and_with_preconditions() -> None:
    seen = timeline(copies(100, MIB, asynchronous=False), kernels(600 * US, 300 * US))
    told = find(seen, summarise(seen), None)
    gains = [f.gain_seconds.high or 0.0 for f in told]
    assert gains == sorted(gains, reverse=True)
    assert len(told) == 2
    assert all(f.conditions and f.evidence and f.basis for f in told)


intervals = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 30)), max_size=20)


@given(intervals)
def test_covered_time_counts_overlaps_once(rows: list[tuple[int, int]]) -> None:
    start = np.array([r[0] for r in rows], np.int64)
    end = np.array([r[0] + r[1] for r in rows], np.int64)
    inside = {t for a, n in rows for t in range(a, a + n)}
    assert covered_ns(start, end) == len(inside)
    assert covered_ns(start, end) <= S
