"""When two ranks have a channel between their GPUs, without GPUs and without PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest

from lanescope.errors import LanescopeError
from lanescope.torch import ranks
from tests.compression.test_peer import Store

TIMEOUT = timedelta(seconds=5)


class Group:
    """As much of a process group as is used."""


class Half:
    def __init__(self, gpu: int, meet: Any, **options: Any) -> None:
        self.gpu, self.name, self.options = gpu, meet.name, options
        self.finished = False

    def finish(self, patience_seconds: float) -> None:
        self.finished = True


class Failing(Half):
    def __init__(self, *given: Any, **options: Any) -> None:
        raise LanescopeError("the GPUs of the two processes cannot use each other's memory")


@pytest.fixture(autouse=True)
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "PeerSender", type("Sender", (Half,), {}))
    monkeypatch.setattr(ranks, "PeerReceiver", type("Receiver", (Half,), {}))
    monkeypatch.delenv(ranks.VARIABLE, raising=False)
    monkeypatch.setattr(ranks, "_warned", [])
    monkeypatch.setattr(ranks, "_open", WeakSet())


@pytest.fixture
def both() -> Iterator[Any]:
    store, groups = Store(), (Group(), Group())

    def make(ends: tuple[int, int] = (0, 1)) -> tuple[Any, Any]:
        found: dict[bool, Any] = {}

        def one(sends: bool) -> None:
            found[sends] = ranks.link(groups[sends], store, ends, sends, 3 + sends, TIMEOUT)

        thread = threading.Thread(target=one, args=(False,))
        thread.start()
        one(True)
        thread.join()
        return found[True], found[False]

    yield make
    assert store.entries == {}


def test_both_ranks_of_a_node_have_their_halves_and_each_once(both: Any) -> None:
    sender, receiver = both()
    assert (type(sender).__name__, type(receiver).__name__) == ("Sender", "Receiver")
    assert (sender.gpu, receiver.gpu) == (4, 3)
    assert sender.name == receiver.name == "0>1"
    assert sender.options["patience_seconds"] == 5
    again = both()
    assert (again[0] is sender, again[1] is receiver) == (True, True)
    assert both((1, 0))[0] is not sender


def test_ranks_of_two_nodes_have_none(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    places = iter(["one", "two"])
    monkeypatch.setattr(ranks, "place", lambda: next(places))
    assert both() == (None, None)


@pytest.mark.parametrize("which", ["PeerSender", "PeerReceiver"])
def test_gpus_that_do_not_reach_each_other_are_tried_once(
    both: Any, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    for name in ("PeerSender", "PeerReceiver"):  # what one half finds out, both are told
        monkeypatch.setattr(ranks, name, Failing)
    with pytest.warns(UserWarning, match="ranks 0 and 1 tensors go by NCCL: the GPUs of") as told:
        assert both() == (None, None)
    monkeypatch.setattr(ranks, which, Half)
    assert both() == (None, None)
    monkeypatch.setattr(ranks, which, Failing)
    assert both((1, 0)) == (None, None)  # without a warning, which would be an error here
    assert len(told) == 1


def test_they_are_switched_off_by_hand(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ranks.VARIABLE, "0")
    assert both() == (None, None)


def test_one_rank_switches_them_off_for_both(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter(["off", ranks.place()])
    monkeypatch.setattr(ranks, "_here", lambda: next(said))
    assert both() == (None, None)


def test_at_the_end_of_a_process_all_channels_are_finished(both: Any) -> None:
    halves = both()
    ranks._finish()
    assert all(half.finished for half in halves)


def test_what_was_lost_at_the_end_is_a_warning(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = both()

    def lost(patience_seconds: float) -> None:
        raise LanescopeError("the sending process has ended amid the transfer")

    monkeypatch.setattr(halves[1], "finish", lost, raising=False)
    with pytest.warns(UserWarning, match="GPUs of this node: the sending process has ended"):
        ranks._finish()
    assert halves[0].finished


@pytest.mark.parametrize("damaged", [False, True])
def test_a_lost_transfer_has_no_time(damaged: bool) -> None:
    outcome = SimpleNamespace(seconds=0.5, wire_bytes=7)
    record: Any = SimpleNamespace(outcome=None, damaged=damaged)
    ended = ranks.ByChannel(record)
    assert (ended.seconds, ended.wire_bytes) == (None, None)
    record.outcome = outcome
    assert (ended.seconds, ended.wire_bytes) == (0.0 if damaged else 0.5, 7)


def test_a_rank_that_does_not_come_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        ranks.link(Group(), Store(), (0, 1), True, 0, timedelta(seconds=0.05))


def test_a_place_is_the_same_in_each_call() -> None:
    assert ranks.place() == ranks.place()
