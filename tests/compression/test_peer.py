"""Both halves of a channel between processes, in two threads, with cores that are no GPU's."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque

import numpy as np
import pytest

from lanescope import InputError, LanescopeError
from lanescope._core import native
from lanescope.compression import meeting, peer
from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.meeting import ByMpi, InStore
from lanescope.compression.peer import PeerReceiver, PeerSender
from tests.compression.gpu_stand_ins import Ticket, stand_in

Tensor = stand_in("torch")
VALUES = np.arange(1 << 15, dtype=np.float32)


class Half:
    """A half whose arrays cross through `Half.crossing`, when the receiver takes them."""

    crossing: deque

    def __init__(self, *options):
        self.options, self.tickets, self.gave_up, self.detached = options, [], False, False
        self.attached, self.refuses, self.stalls = b"", False, False

    handle = b"handle of memory"

    def attach(self, handle):
        if self.refuses:
            raise native.NativeError("cudaIpcOpenMemHandle", 1, "no", "it is too far away", "here")
        self.attached = handle

    def load(self, *given):
        pass

    def send(self, source, number, size, codec, *rest):
        data = (ctypes.c_uint8 * size).from_address(source)
        self.crossing.append((number, bytes(data), codec, *rest[:-1]))
        return self._ticket(size, codec is not None)

    def receive(self, target, number, size, codec, *rest):
        for _ in range(500):
            if self.crossing:
                break
            time.sleep(0.01)
        sent = self.crossing.popleft()
        assert sent == (number, sent[1], codec, *rest[:-1])
        ctypes.memmove(target, sent[1], size)
        return self._ticket(size, codec is not None)

    def _ticket(self, size, compressed):
        self.tickets.append(Ticket(size, compressed))
        self.tickets[-1].ended = not self.stalls
        return self.tickets[-1]

    def detach(self):
        self.detached = True

    def give_up(self):
        self.gave_up = True
        for ticket in self.tickets:
            ticket.ended = True


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    made = []
    crossing = deque()

    def core(*options):
        made.append(Half(*options))
        made[-1].crossing = crossing
        return made[-1]

    monkeypatch.setattr(native, "cuda_devices", lambda: [None, None])
    for name in ("PeerSender", "PeerReceiver"):
        monkeypatch.setattr(native, name, core)
    monkeypatch.setattr(peer, "current_stream", lambda framework, gpu: 1000 + gpu)
    monkeypatch.setattr(peer, "_new", lambda framework, said, gpu: room(said, gpu))
    return made


def room(said, gpu):
    return Tensor(np.zeros(said["shape"], said["dtype"]), gpu)


def both(place, receiver_place=None, patience=5.0, **options):
    """Make both halves at once; return them, or raise what either raised."""
    found = {}

    def receive():
        try:
            found["receiver"] = PeerReceiver(1, receiver_place or place, patience_seconds=patience)
        except Exception as error:
            found["error"] = error

    thread = threading.Thread(target=receive)
    thread.start()
    try:
        found["sender"] = PeerSender(0, place, patience_seconds=patience, **options)
    finally:
        thread.join()
    if "error" in found:
        raise found["error"]
    return found["sender"], found["receiver"]


def close(sender, receiver):
    """Close both, each of which waits for the other."""
    thread = threading.Thread(target=sender.close)
    thread.start()
    receiver.close()
    thread.join()


@pytest.mark.parametrize("codec", [None, "delta"])
def test_arrays_cross_in_order(tmp_path, cores, codec):
    how = {"compression": "off"} if codec is None else {"compression": "on", "codec": codec}
    sender, receiver = both(tmp_path / "meet", slab_bytes="1MiB", slots=3, sms=7, **how)
    assert cores[0].options[1:] == cores[1].options[1:] == (1 << 20, 3, 7, 5.0)
    assert cores[0].attached == cores[1].attached == Half.handle
    for number in range(3):
        sender.send(Tensor(VALUES + number), "weights")
    out = Tensor(np.zeros_like(VALUES), 1)
    assert receiver.receive(out) is out
    assert np.array_equal(out.host, VALUES)
    for number in (1, 2):
        assert np.array_equal(receiver.receive().host, VALUES + number)
    transfer = sender.last.transfer
    assert (transfer.tag, transfer.path, transfer.dtype) == ("weights", "g0>process", "float32")
    assert sender.last.decision.compress == receiver.last.decision.compress == (codec is not None)
    sender.last.wait()
    receiver.last.wait()
    close(sender, receiver)
    assert all(one.detached for one in cores)
    assert not any(one.gave_up for one in cores)
    assert list(tmp_path.iterdir()) == []  # no socket is left
    for call in (lambda: sender.send(Tensor(VALUES)), receiver.receive):
        with pytest.raises(InputError, match="closed"):
            call()


def test_an_array_that_does_not_fit_is_refused_and_the_next_one_comes(tmp_path):
    sender, receiver = both(tmp_path / "meet", compression="off")
    for _ in range(4):
        sender.send(Tensor(VALUES))
    for out, said in (
        (Tensor(VALUES[:5].copy(), 1), "sent float32 of shape"),
        (Tensor(VALUES.view(np.int32).copy(), 1), "is int32 of shape"),
        (Tensor(VALUES.copy(), 0), "lies on GPU 0"),
    ):
        with pytest.raises(InputError, match=said):
            receiver.receive(out)
    assert np.array_equal(receiver.receive().host, VALUES)
    close(sender, receiver)


def end(half):
    """Let a half's process be gone without a word."""
    half._line._closed = True
    half._line._connection.shutdown(2)


