"""Two nodes exchange data through each medium; where one cannot, both are told soon."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from lanescope.engine import process
from lanescope.fleet import media
from lanescope.fleet.exchange import PairRate, _rate
from lanescope.fleet.media import Medium, exchange_through
from lanescope.fleet.report import fleet_report


class MadeUpRanks:
    """Two ranks that are threads; what the second one sends can be damaged on its way."""

    def __init__(self, rank, lines, damaged=0):
        self.rank, self._lines, self._damaged = rank, lines, damaged

    def exchange(self, partner, out, back, deadline):
        sent = bytearray(out)
        if len(sent) > 1 << 10 and self._damaged:
            sent[7] ^= 1
        self._lines[self.rank, partner].put(sent)
        try:
            got = self._lines[partner, self.rank].get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            return False
        back[:] = got
        return True


def both(medium, damaged=0, rounds=1):
    """Return what the ranks say of the last of some exchanges."""
    lines = {(0, 1): queue.Queue(), (1, 0): queue.Queue()}
    made = [exchange_through(medium, MadeUpRanks(n, lines, damaged * n)) for n in (0, 1)]
    done = [[], []]

    def run(number):
        for _ in range(rounds):
            done[number].append(made[number].with_partner(1 - number))
        made[number].end()

    threads = [threading.Thread(target=run, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [said[-1] for said in done]


@pytest.fixture(autouse=True)
def _made_up_gpus(monkeypatch):
    monkeypatch.setattr(process, "WORKER", "tests.engine.made_up_worker")
    monkeypatch.setattr(process, "_END_SECONDS", 0.2)
    monkeypatch.setattr(media, "_MOST_BYTES", 8 << 20)


@pytest.mark.parametrize("medium", [Medium.HOST, Medium.GPU, Medium.NCCL])
def test_both_say_the_same_of_an_exchange(medium):
    first, second = both(medium, rounds=2)
    for done in (first, second):
        assert done.why == ""
        assert len(done.seconds) == 5
        assert min(done.seconds) > 0
        assert done.wrong == 0
    assert first.bytes == second.bytes > 0
    assert len(first.gpus) == (2 if medium is Medium.NCCL else 0)
    rate = _rate((0, 1), {0: "a", 1: "b"}, [first, second])
    assert rate.gbs == pytest.approx(
        first.bytes * 1e-9 / sorted(map(max, first.seconds, second.seconds))[2]
    )


@pytest.mark.parametrize("medium", [Medium.HOST, Medium.GPU])
def test_what_arrives_wrong_is_found_by_who_receives_it(medium):
    first, second = both(medium, damaged=1)
    assert first.wrong > 0
    assert second.wrong == 0


def test_nccl_uses_as_many_gpus_as_both_have(monkeypatch):
    monkeypatch.setenv("MADE_UP_GPUS", "3")
    first, _ = both(Medium.NCCL)
    assert len(first.gpus) == 3


@pytest.mark.parametrize(
    ("medium", "fate", "words"),
    [
        (Medium.GPU, "no GPU", "CUDA sees no GPU"),
        (Medium.NCCL, "no nccl", "NCCL cannot be opened"),
    ],
)
def test_where_a_node_has_not_what_it_takes_both_go_on(monkeypatch, medium, fate, words):
    monkeypatch.setenv("MADE_UP_FATE", fate)
    begin = time.monotonic()
    first, second = both(medium, rounds=2)  # the second one says the same, and as soon
    assert time.monotonic() - begin < 20
    assert words in first.why
    assert first.seconds == second.seconds == ()
    rate = _rate((0, 1), {0: "a", 1: "b"}, [first, second])
    assert rate.gbs is None
    assert rate.why.startswith("a: ")
    assert "; b: " in rate.why
    report = fleet_report([], [], "2026-11-24T00:00:00+00:00", [rate])
    assert report.all_answered, "they are there, and can end MPI"
    assert words in report.suspects[0].sentence


def test_where_a_gpus_process_dies_the_partner_gives_up_in_time(monkeypatch):
    monkeypatch.setenv("MADE_UP_FATE", "die in run")
    for patience_s in (3, 10, 30):  # on a busy machine processes take long to begin
        monkeypatch.setattr(media, "GPU_SECONDS", float(patience_s))
        begin = time.monotonic()
        first, second = both(Medium.NCCL)
        assert time.monotonic() - begin < 2 * patience_s + 14
        assert first.seconds == second.seconds == ()
        if first.why and second.why:
            break
    for one in (first, second):
        assert f"did not answer in {patience_s} s" in one.why or "has ended" in one.why, one.why


def test_wrong_bytes_are_a_fault():
    rate = PairRate("a", "b", 10.0, 1 << 20, (0.1,), wrong=12)
    report = fleet_report([], [], "2026-11-24T00:00:00+00:00", [rate])
    (found,) = report.suspects
    assert (found.kind, found.judged_by) == ("wrong-data", "data")
    assert found.sentence.startswith("12 bytes that a and b exchanged")
    assert report.exit_code(strict=False) == 1


def test_of_a_slow_node_the_slowest_gpu_is_named():
    rates = [
        PairRate(f"n{a}", f"n{b}", 150.0 if 2 in (a, b) else 200.0, 1, (0.1,), gpus=gpus)
        for a in range(6)
        for b in range(a + 1, 6)
        for gpus in [(50.0, 25.0 if 2 in (a, b) else 50.0, 50.0, 50.0)]
    ]
    (found,) = fleet_report([], [], "2026-11-24T00:00:00+00:00", rates).suspects
    assert found.host == "n2"
    assert "Its GPU 1 is the slowest with 25.0 GB/s, 50.0 the others" in found.sentence
