from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.trace.probe import (
    Probe,
    Sign,
    episodes,
    probe_notes,
    probed_directions,
    undisturbed,
)
from tests.trace.probes import CHUNK, COPY_NS, DELAY_NS, probe_of, quiet

MS = 1_000_000
EMPTY = Probe.of(chunk_bytes=CHUNK, begin_ns=[], delay_ns=[], copy_ns=[], direction=[])


def test_undisturbed_is_what_the_fastest_take() -> None:
    copy, delay = quiet(100)
    copy[30:] *= 7  # most of the time somebody copies
    found = undisturbed(probe_of(copy, delay).one_direction(0))
    assert (found.copy_ns, found.delay_ns) == (COPY_NS, DELAY_NS)


def test_a_planted_transfer_is_found_where_it_is() -> None:
    copy, delay = quiet(1000)
    copy[400:420] *= 5
    probe = probe_of(copy, delay)
    (found,) = episodes(probe, 0)
    assert (found.sign, found.direction, found.records) == (Sign.LINK, "h2d", 20)
    assert found.slowdown == pytest.approx(5)
    down = probe.one_direction(0)
    assert (found.start_ns, found.end_ns) == (down.begin_ns[400], down.end_ns[419])
    assert [e.direction for e in episodes(probe, 1)] == ["d2h"]


def test_a_kernel_that_raises_the_delay_is_found() -> None:
    copy, delay = quiet(1000)
    delay[100:200] = 2_200_000  # as in the thesis
    (found,) = episodes(probe_of(copy, delay), 0)
    assert (found.sign, found.records) == (Sign.DELAY, 100)
    assert found.slowdown == pytest.approx(440)


def test_one_copy_that_waits_for_a_whole_transfer_is_an_episode() -> None:
    copy, delay = quiet(1000)
    copy[500] = 60 * MS
    (found,) = episodes(probe_of(copy, delay), 0)
    assert found.records == 1
    assert found.end_ns - found.start_ns >= 60 * MS


@pytest.mark.parametrize("slow", [[5], [5, 6, 7], [5, 50, 500], [5, 8, 11, 14, 17]])
def test_a_few_slow_copies_are_none(slow: list[int]) -> None:
    copy, delay = quiet(1000)
    copy[slow] *= 10
    delay[slow] *= 10
    assert episodes(probe_of(copy, delay), 0) == ()


def test_a_fast_copy_between_slow_ones_does_not_cut_an_episode() -> None:
    copy, delay = quiet(1000)
    copy[100:140:2] *= 10
    (found,) = episodes(probe_of(copy, delay), 0)
    assert found.records == 20


@given(
    st.integers(0, 2**32 - 1),
    st.integers(200, 2000),
    st.floats(0, 0.25),
    st.booleans(),
)
def test_jitter_and_lone_interruptions_are_no_episode(
    seed: int, rounds: int, jitter: float, gentle: bool
) -> None:
    random = np.random.default_rng(seed)
    copy, delay = quiet(rounds)
    for times in (copy, delay):
        times[:] = times * random.uniform(1 - jitter, 1 + jitter, rounds)
        lone = np.arange(random.integers(1, 9), rounds, 9)
        times[lone] += random.integers(0, MS // 2, lone.size)
    probe = probe_of(copy, delay, period_ns=10 * MS if gentle else 0)
    assert episodes(probe, 0) == ()
    assert episodes(probe, 1) == ()


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 900),
    st.integers(4, 100),
    st.floats(2.5, 500),
    st.booleans(),
)
def test_what_is_planted_in_jitter_is_found_and_nothing_else(
    seed: int, first: int, length: int, factor: float, delayed: bool
) -> None:
    random = np.random.default_rng(seed)
    copy, delay = quiet(1000)
    last = min(first + length, 1000)
    first = min(first, last - 4)
    (delay if delayed else copy)[first:last] = (DELAY_NS if delayed else COPY_NS) * factor * 2
    copy = (copy * random.uniform(0.95, 1.05, 1000)).astype(np.int64)
    delay = (delay * random.uniform(0.95, 1.05, 1000)).astype(np.int64)
    probe = probe_of(copy, delay)
    (found,) = episodes(probe, 0)
    assert found.sign is (Sign.DELAY if delayed else Sign.LINK)
    assert found.records == last - first
    assert found.start_ns == probe.one_direction(0).begin_ns[first]
    assert found.slowdown == pytest.approx(factor * 2, rel=0.15)


def test_rare_copies_weigh_the_same() -> None:
    copy, delay = quiet(100)
    copy[:50] = 100 * COPY_NS
    (down, _) = probed_directions((probe_of(copy, delay, period_ns=10 * MS),))
    assert down.used_by_others == pytest.approx(0.495)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=50))
def test_shares_are_shares_whatever_was_seen(times: list[tuple[int, int]]) -> None:
    copy, delay = np.array(times, np.int64).reshape(-1, 2).T
    probe = probe_of(copy, delay)
    for direction in probed_directions((probe,)):
        for share in (direction.used_by_others, direction.probe_busy_share):
            assert share is None or 0 <= share <= 1


def test_what_probing_costs_is_told() -> None:
    copy, delay = quiet(1000)
    (down, up) = probed_directions((probe_of(copy, delay, gpu=3),))
    assert (down.gpu, down.direction, up.direction) == (3, "h2d", "d2h")
    assert down.probe_bytes == 1000 * (CHUNK + 4)
    assert down.probe_busy_share == pytest.approx(1 / 3, rel=0.01)
    assert down.undisturbed_gbs == pytest.approx(20.48)
    assert down.undisturbed_delay_seconds == pytest.approx(5e-6)
    assert (down.used_by_others, down.episodes) == (0.0, ())


def test_notes_tell_the_cost_and_what_is_estimated() -> None:
    directions = probed_directions((probe_of(*quiet(1000)),))
    cost, estimate = probe_notes(directions, counted=True)
    assert "probe of g0 itself moved 195 MiB h2d and 195 MiB d2h" in cost
    assert "33 % of the time" in cost
    assert "counters count that" in cost
    assert "counters" not in probe_notes(directions, counted=False)[0]
    assert "estimate" in estimate


def test_an_empty_probe_tells_nothing() -> None:
    assert probed_directions((EMPTY,)) == ()
    assert episodes(EMPTY, 0) == ()
    assert probe_notes((), counted=True) == ()


def test_no_time_at_all_tells_nothing() -> None:
    (direction, _) = probed_directions((probe_of(np.zeros(9, np.int64), np.zeros(9, np.int64)),))
    assert direction.undisturbed_gbs is None
    assert direction.used_by_others is None
    assert direction.probe_busy_share is None
