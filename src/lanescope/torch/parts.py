"""Pieces of a GPU's tensor that are coded for one transfer, in the order of the current stream.

What kernels make is sent as it lies, so that the host waits for nothing but how long each piece is.
Streams, which `lanescope.compress` makes, put it in order before, and are read on the host first.
"""

from __future__ import annotations

from typing import Any

import torch

from lanescope._core import native
from lanescope.compression.choosing import dtype_of
from lanescope.compression.gpu_arrays import coded_dtype, current_stream
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import core_errors
from lanescope.errors import LanescopeError

#: Of PyTorch, whose types are not known where it is not installed.
Tensor = Any
ALIGNMENT = 16
_WORDS = native.PART_FAULT_BYTES // 4
_WRONG = {1: "its payload", 2: "its checksum", 3: "its mode"}


def room_bytes(piece_bytes: int) -> int:
    """Return the most bytes of a coded piece."""
    return int(native.part_room_bytes(piece_bytes))


class PartEncoder:
    """Codes pieces one after another."""

    def __init__(self, pieces: tuple[Tensor, ...], codec: Codec, dimensionality: int) -> None:
        device = pieces[0].device
        self._how = _how(pieces[0], codec, dimensionality)
        self._used = torch.zeros(len(pieces), dtype=torch.int64, device=device)
        self._there = torch.zeros(len(pieces), dtype=torch.int64, pin_memory=device.type == "cuda")

    def encode(self, number: int, piece: Tensor, room: Tensor) -> Tensor:
        """Return what becomes of a piece, the first bytes of `room`, when its length is known."""
        gpu = piece.device.index
        used = self._used[number]
        with core_errors():
            native.encode_part(
                gpu, piece.data_ptr(), piece.nbytes, *self._how, number, room.data_ptr(),
                used.data_ptr(), current_stream("torch", gpu),
            )  # fmt: skip
        self._there[number].copy_(used, non_blocking=True)
        torch.cuda.current_stream(piece.device).synchronize()
        payloads = native.part_bytes_used(int(self._there[number]))
        return room[: native.part_front_bytes(piece.nbytes) + payloads]


class PartDecoder:
    """Decodes pieces one after another; what was wrong is known at the end."""

    def __init__(self, pieces: tuple[Tensor, ...], codec: Codec, dimensionality: int) -> None:
        self._how = _how(pieces[0], codec, dimensionality)
        shape = (len(pieces), _WORDS)
        self._faults = torch.zeros(shape, dtype=torch.int32, device=pieces[0].device)

    def decode(self, number: int, part: Tensor, piece: Tensor) -> None:
        """Begin to put the values of a part into the piece that they are of.

        Raises
        ------
        LanescopeError
            If it cannot be one.
        """
        gpu = piece.device.index
        with core_errors():
            native.decode_part(
                gpu, part.data_ptr(), part.nbytes, *self._how, number, piece.data_ptr(),
                piece.nbytes, self._faults[number].data_ptr(), current_stream("torch", gpu),
            )  # fmt: skip

    def require_right(self) -> None:
        """Wait for all pieces. Raises `LanescopeError` where one came in damaged."""
        for number, (blocks, first, what, *_) in enumerate(self._faults.tolist()):
            if blocks:
                wrong = _WRONG.get(what, "it")
                raise LanescopeError(f"block {first - 1} of piece {number}: {wrong} is wrong")


def _how(piece: Tensor, codec: Codec, dimensionality: int) -> tuple[Any, Any, int]:
    how = (native.Codec[str(codec)], dtype_of(coded_dtype(piece.dtype)))
    with core_errors():
        native.load_part_codec(piece.device.index, *how)
    return (*how, dimensionality)