def test_what_was_sent_before_a_process_ended_can_be_received(tmp_path, cores):
    sender, receiver = both(tmp_path / "meet", compression="off")
    for number in range(30):  # more than a socket takes
        sender.send(Tensor(VALUES + number))
    end(sender)
    receiver._line.wait_for_end(5)
    with pytest.raises(InputError, match="sent float32 of shape"):
        receiver.receive(Tensor(VALUES.view(np.int32).copy(), 1))
    for number in range(1, 30):
        assert np.array_equal(receiver.receive().host, VALUES + number)
    with pytest.raises(LanescopeError, match="has ended or closed it"):
        receiver.receive()
    assert not cores[1].gave_up
    receiver.close()
    sender.close()


@pytest.mark.parametrize("unlike", [False, True])
def test_what_a_process_has_announced_and_not_sent_is_an_error(tmp_path, cores, unlike):
    sender, receiver = both(tmp_path / "meet", compression="off")
    sender.send(Tensor(VALUES))
    end(sender)
    receiver._line.wait_for_end(5)
    receiver._core.stalls = True
    out = Tensor(VALUES.view(np.int32 if unlike else np.float32).copy(), 1)
    with pytest.raises(LanescopeError, match="sent float32" if unlike else "ended amid the trans"):
        receiver.receive(out)
    assert receiver._core.gave_up
    receiver.close()  # which has been raised
    sender.close()


@pytest.mark.parametrize("waits", [False, True])
def test_the_end_of_a_process_is_raised_once(tmp_path, cores, waits):
    sender, receiver = both(tmp_path / "meet", compression="off")
    for _ in range(2):
        sender.send(Tensor(VALUES))
        sender._core.tickets[-1].ended = False
    sender._lose("was late by more than 1 s")
    with pytest.raises(LanescopeError, match="late by more than 1 s"):
        sender.last.wait() if waits else sender.send(Tensor(VALUES))
    end(receiver)
    sender.close()
    receiver.close()


def test_gpus_that_cannot_use_each_others_memory_are_errors_on_both_sides(
    tmp_path, cores, monkeypatch
):
    monkeypatch.setattr(Half, "attach", _refuse)
    told = []

    def receive():
        with pytest.raises(LanescopeError) as error:
            PeerReceiver(1, tmp_path / "meet", patience_seconds=5)
        told.append(str(error.value))

    thread = threading.Thread(target=receive)
    thread.start()
    with pytest.raises(LanescopeError) as error:
        PeerSender(0, tmp_path / "meet", patience_seconds=5)
    thread.join()
    for one in (*told, str(error.value)):
        assert "cannot use each other's memory" in one
        assert "cudaIpcOpenMemHandle failed: it is too far away" in one


def _refuse(self, handle):
    raise native.NativeError("cudaIpcOpenMemHandle", 1, "no", "it is too far away", "here")


@pytest.mark.parametrize("lost", ["sender", "receiver"])
def test_a_process_that_ends_is_an_error_and_streams_go_on(tmp_path, cores, lost):
    sender, receiver = both(tmp_path / "meet", compression="off")
    sender.send(Tensor(VALUES))
    receiver.receive()
    left, other = (receiver, sender) if lost == "sender" else (sender, receiver)
    core = left._core
    core.tickets[-1].ended = False  # it is still under way
    other._line._closed = True  # as if the process were gone
    other._line._connection.shutdown(2)
    left._line.wait_for_end(5)
    assert core.gave_up
    who = "sending" if lost == "sender" else "receiving"
    with pytest.raises(LanescopeError, match=f"the {who} process has ended amid the transfer"):
        left.last.wait()
    with pytest.raises(LanescopeError, match="make a new channel"):
        left.send(Tensor(VALUES)) if lost == "receiver" else left.receive()
    left.close()
    other.close()


