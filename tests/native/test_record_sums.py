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


@given(steps, st.integers(0, 1))
def test_what_was_moved_is_taken_off_the_payload(lasted, direction):
    random = np.random.default_rng(len(lasted))
    rows = random.normal(0, 1e6, (len(lasted), 3))
    rows[:, 2] = lasted
    moved = np.cumsum(random.random(len(lasted) + 1) * 1e6)
    rest = np.where(rows[:, 2] > 0, rows[:, direction] - np.diff(moved), 0.0)
    expected = np.cumsum(np.append(0.0, rest))
    assert np.array_equal(native.sum_rests(rows, direction, moved), expected)


def bins_of(start, ends, rx, tx, known, each):
    """Bins record by record: ends, bytes, peaks and whether known, as `native.bin_records`."""
    found, before = [], None
    for begin, end, *moved, is_known in zip([start, *ends[:-1]], ends, rx, tx, known, strict=True):
        is_known &= end > begin
        if is_known != before or len(found[-1]) == each:
            found.append([])
        before = is_known
        rates = [int(one / (max(end - begin, 1) * 1e-9)) for one in moved]
        found[-1].append([end, *moved, *rates, 1] if is_known else [end, 0, 0, 0, 0, 0])
    return [
        [one[-1][0], *np.sum(one, axis=0)[1:3], *np.max(one, axis=0)[3:]]
        for one in map(np.array, found)
    ]


@given(steps, st.integers(1, 7), st.integers(0, 30))
def test_bins_are_those_of_single_records(lasted, each, cut):
    random = np.random.default_rng(len(lasted))
    ends = growing(lasted, 5)
    rx, tx = random.integers(0, 1 << 32, (2, ends.size))
    known = random.random(ends.size) < 0.8
    expected = np.array(bins_of(5, *(one.tolist() for one in (ends, rx, tx, known)), each))
    whole, *run = native.bin_records(5, ends, rx, tx, known, each, False, 0)
    assert whole.tolist() == expected.tolist()
    first = native.bin_records(5, *(one[:cut] for one in (ends, rx, tx, known)), each, False, 0)
    begin = int(ends[cut - 1]) if 0 < cut <= ends.size else 5 if not cut else int(ends[-1])
    more = native.bin_records(
        begin, *(one[cut:] for one in (ends, rx, tx, known)), each, *first[1:]
    )
    assert list(more[1:]) == run
    assert sum(int(one[0][:, 1:3].sum()) for one in (first, more)) == whole[:, 1:3].sum()


def burst_of(ends, wire, start_ns, end_ns, guard_ns):
    """The edges of a copy's burst less those of the copy, by numpy; None of no burst."""
    first = int(np.searchsorted(ends, start_ns - guard_ns, "right"))
    last = min(int(np.searchsorted(ends, end_ns + guard_ns)) + 1, ends.size)
    wire, stop = wire[first:last].astype(float), ends[first:last]
    if wire.size < 5:
        return None
    begin = np.concatenate((ends[max(first - 1, 0) : max(first, 1)], stop[:-1]))
    lasted = (stop - begin).astype(float)
    part = np.flatnonzero(wire > 0.03 * wire.max())
    if part.size < 5 or part[0] == 0 or part[-1] == wire.size - 1:
        return None
    full = np.median(wire[part[1:-1]] / lasted[part[1:-1]])
    edges = part[[0, -1]]
    filled = np.minimum(wire[edges] / (full * lasted[edges]), 1.0) * lasted[edges]
    outer = (begin[edges] - start_ns).astype(float)
    burst = outer[0] + (lasted[edges[0]] - filled[0]), outer[1] + filled[1]
    return [burst[0], burst[1] - float(end_ns - start_ns)]


@given(st.integers(0, 10**6), st.booleans())
def test_edges_of_bursts_are_those_of_numpy_to_the_last_bit(seed, received):
    random = np.random.default_rng(seed)
    ends = growing(random.integers(5, 15, 900).tolist())
    starts = np.arange(5) * 1500 + random.integers(200, 600, 5)
    stops = starts + random.integers(20, 200, 5)
    times = np.stack((starts, stops), axis=1).ravel()
    moved = np.cumsum(np.stack((np.zeros(5), (stops - starts) * 50), axis=1))
    wire = np.diff(np.interp(ends, times, moved), prepend=0).astype(np.int64)
    wire += random.integers(0, 9, wire.size)
    known = random.random(wire.size) > 0.002
    columns = (wire, np.zeros_like(wire)) if received else (np.zeros_like(wire), wire)
    directions = np.full(5, received)
    copies, edges = native.burst_edges(
        ends, *columns, known, starts, stops, directions, 60, 5, 0.03
    )
    expected = {}
    for copy, (begin, end) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        first = np.searchsorted(ends, begin - 60, "right")
        last = np.searchsorted(ends, end + 60) + 1
        found = burst_of(ends, wire, begin, end, 60) if known[first:last].all() else None
        expected |= {} if found is None else {copy: found}
    assert copies.tolist() == list(expected)
    assert edges.tolist() == list(expected.values())


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
    assert native.sum_rests(np.empty((0, 3)), 1, np.ones(1)).tolist() == [0]
    bins, *run = native.bin_records(5, nothing, nothing, nothing, none, 3, True, 2)
    assert (bins.shape, run) == ((0, 6), [True, 2])
    copies, edges = native.burst_edges(*[nothing] * 3, none, *[nothing] * 2, none, 5, 5, 0.03)
    assert (copies.size, edges.shape) == (0, (0, 2))


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
    with refused:
        native.sum_rests(np.zeros((2, 3)), 0, np.zeros(2))
    with pytest.raises(ValueError, match="directions 0 and 1"):
        native.sum_rests(np.zeros((2, 3)), 2, np.zeros(3))
    with refused:
        native.bin_records(0, three, three, two, known, 5, False, 0)
    with pytest.raises(ValueError, match="one record at least"):
        native.bin_records(0, three, three, three, known, 0, False, 0)
    with refused:
        native.burst_edges(three, three, three, known, two, three, known, 5, 5, 0.03)
    with pytest.raises(ValueError, match="no point"):
        native.interpolate(two, two[:0], np.zeros(0))
