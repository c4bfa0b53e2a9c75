"""What senders say of tensors where a group has no messages between CPUs, and links that stand in.

Ranks have gloo, and act as if they had it for tensors alone.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope.compression.transfers import Record  # noqa: E402
from lanescope.torch import deciding, exchange, routes, sides  # noqa: E402
from tests.compression.gpu_stand_ins import Ticket  # noqa: E402
from tests.pytorch.ranks import LEAST_BYTES, run, values  # noqa: E402


def made_up(seed: int) -> Any:
    return torch.arange(5 * LEAST_BYTES // 4, dtype=torch.float32) // 8 + seed


def notes_apart(rank: int, refusing: int | None) -> set[str]:
    """Send both ways and to all; return the classes of notes that this rank used."""
    used: set[str] = set()
    real = routes.notes_of

    def notes_of(*given: Any) -> Any:
        found = real(*given)
        inside = getattr(found, "_messages", None)
        used.add(type(found).__name__ if inside is None else type(inside).__name__)
        return found

    routes.backend_of, exchange.notes_of = lambda *given: None, notes_of
    if rank == refusing:
        routes._options = lambda: None
    for turn, compression in enumerate(("on", "off", "on")):
        for source in (0, 1):
            sent = made_up(turn + source)
            if rank == source:
                lt.send(sent, 1 - source, compression=compression)
            elif rank < 2:
                got = torch.zeros_like(sent)
                assert lt.recv(got, source) == source
                assert torch.equal(got, sent)
        whole = made_up(turn) if rank == 1 else torch.zeros_like(made_up(turn))
        lt.broadcast(whole, 1, compression=compression)
        assert torch.equal(whole, made_up(turn))
    return used


@pytest.mark.parametrize(("ranks", "refusing"), [(2, None), (3, None), (2, 1)])
def test_notes_go_by_lines_or_by_the_store(
    tmp_path: Path, ranks: int, refusing: int | None
) -> None:
    used = values(tmp_path, ranks, notes_apart, refusing)
    both = {"NotesInStore"} if refusing is not None else {"PairLine", "AllLine"}
    assert used[:2] == [both, both]
    assert used[2:] == [{"AllLine"}] * (ranks - 2)


def alone(rank: int) -> None:
    routes.backend_of = lambda *given: None
    if rank == 1:
        lt.recv(made_up(1), 0)


def test_a_rank_that_does_not_come_is_an_error(tmp_path: Path) -> None:
    _, receiver = run(tmp_path, 2, alone, timeout=1)
    assert receiver.kind == "LanescopeError"
    assert "broke off: " in receiver.error


class Half:
    """A channel's half that stands in, over gloo."""

    tickets: tuple[Ticket, ...] = ()
    array_is_next = False

    def announce(self, note: str) -> None:
        self.send_note(note.encode())

    def send_note(self, note: bytes) -> None:
        dist.send(torch.frombuffer(bytearray(note.ljust(256)), dtype=torch.uint8), 1)

    def hear(self) -> str | None:
        room = torch.zeros(256, dtype=torch.uint8)
        dist.recv(room, 0)
        note = bytes(room.numpy()).decode().strip()
        self.array_is_next = not note
        return note or None

    def send_as(self, tensor: Any, transfer: Any, decision: Any) -> Record:
        self.send_note(b"")
        dist.send(tensor, 1)
        ticket = Ticket(transfer.bytes, decision.compress)
        self.tickets = (*self.tickets, ticket)
        return Record(transfer, decision, ticket)

    def receive(self, out: Any) -> Any:
        assert out.data_ptr() % 16 == 0
        assert self.array_is_next or self.hear() is None
        self.array_is_next = False
        dist.recv(out, 1 - dist.get_rank())
        return out


def by_links(rank: int, timed: bool) -> list[Any]:
    half = Half()
    exchange.Exchange._link = lambda *given, **more: half  # type: ignore[method-assign]
    deciding.Decisions.times = lambda *given: timed  # type: ignore[method-assign]
    odd = torch.zeros(LEAST_BYTES // 4 + 1)[1:]
    for turn, compression in enumerate(("off", "on", "on")):
        tensor = odd.fill_(turn + 1) if rank == 0 else odd.zero_()
        lt.send(tensor, 1, compression=compression) if rank == 0 else lt.recv(tensor, 0)
        assert tensor.eq(turn + 1).all()
        tensor = made_up(turn) if rank == 0 else torch.zeros_like(made_up(turn))
        lt.broadcast(tensor, 0, compression=compression)
        assert torch.equal(tensor, made_up(turn))
    known = [one.outcome is not None for one in lt.transfers()]
    assert known == [timed] * 2 * (rank == 0) + [False] * 4 * (rank == 0)
    for ticket in half.tickets:
        ticket.ended = True
    return [(one.transfer.path.split()[-1], one.outcome is not None) for one in lt.transfers()]


@pytest.mark.parametrize("timed", [False, True])
def test_links_carry_what_is_compressed_and_all_is_in_the_log(tmp_path: Path, timed: bool) -> None:
    sent, received = values(tmp_path, 2, by_links, timed)
    raw = [("r0>r1", timed), ("r0>all", timed)]
    assert sent == raw + [("r0>r1", True), ("r0>all", True)] * 2
    assert received == []


def in_runs(rank: int) -> list[tuple[int, bool]]:
    """Send like tensors again and again; return the numbers of those with a header, and how."""
    exchange.may_lack_header = attrgetter("is_cpu")
    headers: list[int] = []
    for side in (sides.Sending, sides.Receiving):
        real = side.run
        side.run = lambda one, real=real: (headers.append(number), real(one))[1]  # type: ignore
    found = []
    for number in range(72):
        # others between them, whose headers count for themselves
        for sent in (made_up(number), made_up(number)[1:].to(torch.float64)):
            compression = "on" if number >= 50 else "off"
            there = sent if rank == 0 else torch.zeros_like(sent)
            if sent.dtype == torch.float32:
                lt.send(there, 1, compression=compression) if rank == 0 else lt.recv(there, 0)
            else:
                lt.broadcast(there, 0, compression=compression)
            assert torch.equal(there, sent)
        before = headers.count(number)
        found.append((before, rank == 0 and lt.transfers()[-1].decision.compress))
    assert len(lt.transfers()) == 144 * (rank == 0)
    return found


def test_tensors_like_those_before_have_no_header(tmp_path: Path) -> None:
    sent, received = values(tmp_path, 2, in_runs)
    assert [count for count, _ in sent] == [count for count, _ in received]
    # none are without after the first, 4 after the second, then 8, 16, 32
    assert [number for number, (count, _) in enumerate(sent[:66]) if count] == [0, 1, 6, 15, 32, 65]
    # what is to be compressed is so, when the run is over
    assert [number for number, (_, on) in enumerate(sent) if on] == list(range(65, 72))


def test_lost_transfers_teach_nothing() -> None:
    deciders = deciding.Decisions("cpu", "off", "auto")
    learned: list[Any] = []

    class Decider:
        def learn(self, *given: Any) -> None:
            learned.append(given)

    class Times:
        wire_bytes, seconds = 5, 0.0

    deciders._decider = Decider()  # type: ignore[assignment]
    transfer: Any = type("T", (), {"bytes": 9})()
    decision: Any = type("D", (), {"compress": False})()
    deciders.sent(transfer, decision, Times(), None)
    assert learned == []
    assert deciding.LOG[-1].sent.outcome is None
    deciding.LOG.pop()
