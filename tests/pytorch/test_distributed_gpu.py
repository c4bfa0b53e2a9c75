"""Tensors between processes that have a GPU each, over NCCL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.multigpu]
torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
    pytest.skip("fewer than two GPUs that PyTorch can use", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope.errors import InputError, LanescopeError  # noqa: E402
from lanescope.torch import exchange, ranks, routes  # noqa: E402
from tests.pytorch.ranks import run, values  # noqa: E402

LARGE = exchange.LEAST_BYTES["cuda"]
NCCL, BOTH = "nccl", "cpu:gloo,cuda:nccl"


def made_up(dtype: str, size: int, seed: int = 1) -> Any:
    bits = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 1 << 30, (size // 8,), generator=bits, dtype=torch.int64)
    words[::3] = 0
    return words.view(torch.uint8).view(getattr(torch, dtype)).cuda()


def same(one: Any, other: Any) -> bool:
    return bool(torch.equal(routes.bytes_of(one), routes.bytes_of(other)))


def set_up(rank: int, links: str = "1") -> None:
    os.environ["LANESCOPE_LINKS"] = links
    torch.cuda.set_device(rank)


def all_types(rank: int, compression: str, links: str) -> list[bool]:
    set_up(rank, links)
    for number, dtype in enumerate(("float32", "bfloat16", "float64", "complex64", "uint8")):
        sent = made_up(dtype, 5 * LARGE + 64, number)
        if rank == 0:
            lt.send(sent, 1, compression=compression)
            sent.zero_()  # by what is put on the stream behind it
        else:
            got = torch.zeros_like(sent)
            assert lt.recv(got, 0) == 0
            assert same(got, sent), dtype
        sent = made_up(dtype, 5 * LARGE + 64, number)
        tensor = torch.zeros_like(sent) if rank == 0 else sent.clone()
        lt.broadcast(tensor, 1, compression=compression)
        assert same(tensor, sent), dtype
        small = torch.full((5,), 7.0, device="cuda") if rank == 0 else torch.zeros(5, device="cuda")
        lt.send(small, 1) if rank == 0 else lt.recv(small, 0)
        assert small.tolist() == [7] * 5
    torch.cuda.synchronize()
    linked = links == "1" and torch.cuda.can_device_access_peer(0, 1)
    assert len(ranks._open) == 2 * linked  # one each way, for send and broadcast
    if linked and compression == "on":  # what goes as it is, goes by NCCL
        assert all(one.outcome is not None for one in lt.transfers())
    return [one.decision.compress for one in lt.transfers()]


@pytest.mark.parametrize("backend", [NCCL, BOTH])
@pytest.mark.parametrize("compression", ["on", "off", "auto"])
@pytest.mark.parametrize("links", ["0", "1"])  # by NCCL, or by a channel between the processes
def test_all_types_come_as_they_were(
    tmp_path: Path, backend: str, compression: str, links: str
) -> None:
    sent = values(tmp_path, 2, all_types, compression, links, backend=backend)
    for decided in sent:
        assert len(decided) == 5
        assert compression == "auto" or set(decided) == {compression == "on"}


def learns(rank: int, links: str) -> list[bool]:
    set_up(rank, links)
    tensor = made_up("float32", 16 * LARGE)
    for _ in range(12):
        lt.send(tensor, 1) if rank == 0 else lt.recv(tensor, 0)
    torch.cuda.synchronize()
    return [one.outcome is not None and one.outcome.seconds > 0 for one in lt.transfers()]


@pytest.mark.parametrize("backend", [NCCL, BOTH])
@pytest.mark.parametrize("links", ["0", "1"])
def test_times_are_learned(tmp_path: Path, backend: str, links: str) -> None:
    timed, _ = values(tmp_path, 2, learns, links, backend=backend)
    assert timed[:2] == [True, True]


def in_a_run(rank: int, links: str, dtype: str) -> list[bool]:
    set_up(rank, links)
    for number in range(48):
        sent = made_up(dtype, 2 * LARGE, number)
        got = sent.clone() if rank == 0 else torch.zeros_like(sent)
        compression = "off" if number < 20 else "on"
        lt.send(got, 1, compression=compression) if rank == 0 else lt.recv(got, 0)
        assert same(got, sent), number
    return [one.decision.compress for one in lt.transfers()]


@pytest.mark.parametrize(("backend", "dtype"), [(NCCL, "int16"), (BOTH, "float32")])
@pytest.mark.parametrize("links", ["0", "1"])
def test_tensors_without_a_header_come_as_they_were(
    tmp_path: Path, backend: str, dtype: str, links: str
) -> None:
    compressed, _ = values(tmp_path, 2, in_a_run, links, dtype, backend=backend)
    # headers have numbers 0, 1, 6, 15 and 32, where the run ends
    assert compressed[:32] == [False] * 32
    if dtype == "float32":  # of which codecs make less; NCCL has no int16
        assert compressed[32:] == [True] * 16


def odd_ones_in_a_run(rank: int, dtype: str) -> None:
    """Take what a run may hold, on a stream of its own; what does not belong to it goes apart."""
    set_up(rank)
    with torch.cuda.stream(torch.cuda.Stream()):
        for number in range(12):
            sent = made_up(dtype, 2 * LARGE, number)
            got = sent.clone() if rank == 0 else torch.zeros_like(sent)
            if number % 3 == rank and got.is_floating_point():
                got.requires_grad_()
            with torch.inference_mode(number % 4 == 2):
                lt.send(got, 1, compression="off") if rank == 0 else lt.recv(got.view(8, -1), 0)
            if rank == 0:
                got.detach().zero_()  # by what is put on the stream behind it
            else:
                assert same(got, sent), number
            apart = made_up(dtype, 4 * LARGE, number)[::2]
            with pytest.raises(InputError, match="contiguous"):
                lt.send(apart, 1) if rank == 0 else lt.recv(apart, 0)
    torch.cuda.synchronize()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "uint8", "int16"])
def test_all_that_a_run_may_hold_comes_as_it_was(tmp_path: Path, dtype: str) -> None:
    values(tmp_path, 2, odd_ones_in_a_run, dtype, backend=NCCL)


def unlike(rank: int, links: str) -> str:
    set_up(rank, links)
    tensor = made_up("float32" if rank == 0 else "int32", 4 * LARGE)
    told = ""
    if rank == 0:
        lt.send(tensor, 1, compression="on")
    else:
        try:
            lt.recv(tensor, 0)
        except LanescopeError as error:
            told = str(error)
    after = made_up("int64", 2 * LARGE)
    got = after if rank == 0 else torch.zeros_like(after)
    lt.send(got, 1) if rank == 0 else lt.recv(got, 0)
    assert same(got, after)
    return told


@pytest.mark.parametrize("backend", [NCCL, BOTH])
@pytest.mark.parametrize("links", ["0", "1"])
def test_unlike_tensors_are_refused(tmp_path: Path, backend: str, links: str) -> None:
    _, told = values(tmp_path, 2, unlike, links, backend=backend)
    assert "sent float32 of shape " in told


def not_aligned(rank: int, links: str) -> None:
    set_up(rank, links)
    for offset in (2, 4, 8):
        room = torch.zeros(3 * LARGE + 64, dtype=torch.uint8, device="cuda")
        whole = made_up("float32", 3 * LARGE)
        apart = room[offset * 2 :][: 3 * LARGE].view(torch.float32)
        if rank == 0:
            lt.send(whole, 1, compression="on")
            lt.send(apart.copy_(whole), 1, compression="on")
        else:
            got = torch.zeros_like(whole)
            lt.recv(apart, 0)
            lt.recv(got, 0)
            assert same(apart, whole)
            assert same(got, whole)
    torch.cuda.synchronize()


@pytest.mark.parametrize("links", ["0", "1"])
def test_tensors_that_are_not_aligned_come_as_they_were(tmp_path: Path, links: str) -> None:
    values(tmp_path, 2, not_aligned, links, backend=NCCL)


def ends_at_once(rank: int) -> None:
    set_up(rank)
    tensor = made_up("float32", 16 * LARGE)
    if rank == 0:
        torch.cuda._sleep(200_000_000)  # some tenth of a second
        lt.send(tensor, 1, compression="on")
        if not torch.cuda.can_device_access_peer(0, 1):
            torch.cuda.synchronize()
        ranks._finish()  # as the end of a process does
        return
    got = torch.zeros_like(tensor)
    lt.recv(got, 0)
    assert same(got, tensor)


def test_what_is_under_way_at_the_end_of_a_process_comes(tmp_path: Path) -> None:
    values(tmp_path, 2, ends_at_once, backend=NCCL)


def only_one(rank: int) -> int:
    set_up(rank, str(rank))
    tensor = made_up("float32", 2 * LARGE)
    got = tensor if rank == 0 else torch.zeros_like(tensor)
    lt.send(got, 1) if rank == 0 else lt.recv(got, 0)
    assert same(got, tensor)
    torch.cuda.synchronize()
    return len(ranks._open)


def test_one_rank_that_wants_no_links_is_enough(tmp_path: Path) -> None:
    assert values(tmp_path, 2, only_one, backend=NCCL) == [0, 0]


def alone(rank: int) -> None:
    set_up(rank)
    if rank == 1:
        lt.recv(made_up("float32", 2 * LARGE), 0)
    os._exit(0)


@pytest.mark.parametrize("backend", [NCCL, BOTH])
def test_who_gets_no_header_is_reported(tmp_path: Path, backend: str) -> None:
    _, receiver = run(tmp_path, 2, alone, timeout=3, backend=backend)
    assert receiver.kind == "LanescopeError"
    assert "broke off: " in receiver.error
