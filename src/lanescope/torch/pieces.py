"""A tensor in pieces, each of which becomes a stream or a coded part, where it lies.

What kernels make of pieces on a GPU is sent as it lies, in the order of the current stream, so that
the host waits for nothing but how long each is. Streams, which `lanescope.compress` makes, put it
in order before, and are read on the host first.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from lanescope._core import native
from lanescope.compression.array_values import coded_dtype, current_stream
from lanescope.compression.codec import AUTO, compress, decompress, most_bytes
from lanescope.compression.deciding import dtype_of
from lanescope.compression.stream import Codec
from lanescope.compression.transfers import core_errors
from lanescope.errors import LanescopeError
from lanescope.torch.ranks import Header

#: Of PyTorch, whose types are not known where it is not installed.
Tensor = Any
_BLOCK_BYTES = 1 << 16
#: By kind of device, the least and the most that a piece has, and how many of them an array has
#: between these: on a GPU few, as the host has to learn how long each is.
PIECE_BYTES = {"cpu": (1 << 20, 4 << 20), "cuda": (16 << 20, 64 << 20)}
_PIECES = {"cpu": 8, "cuda": 4}
ALIGNMENT = 16
_WORDS = native.PART_FAULT_BYTES // 4
_WRONG = {1: "its payload", 2: "its checksum", 3: "its mode"}


def piece_bytes_of(tensor: Tensor) -> int:
    """Return of how many bytes of a tensor a stream is made: whole blocks of 64 KiB."""
    least, most = PIECE_BYTES[tensor.device.type]
    share = -(-int(tensor.nbytes) // _PIECES[tensor.device.type] // _BLOCK_BYTES) * _BLOCK_BYTES
    return min(max(share, least), most)


def cut(tensor: Tensor, piece_bytes: int) -> tuple[Tensor, ...]:
    """Return pieces of a contiguous tensor, in one dimension and as values that codecs know."""
    values = tensor.detach().reshape(-1)
    if values.is_complex():
        values = torch.view_as_real(values).reshape(-1)
    values = values.view(getattr(torch, coded_dtype(values.dtype)))
    return tuple(values.split(piece_bytes // values.element_size()))


class Encoder(Protocol):
    """Codes the pieces of a tensor."""

    def encode(self, number: int, piece: Tensor, room: Tensor) -> Tensor:
        """Return what becomes of a piece, which is the first bytes of `room`."""


class Decoder(Protocol):
    """Decodes the pieces of a tensor."""

    def decode(self, number: int, stream: Tensor, piece: Tensor) -> None:
        """Put the values of a coded piece into the piece that they are of.

        Raises
        ------
        LanescopeError
            If it is damaged, or of other values.
        """

    def require_right(self) -> None:
        """Raise `LanescopeError` where a piece was damaged, and `decode` did not know it."""


def room_for(pieces: tuple[Tensor, ...]) -> Tensor:
    """Return memory for what becomes of any of some pieces."""
    device = pieces[0].device
    most = (room_bytes if device.type == "cuda" else most_bytes)(pieces[0].nbytes)
    return torch.empty(most, dtype=torch.uint8, device=device)


def encoder_of(pieces: tuple[Tensor, ...], codec: Codec, dimensionality: int) -> Encoder:
    """Return what codes some pieces, where they lie."""
    if pieces[0].device.type == "cuda":
        return PartEncoder(pieces, codec, dimensionality)
    return StreamEncoder(codec, dimensionality)


def decoder_of(pieces: tuple[Tensor, ...], header: Header) -> Decoder:
    """Return what decodes the pieces that a header tells of. Raises `LanescopeError`."""
    if pieces[0].device.type != "cuda":
        return StreamDecoder()
    if header.codec not in tuple(Codec):
        raise LanescopeError(f"there is no codec {header.codec!r}")
    return PartDecoder(pieces, Codec(header.codec), header.dimensionality)


class StreamEncoder:
    """Makes streams of pieces on a CPU, by a codec or by that which suits each."""

    def __init__(self, codec: Codec | None, dimensionality: int) -> None:
        self._codec = AUTO if codec is None else codec
        self._dimensionality = dimensionality

    def encode(self, number: int, piece: Tensor, room: Tensor) -> Tensor:
        """Return the stream of a piece."""
        stream = compress(
            numpy_of(piece),
            self._codec,
            dtype=coded_dtype(piece.dtype),
            dimensionality=self._dimensionality,
            out=room.numpy(),
        )
        return room[: len(stream)]


class StreamDecoder:
    """Reads streams of pieces on a CPU."""

    def decode(self, number: int, stream: Tensor, piece: Tensor) -> None:
        """Put the values of a stream into their piece. Raises `LanescopeError`."""
        decompress(stream.numpy(), out=numpy_of(piece))

    def require_right(self) -> None:
        """Return: `decode` knew it."""


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