def test_a_process_that_is_late_is_an_error(tmp_path, cores, monkeypatch):
    monkeypatch.setattr(meeting, "_LOOK_SECONDS", 0.05)
    sender, receiver = both(tmp_path / "meet", compression="off", patience=0.3)
    sender.send(Tensor(VALUES))
    sender._core.tickets[-1].ended = False
    for _ in range(100):
        if sender._core.gave_up:
            break
        time.sleep(0.05)
    with pytest.raises(LanescopeError, match=r"receiving process was late by more than 0.3 s"):
        sender.last.wait()
    receiver.receive()
    with pytest.raises(LanescopeError, match=r"sent nothing within 0.3 s"):
        receiver.receive()
    close(sender, receiver)


def test_an_array_that_the_gpu_refuses_ends_the_channel_on_both_sides(tmp_path, cores, monkeypatch):
    sender, receiver = both(tmp_path / "meet", compression="off")

    def refuse(*given):
        raise native.NativeError("cudaMemcpyAsync", 700, "illegal address", "it is wrong", "here")

    monkeypatch.setattr(sender._core, "send", refuse, raising=False)
    with pytest.raises(LanescopeError, match="cudaMemcpyAsync failed"):
        sender.send(Tensor(VALUES))
    receiver._line.wait_for_end(5)
    assert sender._core.gave_up
    assert receiver._core.gave_up
    with pytest.raises(LanescopeError, match="make a new channel"):
        receiver.receive()
    sender.close()
    receiver.close()


def test_who_decides_elsewhere_gets_the_outcome(tmp_path, cores):
    sender, receiver = both(tmp_path / "meet", compression="off")
    transfer = Transfer("5", "group: r0>r1", "float32", VALUES.nbytes)
    decided = Decision(True, "delta", 1, None, None, "so it is")
    record = sender.send_as(Tensor(VALUES), transfer, decided)
    assert record.transfer is transfer
    assert receiver.receive().host.sum() == VALUES.sum()
    assert receiver.last.decision.codec == "delta"
    assert record.wait().compressed
    odd = Tensor(np.zeros(VALUES.nbytes + 1, np.uint8))
    odd.host = odd.host[1:]
    assert not sender.send_as(odd, transfer, decided).decision.compress
    receiver.receive()
    close(sender, receiver)


@pytest.mark.parametrize("over", [False, True])
def test_what_ends_just_after_the_other_process_is_not_lost(tmp_path, cores, over):
    sender, receiver = both(tmp_path / "meet", compression="off")
    sender.send(Tensor(VALUES))
    receiver.receive()
    ticket = sender._core.tickets[-1]
    ticket.ended = False  # the word that the receiver has it is on its way
    threading.Timer(0.05, lambda: setattr(ticket, "ended", True)).start()
    if over:
        receiver.finish(5)
    else:
        receiver._line._closed = True  # as if the process were gone
        receiver._line._connection.shutdown(2)
    sender._line.wait_for_end(5)
    assert sender.last.wait().raw_bytes == VALUES.nbytes
    with pytest.raises(LanescopeError, match="make a new channel"):
        sender.send(Tensor(VALUES))
    sender.close()
    receiver.close()


def test_the_end_of_a_process_tells_what_was_lost(tmp_path, cores):
    sender, receiver = both(tmp_path / "meet", compression="off")
    sender.send(Tensor(VALUES))
    receiver.receive()
    receiver._core.tickets[-1].ended = False
    sender._line._closed = True  # as if the process were gone
    sender._line._connection.shutdown(2)
    receiver._line.wait_for_end(5)
    with pytest.raises(LanescopeError, match="has ended amid the transfer"):
        receiver.finish(5)
    receiver.close()  # and only once
    sender.close()


def test_the_end_of_a_process_waits_for_what_it_sends(tmp_path, cores):
    sender, receiver = both(tmp_path / "meet", compression="off")
    sender.send(Tensor(VALUES))
    ticket = sender._core.tickets[-1]
    ticket.ended = False
    ended = []
    threading.Timer(0.05, lambda: (ended.append(1), setattr(ticket, "ended", True))).start()
    sender.finish(5)
    assert ended == [1]
    receiver.receive()
    with pytest.raises(LanescopeError, match="ended or closed it"):
        receiver.receive()
    assert not receiver._core.gave_up
    close(sender, receiver)


