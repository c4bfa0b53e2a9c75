"""Sums over records of counters, against what numpy makes of them."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native
from lanescope.trace.codes import LATEST_NS
from lanescope.trace.counter_spool import RECORD
from lanescope.trace.windows import RateHistogram, add_rates
from lanescope.trace.wire import WireModel, settle
from tests.native.programs import program

steps = st.lists(st.integers(0, 40), min_size=1, max_size=30)
UNKNOWN = 0xFFFFFFFF


def growing(found: list[int], begin: int = 0) -> np.ndarray:
    return begin + np.cumsum(found, dtype=np.int64)


@pytest.mark.native
def test_what_single_records_give():
    done = subprocess.run([program("record_sums"), "5000"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "5000 rounds\n"), done.stdout + done.stderr


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), steps, st.integers(-50, 50))
def test_lines_are_those_of_numpy_to_the_last_bit(times, at, begin):
    times, at = growing(times), growing(at, begin)
    values = np.random.default_rng(times.size).random(times.size)
    expected = np.interp(at.astype(float), times.astype(float), values)
    assert np.array_equal(native.interpolate(at, times, values), expected)


@given(steps, steps, st.booleans())
def test_counted_between_times(lasted, gaps, has_own):
    ends, edges = growing(lasted), growing(gaps, 3)
    random = np.random.default_rng(ends.size)
    rx, tx = random.integers(0, 10**9, (2, ends.size))
    known, own = random.random((2, ends.size)) < 0.7
    passed = np.diff(ends, prepend=ends[:1])
    known &= passed > 0
    mine = np.where(own, passed, 0) if has_own else passed
    columns = [np.where(known, one, 0) for one in (rx, tx, passed, mine, 1)]
    sums = [np.cumsum(one, dtype=float) - one[0] for one in columns]
    expected = np.diff([native.interpolate(edges, ends, one) for one in sums])
    found = native.count_between(ends, rx, tx, known, own if has_own else None, edges)
    assert np.array_equal(found, expected)


def test_payload_is_what_the_model_says():
    model = ((1.05, 0.0), (0.06, 1.06), (1.0, 92.0), (3e6, 4e6), (10.0, 20.0), (167.0, 68.0))
    ends = np.array([10, 1010, 3010, 3010, 4010])
    rx, tx = np.array([0, 10**6, 2000, 5, 7]), np.array([0, 10**5, 3000, 5, 7])
    known = np.array([True, True, True, True, False])
    own = np.array([True, True, False, True, True])
    copies = np.array([0, 2, 0, 0, 1])
    found = native.payload_of(ends, rx, tx, known, own, 10, copies, model)
    assert found[:, 2].tolist() == [0, 1000, 2000, 0, 0]
    back = found[:, :2] @ np.array(model[:2]).T
    first = 10**6 - 1 - 3e6 * 1e-6 - 10e-6 - 2 * 167, 10**5 - 92 - 4e6 * 1e-6 - 20e-6 - 2 * 68
    second = 2000 - 1 - 20e-6, 3000 - 92 - 40e-6
    assert back[1:3] == pytest.approx(np.array((first, second)))
    assert not back[[0, 3, 4]].any()


def test_native_payload_is_that_of_the_model_in_python():
    random, records = np.random.default_rng(0), 500
    matrix, sample, second = ((1.05, 0.02), (0.06, 1.06)), (1.0, 92.0), (3e6, 4e6)
    model = WireModel(matrix, sample, second, (167.0, 68.0), others_per_second=(10.0, 20.0))
    ends = growing(random.integers(1, 10**6, records).tolist())
    rx, tx = random.integers(0, 10**6, (2, records))
    copies, own = random.integers(0, 3, records), random.random(records) < 0.7
    known = np.ones(records, np.bool_)
    rows = (*matrix, sample, second, model.others_per_second, model.per_operation)
    found = native.payload_of(ends, rx, tx, known, own, 0, copies, rows)
    seconds = np.diff(ends, prepend=0) * 1e-9
    observed = model.observed(seconds, 1.0, np.where(own, seconds, 0.0))
    net = [
        wire - one - each * copies
        for wire, one, each in zip((rx, tx), observed, model.per_operation, strict=True)
    ]
    np.testing.assert_allclose(found[:, :2].T, model.solve(*net), rtol=1e-9)


def test_native_rates_are_settled_as_in_python():
    random = np.random.default_rng(0)
    rows = random.normal(0, 1e6, (500, 3)) ** 3 / 1e9
    rows[:, 2] = random.integers(1, 1000, 500)
    times, both = random.integers(1, 9, 500), (RateHistogram(), RateHistogram())
    known = add_rates(both, rows, times, 300.0, (1e-3, 1e-3), 0.05)
    counts = rows[:, 2] >= 300
    assert known == times[counts].sum()
    payload = settle(rows[:, 0], rows[:, 1], 0.05)
    for histogram, one in zip(both, payload, strict=True):
        busy = counts & (one / rows[:, 2] >= 1e-3)
        assert 0 < histogram.count == times[busy].sum()


def test_spooled_records_are_taken_apart():
    own = 1 << 63
    spooled = [
        (5, 7, 9),
        (6 | own, UNKNOWN, 3),
        (7, 3, UNKNOWN),
        ((1 << 63) - 1, 1, 1),
    ]
    pairs = np.array(spooled, RECORD).view(np.uint64).reshape(-1, 2)
    both = [column.tolist() for column in native.take_apart(pairs, True, True, LATEST_NS)]
    assert both[0] == [5, 6, 7, 0]
    assert both[1:3] == [[7, 0, 0, 1], [9, 0, 0, 1]]
    assert both[3:] == [[True, False, False, True], [False, True, False, False]]
    end, rx, tx, known, _ = native.take_apart(pairs[:3], True, False, LATEST_NS)
    assert (rx.tolist(), tx.tolist(), known.tolist()) == ([7, 0, 3], [9, 0, 0], [True, False, True])
    assert end.dtype == np.int64


def test_nothing_is_cut_in_no_records():
    nothing, none = np.empty(0, np.int64), np.empty(0, np.bool_)
    assert native.count_between(nothing, nothing, nothing, none, None, nothing).shape == (5, 0)
    assert (
        native.payload_of(nothing, nothing, nothing, none, None, 0, None, ((1, 0),) * 6).size == 0
    )
    first, windows, shares = native.split_into_windows(5, nothing, np.empty((0, 3)), 10, 0)
    assert (first.tolist(), windows.tolist(), shares.tolist()) == ([0], [1], [[0, 0, 0]])


def test_columns_of_different_lengths_are_refused():
    two, three, known = np.arange(2), np.arange(3), np.ones(3, np.bool_)
    refused = pytest.raises(ValueError, match="differ in length")
    with refused:
        native.interpolate(two, two, np.zeros(3))
    with refused:
        native.count_between(three, two, three, known, None, two)
    with refused:
        native.payload_of(three, three, three, known, known[:2], 0, None, ((1, 0),) * 6)
    with refused:
        native.split_into_windows(0, two, np.zeros((3, 3)), 10, 0)
    with pytest.raises(ValueError, match="1 ns at least"):
        native.split_into_windows(0, two, np.zeros((2, 3)), 0, 0)
    with pytest.raises(ValueError, match="no point"):
        native.interpolate(two, two[:0], np.zeros(0))
