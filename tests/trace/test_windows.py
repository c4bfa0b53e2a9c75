from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.trace.windows import RateHistogram, WindowSplitter, WindowSums, add_rates


def sums_of(
    window_ns: int, ends: list[int], down: list[float], known: list[int] | None = None
) -> WindowSums:
    sums = WindowSums(window_ns, 0, (0.0, 0.0))
    lasted = np.diff([0, *ends]) if known is None else np.array(known)
    columns = np.stack((np.array(down), np.zeros(len(down)), lasted), axis=1).astype(float)
    sums.add(0, np.array(ends), columns)
    return sums


def test_records_are_split_in_proportion() -> None:
    # 300 B in 0..150 ns, 50 B in 150..200 ns: 2 B/ns, then 1 B/ns
    down, up = sums_of(100, [150, 200], [300, 50]).statistics()
    assert down.windows == 2
    assert down.peak_gbs == pytest.approx(2.0)
    assert down.p50_gbs == pytest.approx(1.5, rel=1e-3)
    assert up.peak_gbs is None


def test_unknown_time_is_no_pause() -> None:
    down, _ = sums_of(100, [100, 140, 200], [100, 0, 60], [100, 0, 60]).statistics()
    assert (down.windows, down.p50_gbs, down.peak_gbs) == (2, pytest.approx(1), pytest.approx(1))


def test_windows_known_by_less_than_half_do_not_count() -> None:
    down, _ = sums_of(100, [100, 160, 200], [100, 0, 40], [100, 0, 40]).statistics()
    assert down.windows == 1


def test_nothing_known_tells_why() -> None:
    down, _ = sums_of(10_000, [100], [1]).statistics()
    assert (down.busy_share, down.reason) == (None, "not half of any 10 µs is known")


def test_busy_windows_only_enter_quantiles() -> None:
    sums = WindowSums(10, 0, (0.5, 0.5))
    sums.add(0, np.array([80, 100]), np.array([[0, 0, 80], [20, 4, 20]], float))
    down, up = sums.statistics()
    assert (down.windows, down.busy_windows, down.busy_share) == (10, 2, 0.2)
    assert down.p50_gbs == pytest.approx(1.0)
    assert (up.busy_windows, up.p50_gbs) == (0, None)


def test_an_hour_in_one_record_is_counted_at_once() -> None:
    hour = 3_600_000_000_000
    down, _ = sums_of(10_000, [hour], [hour]).statistics()
    assert down.windows == 360_000_000
    assert down.p99_gbs == pytest.approx(1.0)


lengths = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 1000)), min_size=1, max_size=40)


@given(lengths, st.integers(1, 300), st.integers(0, 40))
def test_chunks_give_the_same_as_the_whole(
    records: list[tuple[int, int]], window_ns: int, cut: int
) -> None:
    ends = np.cumsum([r[0] for r in records])
    columns = np.array([[r[1], r[1] / 2, r[0]] for r in records], float)
    whole, parts = (WindowSums(window_ns, 0, (0.0, 0.0)) for _ in range(2))
    whole.add(0, ends, columns)
    parts.add(0, ends[:cut], columns[:cut])
    parts.add(int(ends[:cut][-1]) if ends[:cut].size else 0, ends[cut:], columns[cut:])
    one, two = whole.statistics()[0], parts.statistics()[0]
    assert one.windows == two.windows
    assert one.peak_gbs == pytest.approx(two.peak_gbs)


@given(lengths, st.integers(1, 300))
def test_bytes_of_windows_are_those_of_records(
    records: list[tuple[int, int]], window_ns: int
) -> None:
    ends = np.cumsum([r[0] for r in records])
    seen: list[float] = []
    splitter = WindowSplitter(
        window_ns, 0, lambda _, rows, times: seen.append(float((rows[:, 0] * times).sum()))
    )
    splitter.add(0, ends, np.array([[r[1], 0, r[0]] for r in records], float))
    splitter.close()
    assert sum(seen) == pytest.approx(sum(r[1] for r in records))


@given(st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=200), st.floats(0, 1))
def test_quantiles_are_right_to_a_thousandth(rates: list[float], share: float) -> None:
    histogram, other = RateHistogram(), RateHistogram()
    second = np.full(len(rates), 1e9)
    rows = np.stack((np.array(rates) * 1e9, np.zeros(len(rates)), second), axis=1)
    once = np.ones(len(rates), np.int64)
    assert add_rates((histogram, other), rows, once, 5e8, (1e-9, 1e-9), 0.0) == len(rates)
    exact = np.quantile(rates, share, method="inverted_cdf")
    assert histogram.quantile_gbs(share) == pytest.approx(exact, rel=1e-3)


def test_quantiles_of_nothing_are_missing() -> None:
    assert RateHistogram().quantile_gbs(0.5) is None
    assert RateHistogram().highest_gbs is None
