"""Rounds of a probe, over a link whose copies take what a test says."""

import resource
import signal
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope._core import native
from lanescope.trace.probe import probe_header, read_probe
from tests.patience import PATIENCE_S, longer_and_longer

ROUND = [5_000, 20_000, 6_000, 30_000]  # delay and chunk to the GPU, then from it
CHUNK = 4096
MS = 1_000_000


def probe(path, rounds, *, fails=False, period_ns=0):
    header = probe_header(0, CHUNK, period_ns, 1.0)
    return native.testing.programmed_probe(ROUND * rounds, fails, period_ns, str(path), header)


def stopped(path, rounds, done, **options):
    """What a probe tells that is stopped once it has done so many rounds, or has failed."""
    for seconds in longer_and_longer(0.1):
        path.unlink(missing_ok=True)
        running = probe(path, rounds, **options)
        running.start()
        time.sleep(seconds)
        before = time.monotonic()
        report = running.stop()
        assert time.monotonic() - before < PATIENCE_S / 2  # it would not end by itself
        if report.rounds == done or report.errors:
            return report
    raise AssertionError(f"{report.rounds} rounds in {seconds} s")


def test_a_round_is_a_short_and_a_long_copy_each_direction():
    rounds = native.testing.ProgrammedRounds(ROUND * 2, CHUNK)
    assert rounds.run() == [(0, 5_000, 20_000, 0), (25_000, 6_000, 30_000, 1)]
    assert rounds.copies() == [(0, 4), (0, CHUNK), (1, 4), (1, CHUNK)]
    assert rounds.run()[0][0] == sum(ROUND)


def test_a_copy_of_many_seconds_is_told_as_the_longest():
    rounds = native.testing.ProgrammedRounds([5_000, 10_000_000_000, 1, 2], CHUNK)
    assert rounds.run()[0] == (0, 5_000, 0xFFFFFFFF, 0)


def test_without_a_period_there_is_a_rest_only_where_the_gpu_is_shared():
    rounds = native.testing.ProgrammedRounds(ROUND, CHUNK)
    rounds.run()
    assert rounds.next_after(60_000) == 60_000
    assert rounds.next_after(2 * MS) == 5 * MS
    assert rounds.next_after(7 * MS) == 7 * MS


def test_a_pause_fills_the_period_and_waiting_is_followed_by_rest():
    rounds = native.testing.ProgrammedRounds(ROUND, CHUNK, 10 * MS, 0.01)
    assert rounds.next_after(61_000) == 10 * MS  # before a first round, too
    rounds.run()
    assert rounds.next_after(61_000) == 10 * MS
    assert rounds.next_after(9 * MS) == 14 * MS


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.floats(0.001, 1), st.integers(0, 10**8))
def test_chunks_take_at_most_their_share_of_the_link(down, up, share, period):
    rounds = native.testing.ProgrammedRounds([1, down, 1, up], CHUNK, period, share)
    ((_, _, first, _), (_, _, second, _)) = rounds.run()
    took = 2 + first + second
    assert max(first, second) <= rounds.next_after(took) * share * (1 + 1e-9) + 1


def test_what_waited_counts_for_nothing():
    """The slow chunk took no more of the link than the fast one before it."""
    rounds = native.testing.ProgrammedRounds([1, 1000, 1, 1000, 1, 90 * MS, 1, 1000], CHUNK, 0, 0.1)
    rounds.run()
    rounds.run()
    assert rounds.next_after(4000) == 10_000


@pytest.mark.parametrize("chunk", [0, 3, (1 << 30) + 1])
def test_chunks_that_cannot_be_are_refused(chunk):
    with pytest.raises(native.NativeError, match="4 B to 1 GiB"):
        native.testing.ProgrammedRounds(ROUND, chunk)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.01, float("nan")])
def test_shares_that_cannot_be_are_refused(share):
    with pytest.raises(native.NativeError, match="share of the link"):
        native.testing.ProgrammedRounds(ROUND, CHUNK, 0, share)


def test_a_stop_in_the_midst_of_a_copy_is_at_once_and_keeps_what_was_seen(tmp_path):
    path = tmp_path / "probe.g0.bin"
    report = stopped(path, 3, done=3)
    assert (report.records, report.rounds, report.errors) == (6, 3, [])
    assert report.wall_seconds > 0
    found = read_probe(path)
    assert found.copy_ns.tolist() == [20_000, 30_000] * 3
    assert found.direction.tolist() == [0, 1] * 3
    assert np.all(np.diff(found.begin_ns) > 0)


def test_a_stop_ends_a_pause(tmp_path):
    report = stopped(tmp_path / "probe.g0.bin", 3, done=1, period_ns=3_600_000 * MS)
    assert report.rounds == 1


def test_a_failure_ends_the_probe_with_a_sentence(tmp_path):
    path = tmp_path / "probe.g0.bin"
    report = stopped(path, 2, done=None, fails=True)
    (sentence,) = report.errors
    assert sentence.startswith("Probing ended early: cudaStreamQuery: the GPU is lost")
    assert len(read_probe(path)) == report.records == 4


def test_a_full_disk_is_told_and_keeps_what_was_written(tmp_path):
    path = tmp_path / "probe.g0.bin"
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        (sentence,) = stopped(path, 100, done=None).errors
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert "probe.g0.bin" in sentence
    assert len(read_probe(path)) > 30


def test_no_spool_is_written_over(tmp_path):
    path = tmp_path / "probe.g0.bin"
    path.write_text("precious")
    with pytest.raises(native.NativeError):
        probe(path, 1)
    assert path.read_text() == "precious"


def test_a_probe_that_is_dropped_ends(tmp_path):
    running = probe(tmp_path / "probe.g0.bin", 1)
    running.start()
    del running
