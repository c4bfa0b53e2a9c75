"""Tensors in a run take a short way: what comes between them, and what it does not take."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope.errors import InputError, LanescopeError  # noqa: E402
from lanescope.torch import exchange, routes, sides  # noqa: E402
from tests.pytorch.ranks import GONE, LEAST_BYTES, run, values  # noqa: E402

COUNT = LEAST_BYTES // 4


def numbers(seed: float, count: int = COUNT) -> Any:
    return torch.arange(count, dtype=torch.float32) + seed


class Pair:
    """Two ranks of which one sends and the other receives, and what is left of their run."""

    def __init__(self, rank: int, group: Any = None, ends: tuple[int, int] = (0, 1)) -> None:
        exchange.may_lack_header = attrgetter("is_cpu")
        self.sends, self.group, self.ends = rank == ends[0], group, ends
        self.headers = 0
        for side in (sides.Sending, sides.Receiving):
            side.run = self._counting(side.run)  # type: ignore[method-assign]

    def _counting(self, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def counted(one: Any) -> None:
            self.headers += 1
            real(one)

        return counted

    def begin_run(self) -> None:
        """Send two with a header; after them come four without."""
        for seed in (1, 2):
            self.exchange(numbers(seed))
        assert self.left() == 4

    def exchange(self, sent: Any, room: Any = None, tag: int = 0, compression: str = "off") -> None:
        """Send a tensor, which is to come as it is."""
        if self.sends:
            lt.send(sent, self.ends[1], self.group, tag, compression=compression)
            return
        room = torch.zeros_like(sent) if room is None else room
        assert lt.recv(room, self.ends[0], self.group, tag) == self.ends[0]
        assert torch.equal(room.detach(), sent.detach().reshape(room.shape))

    def left(self, count: int = COUNT, dtype: str = "float32") -> int:
        group = dist.group.WORLD if self.group is None else self.group
        known = routes.facts_of(group).runs._runs
        return int(known[(*self.ends, dtype, count)].left)


def others_amid(rank: int) -> None:
    pair = Pair(rank)
    pair.begin_run()
    pair.exchange(numbers(3, COUNT + 8))  # of another size
    pair.exchange(numbers(4).view(torch.int32))  # of another type
    assert (pair.headers, pair.left()) == (4, 4)
    pair.exchange(numbers(5).reshape(4, -1), torch.zeros(COUNT // 8, 8))  # another shape is alike
    assert (pair.headers, pair.left()) == (4, 3)
    pair.exchange(numbers(6), compression="on")  # what was announced holds
    assert (pair.headers, pair.left()) == (4, 2)
    for seed in (7, 8):
        pair.exchange(numbers(seed), tag=seed)
    assert (pair.headers, pair.left()) == (4, 0)
    pair.exchange(numbers(9), compression="on")
    assert pair.headers == 5
    if pair.sends:
        sent = [(one.transfer.tag, one.decision.compress) for one in lt.transfers()]
        assert sent == [("", False)] * 6 + [("7", False), ("8", False), ("", True)]
        assert all(one.wire_bytes == 4 * COUNT for one in lt.transfers()[4:8])


def test_others_amid_a_run_have_headers_of_their_own(tmp_path: Path) -> None:
    values(tmp_path, 2, others_amid)


def kinds_of_memory(rank: int) -> None:
    pair = Pair(rank)
    pair.begin_run()
    with torch.inference_mode():
        pair.exchange(numbers(3))
        made = numbers(4)
    pair.exchange(made, made.clone().zero_())
    weights = torch.nn.Parameter(numbers(5))
    pair.exchange(weights, torch.nn.Parameter(torch.zeros(COUNT)))
    pair.exchange(numbers(6, 2 * COUNT)[COUNT:].view(1, -1).t())  # in order, with odd steps
    assert (pair.headers, pair.left()) == (2, 0)
    pair.exchange(numbers(7))
    assert pair.left() == 8
    # a view that is negated when it is read goes by PyTorch's own call, and is not of the run
    turned = torch._neg_view(numbers(8))
    lt.send(turned, 1) if pair.sends else dist.recv(torch.zeros(COUNT), 0)
    assert (pair.headers, pair.left()) == (3, 8)
    pair.exchange(numbers(9))
    assert (pair.headers, pair.left()) == (3, 7)


def test_all_kinds_of_memory_go_in_a_run(tmp_path: Path) -> None:
    values(tmp_path, 2, kinds_of_memory)


def refused_amid(rank: int) -> list[str]:
    pair = Pair(rank)
    pair.begin_run()
    apart, told = numbers(0, 2 * COUNT)[::2], []
    calls: list[Callable[[], Any]] = [
        lambda: lt.send(apart, 1) if pair.sends else lt.recv(apart, 0),
        lambda: lt.send(numbers(1), 1, compression="maybe"),
        lambda: lt.send(numbers(1), 1, codec="ans"),
        lambda: lt.send(numbers(1), 7) if pair.sends else lt.recv(numbers(1), 7),
        lambda: lt.send(numbers(1).tolist(), 1) if pair.sends else lt.recv("numbers", 0),
    ]
    for call in calls:
        with pytest.raises(InputError) as error:
            call()
        told.append(str(error.value))
    assert pair.left() == 4
    pair.exchange(numbers(3))
    assert (pair.headers, pair.left()) == (2, 3)
    return told


def test_what_is_refused_is_not_of_the_run(tmp_path: Path) -> None:
    for told in values(tmp_path, 2, refused_amid):
        assert ".contiguous()" in told[0]
        assert "give auto, on or off" in told[1]
        assert "codec ans" in told[2]
        assert "no rank 7" in told[3]
        assert "a tensor of PyTorch is sent" in told[4]


def in_other_threads(rank: int) -> None:
    pair = Pair(rank)
    pair.begin_run()
    errors: list[BaseException] = []

    def one(seed: int) -> None:
        try:
            pair.exchange(numbers(seed))
        except BaseException as error:
            errors.append(error)

    for seed in (3, 4):
        thread = threading.Thread(target=one, args=(seed,))
        thread.start()
        thread.join()
    assert errors == []
    assert (pair.headers, pair.left()) == (2, 2)
    # and behind the program, after which calls that wait come in order, too
    sent, room = numbers(5), torch.zeros(COUNT)
    work = lt.isend(sent, 1, compression="off") if pair.sends else lt.irecv(room, 0)
    pair.exchange(numbers(6))
    assert work.wait()
    assert pair.sends or torch.equal(room, sent)
    assert (pair.headers, pair.left()) == (2, 0)


def test_a_run_goes_on_in_other_threads(tmp_path: Path) -> None:
    values(tmp_path, 2, in_other_threads)


def in_a_group(rank: int) -> list[str]:
    """Rank 2 sends to 1 in a group that counts them otherwise, and which is destroyed then."""
    group = dist.new_group([1, 2])
    if rank == 0:
        dist.barrier()
        return []
    pair = Pair(rank, group, (2, 1))
    pair.begin_run()
    pair.exchange(numbers(3))
    assert (pair.headers, pair.left()) == (2, 3)
    told = []
    dist.barrier()
    dist.destroy_process_group(group)
    for _ in range(2):
        with pytest.raises(InputError) as error:
            pair.exchange(numbers(4))
        told.append(str(error.value))
    assert pair.left() == 3
    return told


def test_a_group_has_its_own_ranks_and_its_end(tmp_path: Path) -> None:
    _, receiver, sender = values(tmp_path, 3, in_a_group)
    assert len(receiver) == len(sender) == 2
    assert all(one.startswith("receiving from rank 2 is not possible: ") for one in receiver)
    assert all(one.startswith("sending to rank 1 is not possible: ") for one in sender)


def broadcast_in_a_group(rank: int) -> list[str]:
    group = dist.new_group([1, 2])
    if rank == 0:
        dist.barrier()
        return []
    pair = Pair(rank, group, (2, 1))
    for seed in range(1, 8):  # the third to sixth without a header
        sent = torch.view_as_complex(numbers(seed).reshape(-1, 2)) if seed != 4 else numbers(seed)
        room = sent.clone() if rank == 2 else torch.zeros_like(sent)
        lt.broadcast(room, 2, group, compression="off")
        assert torch.equal(room, sent)
    assert pair.headers == 2 + 1  # of a kind of its own
    dist.barrier()
    dist.destroy_process_group(group)
    with pytest.raises(InputError) as error:
        lt.broadcast(torch.view_as_complex(numbers(8).reshape(-1, 2)), 2, group)
    return [str(error.value)]


def test_broadcasts_go_in_runs_as_well(tmp_path: Path) -> None:
    none, *both = values(tmp_path, 3, broadcast_in_a_group)
    assert none == []
    assert all(said.startswith("the broadcast of rank 2 is not possible: ") for (said,) in both)


def made_again(rank: int, store: str) -> None:
    pair = Pair(rank)
    pair.begin_run()
    dist.destroy_process_group()
    with pytest.raises(InputError, match="there is no process group"):
        pair.exchange(numbers(3))
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    pair.exchange(numbers(4))  # with a header: what was announced in the other one is over
    assert pair.headers == 3
    dist.barrier()


def test_no_run_goes_on_in_the_next_group(tmp_path: Path) -> None:
    values(tmp_path, 2, made_again, str(tmp_path / "again"))


def dies(rank: int, who: int) -> None:
    pair = Pair(rank)
    pair.begin_run()
    if rank == who:
        os._exit(1)
    for seed in range(4):  # what is sent at first may lie in the system's buffers
        pair.exchange(numbers(seed, COUNT))
    for _ in range(1000):
        lt.send(numbers(0), 1, compression="off")


@pytest.mark.parametrize("who", [0, 1])
def test_a_process_that_dies_amid_a_run_is_an_error(tmp_path: Path, who: int) -> None:
    told = run(tmp_path, 2, dies, who)
    assert told[who] == GONE
    assert told[1 - who].kind == "LanescopeError"
    assert "broke off: " in told[1 - who].error
    assert "the other process ended" in told[1 - who].error


def never_comes(rank: int) -> None:
    pair = Pair(rank)
    pair.begin_run()
    if rank == 1:
        with pytest.raises(LanescopeError, match=r"receiving from rank 0 broke off: .* of 1 s"):
            lt.recv(numbers(0), 0)
        dist.distributed_c10d._get_default_store().set("over", "")
    else:
        dist.distributed_c10d._get_default_store().wait(["over"])


def test_a_tensor_that_never_comes_is_an_error(tmp_path: Path) -> None:
    assert [one.error for one in run(tmp_path, 2, never_comes, timeout=1)] == ["", ""]
