"""Pieces of a tensor that are coded on a GPU for one transfer: what comes out is what went in."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

with warnings.catch_warnings():  # of PyTorch's, about others
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use"),
]

from lanescope.compression.stream import Codec  # noqa: E402
from lanescope.errors import LanescopeError  # noqa: E402
from lanescope.torch import pieces, routes  # noqa: E402

CASES = [
    ("bfloat16", "exponent"),
    ("float32", "delta"),
    ("float32", "zvc"),
    ("float64", "alp"),
    ("int64", "delta"),
]


def made_up(dtype: str, size: int) -> Any:
    steps = torch.arange(size // 8, dtype=torch.float64, device="cuda")
    values = (torch.sin(steps / 700) * 100).round() / 10
    return values.to(getattr(torch, dtype))


def coded(tensor: Any, codec: str, piece_bytes: int) -> tuple[Any, list[Any]]:
    cut = pieces.cut(tensor, piece_bytes)
    encoder = pieces.PartEncoder(cut, Codec(codec), 1)
    return cut, [
        encoder.encode(number, piece, pieces.room_for(cut)) for number, piece in enumerate(cut)
    ]


@pytest.mark.parametrize(("dtype", "codec"), CASES)
@pytest.mark.parametrize("size", [8, (1 << 20) + 24, 9 << 20])
def test_parts_come_back_as_they_were(dtype: str, codec: str, size: int) -> None:
    tensor = made_up(dtype, size)
    cut, made = coded(tensor, codec, 1 << 20)
    assert tensor.nbytes < 1 << 20 or sum(one.nbytes for one in made) < tensor.nbytes * 1.02
    got = torch.zeros_like(tensor)
    rooms = pieces.cut(got, 1 << 20)
    decoder = pieces.PartDecoder(rooms, Codec(codec), 1)
    for number, (part, room) in enumerate(zip(made, rooms, strict=True)):
        decoder.decode(number, part.clone(), room)
    decoder.require_right()
    assert len(cut) == len(made)
    assert torch.equal(routes.bytes_of(got), routes.bytes_of(tensor))


def test_damage_and_another_place_are_noticed() -> None:
    tensor = made_up("float32", 16 << 20)
    _, made = coded(tensor, "delta", 1 << 20)
    rooms = pieces.cut(torch.zeros_like(tensor), 1 << 20)
    decoder = pieces.PartDecoder(rooms, Codec("delta"), 1)
    for number, part in enumerate(made):
        decoder.decode(number, made[0] if number == 5 else part, rooms[number])
    with pytest.raises(LanescopeError, match=r"block \d+ of piece 5: its checksum is wrong"):
        decoder.require_right()
    decoder = pieces.PartDecoder(rooms, Codec("delta"), 1)
    made[3][-48:-40] ^= 255
    for number, part in enumerate(made):
        decoder.decode(number, part, rooms[number])
    with pytest.raises(LanescopeError, match=r"block \d+ of piece 3: "):
        decoder.require_right()
