from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.trace import rectangles
from lanescope.trace.rates import (
    RateMeter,
    Unexplained,
    UnexplainedMeter,
    counter_rates,
    operation_rates,
    unexplained,
)
from lanescope.trace.rectangles import KnownMeter, bytes_in_known
from lanescope.trace.timeline import Counters, Operations
from lanescope.trace.wire import WireModel

PLAIN = WireModel(((1.0, 0.0), (0.0, 1.0)))
MS = 1_000_000


def counters(rx: list[int], known: list[bool] | None = None, interval_ns: int = MS) -> Counters:
    ends = np.arange(len(rx)) * interval_ns
    told = np.array([False] + [True] * (len(rx) - 1) if known is None else known)
    values = np.array(rx)
    return Counters("pm", 0, interval_ns, ends, values, np.zeros_like(values), told)


def copies(*rows: tuple[int, int, int]) -> Operations:
    start, end, size = zip(*rows, strict=True)
    n = len(rows)
    return Operations.of(
        start_ns=start,
        end_ns=end,
        bytes=size,
        source_kind=[2] * n,
        destination_kind=[3] * n,
        destination_device=[0] * n,
    )


def test_totals_and_means_leave_unknown_time_out() -> None:
    down, up = counter_rates(counters([0, MS, 9, 3 * MS], [False, True, False, True]), PLAIN,
                             (0, 4 * MS))  # fmt: skip
    assert down.payload_bytes == pytest.approx(4 * MS)
    assert down.known_share == pytest.approx(0.5)
    assert down.mean_gbs == pytest.approx(2.0)
    assert up.payload_bytes == 0.0


def test_windows_shorter_than_samples_say_why() -> None:
    down, _ = counter_rates(counters([0, MS]), PLAIN, (0, MS))
    assert [w.reason for w in down.windows] == [
        "sampled every 1 ms",
        None,
        "not half of any 1 s is known",
    ]


def test_nothing_known_is_missing_and_not_zero() -> None:
    down, _ = counter_rates(counters([0, 1], [False, False]), PLAIN, (0, MS))
    assert (down.payload_bytes, down.mean_gbs, down.busy_share) == (None, None, None)


def test_busy_share_is_of_windows_above_a_hundredth_of_the_limit() -> None:
    down, _ = counter_rates(counters([0, MS, MS // 10, 0]), PLAIN, (0, 3 * MS), (50.0, 50.0))
    assert (down.busy_gbs, down.busy_share) == (0.5, pytest.approx(1 / 3))


def test_a_trace_alone_gives_the_same_statistics() -> None:
    down, _ = operation_rates(copies((MS, 3 * MS, 40 * MS)), 0, (0, 4 * MS))
    assert down.payload_bytes == pytest.approx(40 * MS)
    assert down.mean_gbs == pytest.approx(10.0)
    assert down.busy_share == pytest.approx(0.5)
    assert [w.p50_gbs for w in down.windows[:2]] == [pytest.approx(20, rel=1e-3)] * 2


def test_copies_of_other_gpus_do_not_count() -> None:
    assert operation_rates(copies((0, MS, 5)), 1, (0, MS))[0].payload_bytes == 0.0


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**9)),
                max_size=20))  # fmt: skip
def test_copies_that_overlap_keep_their_bytes(rows: list[tuple[int, int, int]]) -> None:
    found = copies(*((a, a + n, size) for a, n, size in rows)) if rows else Operations.empty()
    down, _ = operation_rates(found, 0, (0, 2 * 10**6))
    assert down.payload_bytes == pytest.approx(sum(r[2] for r in rows), rel=1e-6, abs=1e-3)


def test_a_meter_takes_counters_in_chunks() -> None:
    whole = counters([0, 5, 7, 11])
    meter = RateMeter((0, 3 * MS), MS)
    for part in (slice(0, 2), slice(2, 4)):
        meter.add_counters(
            Counters("pm", 0, MS, *(getattr(whole, k)[part]
                     for k in ("end_ns", "rx_bytes", "tx_bytes", "known"))),
            PLAIN,
        )  # fmt: skip
    assert meter.rates()[0].payload_bytes == pytest.approx(23)


