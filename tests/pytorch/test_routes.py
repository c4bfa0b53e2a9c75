"""Tensors like those before take a shorter path: what else may come by the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope.compression.deciding import Choices, Transfer  # noqa: E402
from lanescope.compression.stream import Codec  # noqa: E402
from lanescope.errors import InputError  # noqa: E402
from lanescope.torch import deciding, exchange, ranks, routes  # noqa: E402
from tests.pytorch.ranks import LEAST_BYTES, values  # noqa: E402


def exchanged(rank: int, sent: Any, **options: Any) -> None:
    """Send a tensor from rank 0 to 1, where it is to come as it is."""
    if rank == 0:
        lt.send(sent, 1, **options)
        return
    got = torch.zeros_like(sent)
    assert lt.recv(got, 0, tag=options.get("tag", 0)) == 0
    assert torch.equal(routes.bytes_of(got), routes.bytes_of(sent))


def small_ones(rank: int) -> None:
    like = torch.zeros(200, dtype=torch.uint8)
    said = ranks.Header("uint8", (200,), 200, 0, False).pack()
    like[: len(said)] = torch.frombuffer(bytearray(said), dtype=torch.uint8)
    for tensor in (like, like, like + 1, like, like * 0):
        exchanged(rank, tensor)


def test_small_values_that_look_like_a_header_come_between_others(tmp_path: Path) -> None:
    values(tmp_path, 2, small_ones)


def all_that_differs(rank: int) -> list[str]:
    whole = torch.arange(LEAST_BYTES, dtype=torch.float32)
    for compression in ("on", "off", "on", "auto"):
        exchanged(rank, whole, compression=compression)
    assert len(routes.facts_of(dist.group.WORLD).routes) == 1
    for other in (whole[1:], whole.view(torch.int32), whole.double(), whole[:64]):
        exchanged(rank, other, compression="on")
        exchanged(rank, whole.view(4, -1), compression="on")
    exchanged(rank, whole, compression="on", tag=3)
    told = []
    apart = torch.zeros(LEAST_BYTES, 2)[:, 0]
    wrong: list[Any] = [
        lambda: lt.send(apart, 1) if rank == 0 else lt.recv(apart, 0),
        lambda: lt.send(whole, 1, compression="maybe"),
        lambda: lt.send(whole, 5) if rank == 0 else lt.recv(whole, 5),
    ]
    for call in wrong:
        with pytest.raises(InputError) as error:
            call()
        told.append(str(error.value))
    exchanged(rank, whole.clone().requires_grad_(), compression="on")
    with torch.inference_mode():
        exchanged(rank, whole.clone(), compression="on")
    if rank == 0:
        sent = lt.transfers()
        assert {one.transfer.tag for one in sent} == {"", "3"}
        assert [one.decision.compress for one in sent[:3]] == [True, False, True]
    return told


def test_what_differs_is_noticed(tmp_path: Path) -> None:
    for told in values(tmp_path, 2, all_that_differs):
        assert ".contiguous()" in told[0]
        assert "give auto, on or off" in told[1]
        assert "no rank 5" in told[2]


def many_kinds(rank: int) -> None:
    exchange._MOST_ROUTES = 3
    whole = torch.arange(LEAST_BYTES, dtype=torch.float32)
    for count in range(8):
        exchanged(rank, whole[count % 5 :], compression="on")
        assert len(routes.facts_of(dist.group.WORLD).routes) <= 3


def test_so_many_kinds_are_known(tmp_path: Path) -> None:
    values(tmp_path, 2, many_kinds)


def test_a_codec_once_chosen_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(Codec.RAW, 1), (Codec.ZVC, 1)]
    looks = iter(found)
    monkeypatch.setattr(deciding, "_chosen", lambda *given: next(looks))
    decisions = deciding.Decisions("cuda", "on", "auto")
    transfer = Transfer("", "r0>r1", "float32", 1 << 24)
    decided = [decisions.decide(transfer, None, ()) for _ in range(2 * Choices.RAW_USES)]
    # what no codec makes smaller is looked at again, after some, and then it is known for good
    compressed = [one.compress for one in decided]
    assert compressed == sorted(compressed)
    assert {one.codec for one in decided} == {Codec.RAW, Codec.ZVC}
    assert decided[-1] is decided[-2]
