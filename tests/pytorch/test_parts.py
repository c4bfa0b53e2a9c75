"""Pieces of GPUs' tensors, with a core that stands in for a GPU's; the tensors lie on a CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)

import lanescope.torch as lt  # noqa: E402
from lanescope._core import native  # noqa: E402
from lanescope.compression.stream import Codec  # noqa: E402
from lanescope.errors import LanescopeError  # noqa: E402
from lanescope.torch import pieces, sides  # noqa: E402
from tests.pytorch.ranks import LEAST_BYTES, values  # noqa: E402

GPU_CODEC = Codec("delta")


class Core:
    """Codes by writing values plainly behind their number; counts high bits, too, as kernels do."""

    Codec, Dtype, NativeError = native.Codec, native.Dtype, native.NativeError
    part_front_bytes = staticmethod(native.part_front_bytes)
    part_room_bytes = staticmethod(native.part_room_bytes)
    part_bytes_used = staticmethod(native.part_bytes_used)

    def __init__(self) -> None:
        self.loaded: list[Any] = []

    def load_part_codec(self, gpu: Any, *how: Any) -> None:
        self.loaded.append(how)

    def encode_part(self, gpu: Any, source: int, size: int, *rest: Any) -> None:
        number, room, used, _ = rest[3:]
        front = self.part_front_bytes(size)
        ctypes.memset(room, number + 1, front)
        ctypes.memmove(room + front, source, size)
        ctypes.c_uint64.from_address(used).value = 7 << 40 | size

    def decode_part(self, gpu: Any, part: int, part_bytes: int, *rest: Any) -> None:
        number, target, size, fault, _ = rest[3:]
        front = self.part_front_bytes(size)
        assert part_bytes == front + size
        ctypes.memmove(target, part + front, size)
        if ctypes.c_uint8.from_address(part).value != number + 1:
            ctypes.memmove(fault, (ctypes.c_uint32 * 3)(1, 5, 2), 12)


@contextmanager
def core_in_place() -> Iterator[Core]:
    with pytest.MonkeyPatch.context() as patch:
        core = Core()
        stream = SimpleNamespace(synchronize=lambda: None)
        patch.setattr(pieces, "native", core)
        patch.setattr(pieces, "current_stream", lambda *given: 0)
        patch.setattr(torch.cuda, "current_stream", lambda device: stream)
        patch.setattr(sides, "encoder_of", pieces.PartEncoder)
        patch.setattr(
            sides, "decoder_of", lambda all, header: pieces.PartDecoder(all, GPU_CODEC, 1)
        )
        patch.setattr(pieces, "most_bytes", pieces.room_bytes)
        yield core


def both_ways(rank: int, damage: bool) -> tuple[str, int]:
    """Return what went wrong, and how many bytes went over the link last."""
    tensor = (torch.arange(17 * LEAST_BYTES // 4 + 3, dtype=torch.float32) // 8).add_(1)
    with core_in_place() as core:
        if damage and rank == 0:
            begin = core.encode_part
            core.encode_part = lambda *given: (  # type: ignore[method-assign]
                begin(*given),
                given[6] == 2 and ctypes.memset(given[7], 99, 1),
            )
        told = ""
        for _ in range(2):
            if rank == 0:
                lt.send(tensor, 1, compression="on", codec=str(GPU_CODEC))
                core.encode_part = Core().encode_part  # type: ignore[method-assign]
                continue
            got = torch.zeros_like(tensor)
            try:
                lt.recv(got, 0)
            except LanescopeError as error:
                told = str(error)
            else:
                assert torch.equal(got, tensor)
        assert set(core.loaded) == {(native.Codec.delta, native.Dtype.float32)}
    return told, lt.transfers()[-1].wire_bytes or 0 if rank == 0 else 0


@pytest.mark.parametrize("damage", [False, True])
def test_parts_come_as_they_were_or_are_refused(tmp_path: Path, damage: bool) -> None:
    (_, wire_bytes), (told, _) = values(tmp_path, 2, both_ways, damage)
    assert wire_bytes > 17 * LEAST_BYTES
    if damage:
        assert "came in damaged: block 4 of piece 2: its checksum is wrong; send it again" in told
    else:
        assert told == ""


def test_what_is_no_part_is_refused_before_a_gpu_is_used() -> None:
    how = (native.Codec.delta, native.Dtype.float32, 1, 0)
    most = native.part_room_bytes(1 << 20)
    assert most == native.part_front_bytes(1 << 20) + (1 << 20)
    for size in (0, native.part_front_bytes(1 << 20) - 1, most + 1):
        with pytest.raises(native.NativeError, match="no part of an array of 1048576"):
            native.decode_part(0, 0, size, *how, 0, 1 << 20, 0, 0)
    with pytest.raises(native.NativeError, match="multiple of 16"):
        native.decode_part(0, 8, most, *how, 0, 1 << 20, 0, 0)
    with pytest.raises(native.NativeError, match="multiple of 16"):
        native.encode_part(0, 0, 1 << 20, *how, 8, 0, 0)


def test_a_header_of_no_codec_is_refused() -> None:
    piece: Any = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    header: Any = SimpleNamespace(codec="lzma")
    with pytest.raises(LanescopeError, match="no codec 'lzma'"):
        pieces.decoder_of((piece,), header)
