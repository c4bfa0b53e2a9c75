"""A tensor in pieces, each of which becomes a stream, where it lies."""

from __future__ import annotations

from typing import Any

import torch

from lanescope.compression.codec import AUTO, compress, decompress, most_bytes
from lanescope.compression.gpu_arrays import coded_dtype
from lanescope.compression.stream import Codec
from lanescope.errors import LanescopeError

#: Of PyTorch, whose types are not known where it is not installed.
Tensor = Any
_BLOCK_BYTES = 1 << 16
#: By kind of device, the least and the most that a piece has; between them an array has eight.
PIECE_BYTES = {"cpu": (1 << 20, 4 << 20), "cuda": (16 << 20, 64 << 20)}


def piece_bytes_of(tensor: Tensor) -> int:
    """Return of how many bytes of a tensor a stream is made: whole blocks of 64 KiB."""
    least, most = PIECE_BYTES[tensor.device.type]
    eighth = -(-int(tensor.nbytes) // 8 // _BLOCK_BYTES) * _BLOCK_BYTES
    return min(max(eighth, least), most)


def cut(tensor: Tensor, piece_bytes: int) -> tuple[Tensor, ...]:
    """Return pieces of a contiguous tensor, in one dimension and as values that codecs know."""
    values = tensor.detach().reshape(-1)
    if values.is_complex():
        values = torch.view_as_real(values).reshape(-1)
    values = values.view(getattr(torch, coded_dtype(values.dtype)))
    return tuple(values.split(piece_bytes // values.element_size()))


def room_for(pieces: tuple[Tensor, ...]) -> Tensor:
    """Return memory for the stream of any of some pieces."""
    most = most_bytes(pieces[0].nbytes) if pieces else 0
    return torch.empty(most, dtype=torch.uint8, device=pieces[0].device)


def encode(piece: Tensor, codec: Codec | None, dimensionality: int, room: Tensor) -> Tensor:
    """Return the stream of a piece, which is the first bytes of `room`."""
    dtype = coded_dtype(piece.dtype)
    name = AUTO if codec is None else codec
    if piece.device.type == "cuda":
        found: Tensor = compress(piece, name, dimensionality=dimensionality, out=room)
        return found
    stream = compress(
        numpy_of(piece), name, dtype=dtype, dimensionality=dimensionality, out=room.numpy()
    )
    return room[: len(stream)]


def decode(stream: Tensor, piece: Tensor) -> None:
    """Put the values of a stream into the piece that they are of.

    Raises
    ------
    LanescopeError
        If the stream is damaged, or of other values.
    """
    if piece.device.type == "cuda":
        decompress(stream, out=piece)
    else:
        decompress(stream.numpy(), out=numpy_of(piece))


def numpy_of(piece: Tensor) -> Any:
    """Return a piece in the host's memory as an array of NumPy: bf16 as uint16, as codecs do."""
    if piece.dtype is torch.bfloat16:
        return piece.view(torch.uint16).numpy()
    return piece.numpy()


def require_room(stream_bytes: int, room: Tensor) -> None:
    """Refuse a stream that no piece has. Raises `LanescopeError`."""
    if not 0 < stream_bytes <= room.numel():
        raise LanescopeError(
            f"a stream of {stream_bytes} bytes was announced, where {room.numel()} are the most; "
            "use the same version of lanescope on both sides"
        )
