"""Commands of launches are not taken for payload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lanescope.trace.store import read_watch
from lanescope.trace.summarise import summarise
from lanescope.trace.summary import DirectionSummary, Summary
from lanescope.trace.timeline import GPU_CLOCK, Counters, OperationCode, Operations
from lanescope.trace.wire import WireModel
from lanescope.trace.wire_fit import slow_bytes
from tests.trace.timelines import MS, copies, even_counters, timeline

WATCHES = Path(__file__).parents[1] / "data" / "h100-x2-watch"
US = 1000
PLAIN = WireModel(((1.0, 0.0), (0.0, 1.0)))
#: An iteration: a copy of 32 MiB in 600 µs, and launches all the time.
ITERATION_NS, COPY_NS, COPY_BYTES = 3_600_000, 600_000, 32 << 20


def summary_of(name: str) -> Summary:
    return summarise(read_watch(WATCHES / name).timeline)


def direction_of(summary: Summary, name: str) -> DirectionSummary:
    return next(one for one in summary.directions if (one.gpu, one.direction) == (0, name))


def loop(interval_ns: int, launches_per_second: float, iterations: int = 400) -> Counters:
    """Count a loop that copies and launches, to the GPU."""
    end = np.arange(0, iterations * ITERATION_NS, interval_ns)
    begun, at = end // ITERATION_NS, np.minimum(end % ITERATION_NS, COPY_NS)
    copied = begun * COPY_BYTES + at * (COPY_BYTES / COPY_NS)
    commands = end * (launches_per_second * 2500 * 1e-9)
    total = np.rint(copied + commands).astype(np.int64)
    rx = np.diff(total, prepend=0)
    return Counters("pm", 0, interval_ns, end, rx, np.zeros_like(rx), end > 0)


@pytest.mark.parametrize("interval_us", [2, 10, 100])
def test_launches_are_found_next_to_copies(interval_us: int) -> None:
    counters = loop(interval_us * US, 25_000)
    seconds = float(counters.end_ns[-1]) * 1e-9
    (h2d, d2h), _ = slow_bytes(counters, PLAIN)
    assert h2d == pytest.approx(25_000 * 2500 * seconds, rel=0.02)
    assert d2h == 0.0


def test_without_launches_a_loop_of_copies_has_no_slow_traffic() -> None:
    counters = loop(100 * US, 0)
    assert slow_bytes(counters, PLAIN)[0, 0] < 2e-4 * float(counters.rx_bytes.sum())


def test_a_link_that_never_rests_tells_nothing() -> None:
    counters = loop(100 * US, 25_000)
    always = np.full(len(counters), 1 << 20)
    busy = Counters("pm", 0, 100 * US, counters.end_ns, always, always, counters.known)
    assert not slow_bytes(busy, PLAIN).any()


def test_means_over_a_long_time_hide_copies_and_tell_nothing() -> None:
    counters = loop(20_000 * US, 25_000)
    assert not slow_bytes(counters, PLAIN).any()


def test_payload_of_a_training_loop_is_what_was_copied() -> None:
    h2d = direction_of(summary := summary_of("train"), "h2d")
    assert h2d.counter_bytes == pytest.approx(h2d.traced_bytes, rel=2e-3)
    assert h2d.counter_bytes + h2d.slow_bytes > 1.006 * h2d.traced_bytes  # 0.7 % were commands
    assert h2d.rates is not None
    assert h2d.rates.payload_bytes == h2d.counter_bytes
    assert any("less than 0.5 GB/s" in note for note in summary.notes)


def test_commands_are_no_payload_of_a_program_that_is_traced() -> None:
    timeline = read_watch(WATCHES / "train").timeline
    traced = [replace(process, timed_by=GPU_CLOCK) for process in timeline.processes]
    h2d = direction_of(summarise(replace(timeline, processes=tuple(traced))), "h2d")
    assert h2d.counter_bytes == pytest.approx(h2d.traced_bytes, rel=2e-3)
    assert h2d.counter_bytes + h2d.slow_bytes > 1.006 * h2d.traced_bytes


def test_a_loop_of_launches_copies_little() -> None:
    h2d = direction_of(summary_of("launch"), "h2d")
    assert h2d.slow_bytes > 250e6
    assert h2d.counter_bytes < 0.02 * h2d.slow_bytes


def test_what_crossed_quickly_stays_payload() -> None:
    h2d = direction_of(summary_of("loader"), "h2d")
    # CUDA loads libraries of kernels by itself; the calls tell nothing of it
    assert 0 < h2d.counter_bytes - h2d.traced_bytes < 10e6


@pytest.mark.parametrize("name", ["train", "launch", "loader"])
def test_the_samplers_own_records_are_no_traffic_of_a_gpu_that_rests(name: str) -> None:
    resting = [one for one in summary_of(name).directions if one.gpu == 1]
    assert len(resting) == 2
    for one in resting:
        assert one.counter_bytes is not None
        assert one.counter_bytes < 1e6  # with NVLinks sampled they are 13.5 MB/s, 80 to 270 MB


def test_what_is_slow_is_in_no_part_of_what_is_not_explained() -> None:
    # 0.2 GB/s all the time, at 20 GB/s 0.1 to 0.2 s, a copy from 0.5 s, a kernel from 0.6 s
    slow, fast = even_counters(0.2), even_counters(20.0)
    quick = (slow.end_ns > 100 * MS) & (slow.end_ns <= 200 * MS)
    counters = replace(
        slow,
        rx_bytes=np.where(quick, fast.rx_bytes, slow.rx_bytes),
        tx_bytes=np.where(quick, fast.tx_bytes, slow.tx_bytes),
    )
    kernel = Operations.of(
        pid=[7],
        what=[OperationCode.KERNEL],
        start_ns=np.array([600 * MS]),
        end_ns=np.array([900 * MS]),
    )
    copied = copies(1, 2 << 20, start_ns=500 * MS, lasts_ns=MS)
    found = direction_of(summarise(timeline(copied, kernel, counters=(counters,))), "h2d")
    assert found.unattributed_bytes == pytest.approx(2e9, rel=0.01)
    assert found.unexplained is not None
    assert found.unexplained.before_first == pytest.approx(2e9, rel=0.01)
    assert found.unexplained.beside_kernels == pytest.approx(0, abs=1e6)
    parts = found.unexplained.before_first + found.unexplained.beside_kernels
    assert parts <= (found.unattributed_bytes or 0.0)
