import dataclasses

import numpy as np
import pytest

from lanescope.report.perfetto_tracks import counter_track, lanes, unknown_spans
from tests.trace.timelines import US, even_counters


def counters(rx, known=None):
    rx = np.array([0, *rx])
    told = even_counters(0.0, seconds=(len(rx) - 1) / 100_000)
    known = np.array([False, *(known or [True] * (len(rx) - 1))])
    return dataclasses.replace(told, rx_bytes=rx, known=known)


def test_each_record_is_a_point_where_they_are_few():
    one = counters([100_000, 200_000])
    track = counter_track(one, one.rx_bytes)
    assert (track.peak, track.records) == (None, 1)
    assert track.mean.gbs[-3:].tolist() == [10.0, 20.0, 0.0]
    assert track.mean.at_ns[-3:].tolist() == [0, 10 * US, 20 * US]


def test_points_that_repeat_their_rate_are_left_out():
    one = counters([5_000] * 1000)
    assert len(counter_track(one, one.rx_bytes).mean.gbs) <= 3


def test_of_many_records_the_mean_keeps_the_bytes_and_the_peak_the_fastest():
    rng = np.random.default_rng(1)
    one = counters(rng.integers(0, 500_000, 999).tolist())
    track = counter_track(one, one.rx_bytes, 100)
    assert track.records == 10
    assert len(track.mean.gbs) <= 101
    seconds = np.diff(track.mean.at_ns) * 1e-9
    assert (track.mean.gbs[:-1] * seconds).sum() * 1e9 == pytest.approx(one.rx_bytes.sum())
    assert track.peak.gbs.max() == pytest.approx(one.rx_bytes.max() / 10_000)


def test_unknown_time_is_told_apart():
    one = counters([1, 2, 3, 4, 5], [True, False, False, True, False])
    assert unknown_spans(one) == [(10 * US, 30 * US), (40 * US, 50 * US)]
    assert counter_track(one, one.rx_bytes).mean.gbs.min() == 0.0


def test_no_records_are_no_points():
    none = dataclasses.replace(
        counters([]),
        **{key: np.empty(0, np.int64) for key in ("end_ns", "rx_bytes", "tx_bytes")},
        known=np.empty(0, bool),
    )
    assert len(counter_track(none, none.rx_bytes).mean.gbs) == 0
    assert unknown_spans(none) == []


def test_rows_of_a_lane_do_not_overlap():
    rng = np.random.default_rng(2)
    start = np.sort(rng.integers(0, 1000, 300))
    end = start + rng.integers(0, 40, 300)
    lane = lanes(start, end)
    for number in range(lane.max() + 1):
        mine = lane == number
        assert np.all(start[mine][1:] >= end[mine][:-1])
    assert lanes(np.array([0, 5, 9]), np.array([5, 9, 9])).tolist() == [0, 0, 0]
    assert lanes(np.empty(0, np.int64), np.empty(0, np.int64)).size == 0
