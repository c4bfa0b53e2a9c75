from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.trace.timeline import Counters, Operations
from lanescope.trace.wire_fit import Aligner

US = 1000


def pair(
    offset_ns: int, copies: int = 20, every_ns: int = 1_000_003
) -> tuple[Counters, Operations]:
    """Copies of 80 µs at 50 B/ns, counted every 10 µs by a clock that is late by an offset."""
    start = 500_000 + np.arange(copies) * every_ns
    end = start + 80 * US
    edges = np.arange(0, copies * every_ns + 1_000_000, 10 * US)
    times = np.sort(np.concatenate((start, end))) + offset_ns
    moved = np.cumsum(np.tile([0, 80 * US * 50], copies))
    wire = np.diff(np.interp(edges, times, moved), prepend=0.0).astype(np.int64)
    counters = Counters(
        "pm", 0, 10 * US, edges, wire, np.zeros_like(wire), np.arange(edges.size) > 0
    )
    operations = Operations.of(
        start_ns=start,
        end_ns=end,
        bytes=np.full(copies, 80 * US * 50),
        source_kind=np.full(copies, 2),
        destination_kind=np.full(copies, 3),
        destination_device=np.zeros(copies),
    )
    return counters, operations


@given(st.integers(1, 700), st.integers(1, 500))
def test_records_that_come_in_parts_tell_what_all_do(size: int, held: int) -> None:
    counters, operations = pair(300)
    aligner = Aligner(counters, operations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lanescope.trace.wire_fit._HELD", held)
        for begin in range(0, len(counters) // 2, size):
            end_ns = counters.end_ns[begin : begin + size]
            aligner.add(end_ns, np.empty((end_ns.size, 3)))
        found = aligner.found()
    assert found is not None
    assert found == Aligner(counters, operations).found()


@given(st.integers(-40 * US, 40 * US))
def test_the_offset_of_a_clock_is_found(offset_ns: int) -> None:
    found = Aligner(*pair(offset_ns)).found()
    assert found is not None
    assert found.offset_ns == pytest.approx(-offset_ns, abs=300)  # 3 % of a sample
    assert found.residual_p99_ns <= 400


def test_few_copies_tell_nothing() -> None:
    assert Aligner(*pair(0, copies=9)).found() is None
    assert Aligner(pair(0)[0], Operations.empty()).found() is None


def test_copies_close_together_are_left_out() -> None:
    assert Aligner(*pair(0, every_ns=120 * US)).found() is None


def test_bursts_in_other_traffic_have_no_edges() -> None:
    counters, operations = pair(0)
    steady = Counters(
        "pm", 0, 10 * US, counters.end_ns, np.full(len(counters), 300_000), counters.tx_bytes,
        counters.known,
    )  # fmt: skip
    assert Aligner(steady, operations).found() is None
