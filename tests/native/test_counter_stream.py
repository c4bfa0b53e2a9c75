"""Gaps, counters that begin anew, and spools: pure parts of the watching core."""

import errno
import resource
import signal
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native

UNKNOWN = 0xFFFFFFFF
WRAP = 1 << 32


def stream_of(samples, interval=100, drops_first=False):
    stream = native.testing.CounterStream(interval, drops_first)
    for start, end in samples:
        stream.add(start, end, 10.0, 1.0)
    return stream


def test_samples_side_by_side_leave_no_gap():
    stream = stream_of([(1000, 1100), (1100, 1200), (1200, 1300)])
    assert stream.take() == [
        (1000, UNKNOWN, UNKNOWN),
        (1100, 10, 1),
        (1200, 10, 1),
        (1300, 10, 1),
    ]
    assert stream.counts() == (3, 0, 0, 0)
    assert stream.take() == []


def test_a_gap_is_written_as_unknown_and_counted_in_intervals():
    stream = stream_of([(1000, 1100), (1400, 1500)])
    assert stream.take()[2:] == [(1400, UNKNOWN, UNKNOWN), (1500, 10, 1)]
    assert stream.counts() == (2, 3, 1, 0)


@pytest.mark.parametrize(
    ("interval", "shift"), [(100, -74), (100, -3), (100, 3), (100, 120), (10_000, 4999)]
)
def test_a_corrected_clock_is_no_gap(interval, shift):
    stream = stream_of([(0, interval), (interval + shift, 2 * interval + shift)], interval)
    assert [end for end, *_ in stream.take()] == [0, interval, 2 * interval + shift]
    assert stream.counts() == (2, 0, 0, 0)


#: By how many ns an H200's samples of 2 µs lay apart each 4 s (benchmarks/results/h200-x1/watch).
CORRECTIONS = (-96, 129, 924, 1888, 1356, 900, 679, 710, 496, 442, 399, 322, 388, 278, 347, 147)


def test_no_sample_of_two_microseconds_is_lost_where_clocks_are_corrected():
    begin, samples = 10_000, []
    for shift in CORRECTIONS:
        samples += [
            (begin + shift, begin + shift + 2000),
            (begin + shift + 2000, begin + 4000 + shift),
        ]
        begin += 4000 + shift
    assert stream_of(samples, 2000).counts() == (2 * len(CORRECTIONS), 0, 0, 0)


@pytest.mark.parametrize(("interval", "gap"), [(2000, 4000), (4000, 4000), (100_000, 50_001)])
def test_what_no_clock_is_corrected_by_is_lost(interval, gap):
    stream = stream_of([(0, interval), (interval + gap, 2 * interval + gap)], interval)
    assert stream.counts() == (2, max(gap // interval, 1), 1, 0)


@pytest.mark.parametrize("unknown", [-1.0, -0.3, float("nan")])
@pytest.mark.parametrize("known", [10.0, 5e9])
def test_bytes_that_nobody_knows_stay_unknown_in_each_record(unknown, known):
    stream = native.testing.CounterStream(100, False)
    stream.add(1000, 1100, unknown, known)
    _, *records = stream.take()
    assert {rx for _, rx, _ in records} == {UNKNOWN}
    assert sum(tx for *_, tx in records) == known


def test_the_first_sample_is_dropped_after_each_start():
    stream = stream_of([(0, 1000), (1000, 1100)], drops_first=True)
    stream.begin_again()
    stream.add(500, 2000, 10.0, 1.0)
    stream.add(2000, 2100, 10.0, 1.0)
    assert [end for end, *_ in stream.take()] == [1000, 1100, 2000, 2100]
    assert stream.counts() == (2, 9, 1, 0)


def test_samples_that_go_backwards_are_dropped():
    stream = stream_of([(1000, 1100), (900, 1000), (1100, 1200)])
    assert [end for end, *_ in stream.take()] == [1000, 1100, 1200]
    assert stream.counts() == (2, 0, 0, 1)


def test_bytes_that_are_no_numbers_are_unknown():
    stream = native.testing.CounterStream(100, False)
    stream.add(0, 100, float("nan"), -1.0)
    stream.add(100, 200, 1e9, 0.6)
    assert stream.take()[1:] == [(100, UNKNOWN, UNKNOWN), (200, 1_000_000_000, 1)]
    assert stream.counts() == (1, 1, 1, 0)


def test_more_bytes_than_a_record_holds_become_several_records():
    stream = native.testing.CounterStream(10, False)
    stream.add(0, 10, 1e10 + 1, 7.0)
    _, *records = stream.take()
    assert [end for end, *_ in records] == [3, 6, 10]
    assert sum(rx for _, rx, _ in records) == 10_000_000_001
    assert sum(tx for *_, tx in records) == 7
    assert stream.counts() == (1, 0, 0, 0)
    stream.add(10, 20, 1e30, float("nan"))  # no count at all: bounded, and the rest is unknown
    records = stream.take()
    assert len(records) == 1024
    assert {tx for *_, tx in records} == {UNKNOWN}


def test_a_counter_that_is_set_back_is_unknown_and_no_huge_number():
    counter = native.testing.GrowingCounter()
    values = [(1 << 63) + 5, (1 << 63) + 5, (1 << 63) + 9, 3, 10]
    assert [counter.advance(value) for value in values] == [None, 0, 4, None, 7]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60e9 // 1000)), min_size=1, max_size=40),
    st.integers(0, 1 << 40),
)
def test_unwrapping_finds_every_byte(steps, begin):
    """Steps of 1 to 50 ms, at up to 60 GB/s."""
    counter = native.testing.WrappingCounter(64e9)
    assert counter.advance(begin % WRAP, 0) is None
    value = begin
    for ms, per_ms in steps:
        value += ms * per_ms
        assert counter.advance(value % WRAP, ms * 1_000_000) == ms * per_ms


def test_a_read_that_comes_too_late_tells_nothing():
    counter = native.testing.WrappingCounter(64e9)
    counter.advance(5, 0)
    assert counter.advance(6, 68_000_000) is None  # 4.35e9 bytes may have passed
    assert counter.advance(8, 1_000_000) == 2


def test_a_spool_is_its_header_and_records(tmp_path):
    path = tmp_path / "x.bin"
    spool = native.testing.SpoolFile(str(path), "{}\n")
    assert spool.write([(1 << 40, 2, 3), (5, 6, 7)])
    assert path.read_bytes() == b"{}\n" + struct.pack("<QIIQII", 1 << 40, 2, 3, 5, 6, 7)
    assert spool.failure() is None


def test_no_spool_is_written_over(tmp_path):
    path = tmp_path / "x.bin"
    path.write_text("precious")
    with pytest.raises(native.NativeError) as failed:
        native.testing.SpoolFile(str(path), "{}\n")
    assert failed.value.args[1] == errno.EEXIST
    assert path.read_text() == "precious"


def test_a_spool_beyond_the_limit_keeps_what_was_written(tmp_path):
    path = tmp_path / "x.bin"
    spool = native.testing.SpoolFile(str(path), "{}\n")
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        assert not spool.write([(i, 1, 2) for i in range(100)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "x.bin" in spool.failure()
    assert not spool.write([(200, 1, 2)])
    content = path.read_bytes()
    assert len(content) == 1024
    ends = np.frombuffer(content, "<u8", count=(1024 - 3) // 16 * 2, offset=3)[::2]
    assert ends.tolist() == list(range(len(ends)))
