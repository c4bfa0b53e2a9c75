"""What senders say of tensors where a group has no messages between CPUs, and links that stand in.

Ranks have gloo, and act as if they had it for tensors alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope.compression.transfers import Record  # noqa: E402
from lanescope.torch import deciding, exchange, lines, routes  # noqa: E402
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
        lines._options = lambda: None
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

    def send_as(self, tensor: Any, transfer: Any, decision: Any) -> Record:
        dist.send(tensor, 1 - dist.get_rank())
        ticket = Ticket(transfer.bytes, decision.compress)
        self.tickets = (*self.tickets, ticket)
        return Record(transfer, decision, ticket)

    def receive(self, out: Any) -> Any:
        assert out.data_ptr() % 16 == 0
        dist.recv(out, 1 - dist.get_rank())
        return out


def by_links(rank: int) -> list[Any]:
    half = Half()
    exchange.Exchange._link = lambda *given, **more: half  # type: ignore[method-assign]
    odd = torch.zeros(LEAST_BYTES // 4 + 1)[1:]
    for turn in range(3):
        tensor = odd.fill_(turn + 1) if rank == 0 else odd.zero_()
        lt.send(tensor, 1, compression="off") if rank == 0 else lt.recv(tensor, 0)
        assert tensor.eq(turn + 1).all()
        tensor = made_up(turn) if rank == 0 else torch.zeros_like(made_up(turn))
        lt.broadcast(tensor, 0, compression="off")
        assert torch.equal(tensor, made_up(turn))
    assert [one.outcome for one in lt.transfers()] == [None] * 6 * (rank == 0)
    for ticket in half.tickets:
        ticket.ended = True
    return [(one.transfer.path.split()[-1], one.outcome is not None) for one in lt.transfers()]


def test_links_carry_what_two_ranks_send_each_other_and_all_is_in_the_log(tmp_path: Path) -> None:
    sent, received = values(tmp_path, 2, by_links)
    assert sent == [("r0>r1", True), ("r0>all", True)] * 3
    assert received == []


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
