"""Runs of tensors without a header: all types, what is logged, and errors amid."""

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
from lanescope.errors import InputError, LanescopeError  # noqa: E402
from lanescope.torch import deciding, exchange, ranks  # noqa: E402
from tests.pytorch.ranks import LEAST_BYTES, values  # noqa: E402
from tests.pytorch.test_lines import Half  # noqa: E402

DTYPES = ("int16", "uint16", "bool", "float8_e4m3fn", "complex64", "bfloat16")


def of_type(dtype: str, number: int) -> Any:
    whole = torch.arange(LEAST_BYTES, dtype=torch.int64).add(number).remainder(120)
    if dtype == "bool":
        return whole.remainder(2).bool()
    return whole.to(torch.uint8).view(getattr(torch, dtype))


def each_type(rank: int) -> None:
    exchange.may_lack_header = attrgetter("is_cpu")
    for dtype in DTYPES:
        for number in range(8):
            sent = of_type(dtype, number)
            got = sent if rank == 0 else of_type(dtype, 77)
            lt.broadcast(got, 0, compression="off")
            assert got.view(torch.uint8).equal(sent.view(torch.uint8)), (dtype, number)
            got = sent if rank == 0 else of_type(dtype, 77)
            lt.send(got, 1, compression="off") if rank == 0 else lt.recv(got, 0)
            assert got.view(torch.uint8).equal(sent.view(torch.uint8)), (dtype, number)


def test_types_that_the_backend_lacks_go_in_runs_too(tmp_path: Path) -> None:
    values(tmp_path, 2, each_type)  # gloo broadcasts no int16, and NCCL sends none


def with_tags(rank: int) -> list[str]:
    exchange.may_lack_header = attrgetter("is_cpu")
    for tag in range(5):
        tensor = of_type("float8_e4m3fn", tag)
        lt.send(tensor, 1, None, tag, compression="off") if rank == 0 else lt.recv(
            tensor, 0, None, tag
        )
    return [one.transfer.tag for one in lt.transfers()]


def test_each_is_in_the_log_with_its_own_tag(tmp_path: Path) -> None:
    sent, _ = values(tmp_path, 2, with_tags)
    assert sent == ["", "1", "2", "3", "4"]


class Strict(Half):
    """Refuses arrays that do not fit, as a channel does, when it has taken what came."""

    def receive(self, out: Any = None) -> Any:
        assert self.array_is_next or self.hear() is None
        self.array_is_next = False
        room = torch.zeros(LEAST_BYTES, dtype=torch.uint8)
        dist.recv(room, 0)
        if out is not None and out.dtype != torch.float32:
            raise InputError("they are not alike")
        return room if out is None else out.copy_(room.view(out.dtype))


def unlike(rank: int) -> list[str]:
    """Let a tensor of another type come by a channel, and then one that fits."""
    exchange.Exchange._link = lambda *given, **more: Strict()  # type: ignore[method-assign]
    deciding.Decisions.times = lambda *given: True  # type: ignore[method-assign]
    errors = []
    for dtype in (torch.int32, torch.float32):
        tensor = torch.full((LEAST_BYTES // 4,), 3, dtype=torch.float32 if rank == 0 else dtype)
        try:
            lt.send(tensor, 1, compression="on") if rank == 0 else lt.recv(tensor, 0)
        except LanescopeError as error:
            errors.append(str(error))
    return errors


def test_both_meet_after_a_tensor_that_does_not_fit(tmp_path: Path) -> None:
    sender, receiver = values(tmp_path, 2, unlike)
    assert sender == []  # over gloo the word that is missing is of the next tensor's
    assert len(receiver) == 1
    assert "float32" in receiver[0]


def lost_channel(rank: int) -> bool:
    class Lost:
        def announce(self, note: str) -> None:
            raise LanescopeError("the receiving process has ended")

    exchange.may_lack_header = attrgetter("is_cpu")
    exchange.Exchange._link = lambda *given, **more: Lost()  # type: ignore[method-assign]
    for _ in range(3 * (rank == 0)):  # the third would go, and nobody would take it
        with pytest.raises(LanescopeError, match="the receiving process has ended"):
            lt.send(of_type("int16", 0), 1, compression="off")
    return True


def test_no_run_begins_by_a_header_that_was_not_sent(tmp_path: Path) -> None:
    values(tmp_path, 2, lost_channel)


def test_a_receiver_remembers_no_more_kinds_than_a_sender() -> None:
    runs = ranks.PlainRuns()
    for count in range(3000):
        runs.expect((0, 1, "int16", count), 1)
        run = runs.next_of((0, 1, "int16", count))
        assert run is not None
        run.left -= 1
    assert len(runs._runs) <= ranks._MOST_KINDS