def test_a_sender_that_cannot_begin_lets_the_receiver_go(tmp_path, monkeypatch):
    def refuse(*options):
        raise native.NativeError("peer channel", 0, "no values", "no stream waits", "here")

    monkeypatch.setattr(native, "PeerSender", refuse)
    begun = time.monotonic()
    told = []

    def receive():
        with pytest.raises(LanescopeError, match="ended or closed it"):
            PeerReceiver(1, tmp_path / "meet", patience_seconds=20)
        told.append(True)

    thread = threading.Thread(target=receive)
    thread.start()
    with pytest.raises(LanescopeError, match="no stream waits"):
        PeerSender(0, tmp_path / "meet", patience_seconds=20)
    thread.join()
    assert told == [True]
    assert time.monotonic() - begun < 15


def test_who_meets_the_end_amid_a_call_hears_of_that(tmp_path, monkeypatch):
    sender, receiver = both(tmp_path / "meet", compression="off")

    def refuse(*given):
        receiver._lose("has ended")
        raise native.NativeError("peer channel", 0, "given up", "it was given up", "here")

    monkeypatch.setattr(receiver._core, "receive", refuse, raising=False)
    sender.send(Tensor(VALUES))
    with pytest.raises(LanescopeError, match="sending process has ended amid the transfer"):
        receiver.receive()
    close(sender, receiver)


class Store:
    """As much of a torch.distributed store as is used."""

    def __init__(self):
        self.entries, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.entries[key] = value.encode()
            self.changed.notify_all()

    def wait(self, keys, timeout):
        with self.changed:
            there = self.changed.wait_for(lambda: keys[0] in self.entries, timeout.total_seconds())
        if not there:
            raise RuntimeError("Socket Timeout")

    def get(self, key):
        return self.entries[key]

    def delete_key(self, key):
        return bool(self.entries.pop(key))


class Communicator:
    """As much of mpi4py's as is used, of one rank."""

    def __init__(self):
        self.sent = deque()

    def send(self, value, dest, tag):
        self.sent.append((value, tag))

    def iprobe(self, source, tag):
        return bool(self.sent)

    def recv(self, source, tag):
        value, sent = self.sent.popleft()
        assert sent == tag
        return value


def test_they_meet_by_a_store(tmp_path):
    store = Store()
    sender, receiver = both(InStore(store, "weights"), compression="off")
    sender.send(Tensor(VALUES))
    assert np.array_equal(receiver.receive().host, VALUES)
    close(sender, receiver)
    assert store.entries == {}


def test_they_meet_by_mpi():
    communicator = Communicator()
    sender, receiver = both(ByMpi(communicator, 1), ByMpi(communicator, 0), compression="off")
    sender.send(Tensor(VALUES))
    assert np.array_equal(receiver.receive().host, VALUES)
    close(sender, receiver)


@pytest.mark.parametrize("place", ["path", "store", "mpi"])
def test_who_does_not_come_is_an_error_in_time(tmp_path, place):
    places = {"path": tmp_path / "m", "store": InStore(Store()), "mpi": ByMpi(Communicator(), 1)}
    with pytest.raises(LanescopeError, match="receiv"):
        PeerSender(0, places[place], patience_seconds=0.1)
    with pytest.raises(LanescopeError, match="start the sending one"):
        PeerReceiver(0, places[place], patience_seconds=0.1)


def test_another_version_is_refused(tmp_path, monkeypatch):
    versions = iter(["1", "2"])
    told = []
    real = meeting.PeerConnection.tell

    def tell(self, message):
        if "version" in message:
            message = message | {"version": next(versions)}
        real(self, message)

    monkeypatch.setattr(meeting.PeerConnection, "tell", tell)

    def receive():
        with pytest.raises(LanescopeError, match="use the same in both"):
            PeerReceiver(1, tmp_path / "meet", patience_seconds=5)
        told.append(True)

    thread = threading.Thread(target=receive)
    thread.start()
    with pytest.raises(LanescopeError, match="has ended or closed it"):
        PeerSender(0, tmp_path / "meet", patience_seconds=5)
    thread.join()
    assert told == [True]


def test_wrong_arguments_are_one_sentence(tmp_path):
    (tmp_path / "taken").touch()
    for call, said in (
        (lambda: PeerSender(5, tmp_path / "m"), "there is no GPU 5"),
        (lambda: PeerSender(0, 7), "processes meet at the path of a socket"),
        (lambda: PeerSender(0, tmp_path / "m", compression="maybe"), "auto, on or off"),
        (lambda: PeerSender(0, tmp_path / "m", codec="ans"), "codec ans is one of streams"),
        (lambda: PeerReceiver(0, tmp_path / "taken"), "cannot be a socket"),
        (lambda: PeerReceiver(0, os.fspath(tmp_path / "none" / "m")), "cannot be a socket"),
        (lambda: PeerReceiver("one", tmp_path / "m"), "gpu cannot be 'one'"),
    ):
        with pytest.raises(InputError, match=said):
            call()