def test_a_trace_hides_no_small_traffic_the_other_direction() -> None:
    down = copies((0, MS, 10**9))
    up = Operations.of(
        start_ns=[0], end_ns=[MS], bytes=[1000], source_kind=[3], destination_kind=[2],
        source_device=[0],
    )  # fmt: skip
    rates = operation_rates(Operations.concat([down, up]), 0, (0, MS))
    assert rates[1].payload_bytes == pytest.approx(1000)


def test_what_is_unexplained_is_found_while_rates_are() -> None:
    seen = counters([0, 700, 300, 0, 400], None)
    found = copies((MS, 2 * MS, 100), (3 * MS, 4 * MS, 400))
    meter = UnexplainedMeter(seen, found)
    counter_rates(seen, PLAIN, (0, 4 * MS), operations=found, others=(meter,))
    assert meter.found() == unexplained(seen, PLAIN, found)
    down, up = meter.found() or (None, None)
    assert (down, up) == (Unexplained(pytest.approx(700), 0.0), Unexplained(0.0, 0.0))


def test_bytes_of_copies_are_those_in_known_time(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownMeter(counters([0] * 11, [False] + [True] * 4 + [False] * 6)).found()
    found = copies((0, 10 * MS, 1000), (6 * MS, 7 * MS, 50))
    assert bytes_in_known(found, known) == pytest.approx(400)
    monkeypatch.setattr("lanescope.trace.rectangles._CHUNK", 1)
    assert bytes_in_known(found, known) == pytest.approx(400)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=1), st.integers(1, 7))
def test_known_time_is_the_same_of_records_in_parts(
    records: list[tuple[bool, int]], size: int
) -> None:
    known = np.array([False, *(one for one, _ in records)])
    ends = 5 + np.cumsum([0, *(lasted for _, lasted in records)])
    nothing = np.zeros(ends.size, np.int64)
    seen = Counters("pm", 0, 1, ends, nothing, nothing, known)
    whole, parts = KnownMeter(seen).found(), KnownMeter(seen)
    for begin in range(0, ends.size * 2 // 3, size):
        parts.add(ends[begin : begin + size])
    at = np.arange(5, ends[-1] + 1)
    lasted = np.diff(ends, prepend=ends[:1])
    assert np.all(np.diff(whole.edges_ns) >= 0)
    for time in (whole, parts.found()):
        assert time.edges_ns[[0, -1]].tolist() == ends[[0, -1]].tolist()
        assert time.total(at, at.astype(float)) == lasted[known].sum()


@pytest.mark.parametrize("long", [0, 3])
def test_work_does_not_grow_with_what_goes_on_all_the_time(
    long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0
    spread = rectangles._spread

    def counted(direction: Operations, times: np.ndarray) -> np.ndarray:
        nonlocal looked_at
        looked_at += len(direction)
        return spread(direction, times)

    monkeypatch.setattr(rectangles, "_CHUNK", 10)
    monkeypatch.setattr(rectangles, "_spread", counted)
    count = 1000
    rows = [(0, count * 100, 600)] * long
    rows += [(at * 100, at * 100 + 50, 600) for at in range(count)]
    found = copies(*rows)
    (total, _) = operation_rates(found, 0, (0, count * 100))
    assert total.payload_bytes == pytest.approx(600 * len(rows))
    assert looked_at <= 2 * count + (long + 1) * count / 10 + 10


@pytest.mark.parametrize("chunk", [2, 1000])
def test_bytes_between_times_are_taken_some_at_a_time(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rectangles, "_CHUNK", chunk)
    found = copies((70, 90, 200), (0, 40, 400), (10, 20, 100), (45, 46, 7), (10, 85, 75))
    edges = np.arange(5, 100, 5)
    times, columns = rectangles.rectangles([found], (0, 100))
    whole = np.diff(np.interp(edges, times, np.cumsum(columns[:, 0])))
    moved = rectangles.MovedBetween(found.where(lambda o: o.moves, "bytes"), (5, 95))
    parts = [moved.take(edges[at : at + 4]) for at in range(0, edges.size - 1, 3)]
    assert np.concatenate(parts) == pytest.approx(whole)
    nothing = rectangles.MovedBetween(Operations.empty(), (5, 95))
    assert not nothing.take(edges).any()
