"""What a sender says before a tensor and each compressed piece of it, and tensors without it.

A header costs the host some tens of microseconds, and the receiver cannot begin before it. Where
the sender sees that tensors of a kind go as they are again and again, it announces so many more
of them that both sides go straight to PyTorch's own call for each.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from math import prod
from typing import Any, Self

from lanescope.compression.deciding import Decision, Transfer

_MAGIC = b"lanescp\x03"
_MOST_SIDES = 8
_HEADER = struct.Struct(f"<8sBB24s{_MOST_SIDES}QQ12sHH")
_CHECK = struct.Struct("<I")
HEADER_BYTES = 128
_NOTE = struct.Struct("<QI")
NOTE_BYTES = 16
_TIMED, _FLAT = 1, 2
#: Who sends to whom, the type of values and how many.
Kind = tuple[int, int | str, str, int]
#: After the second header in a row that has a tensor go as it is; doubled after each next one.
_FIRST_RUN, _LONGEST_RUN = 4, 32
#: Of which runs are under way, or headers are counted.
_MOST_KINDS = 1024


@dataclass(frozen=True, slots=True)
class Header:
    """How a tensor travels.

    Attributes
    ----------
    dtype
        Of its values, as PyTorch names it, without ``torch.``.
    shape
        Of the tensor; with more than eight dimensions as if it had one.
    size
        Bytes of the tensor.
    piece_bytes
        Of the tensor, that become a stream each; 0: it travels as it is, in one message.
    timed
        Whether both sides meet after the transfer, so that the sender knows how long it took.
    codec, dimensionality
        Of pieces of GPUs' tensors, which do not say so themselves; else empty, and 1.
    plain_after
        How many tensors of as many values of the type come next without a header, as they are.
    """

    dtype: str
    shape: tuple[int, ...]
    size: int
    piece_bytes: int
    timed: bool
    codec: str = ""
    dimensionality: int = 1
    plain_after: int = 0

    def pack(self) -> bytes:
        """Return `HEADER_BYTES` bytes."""
        flat = len(self.shape) > _MOST_SIDES
        shape = (prod(self.shape),) if flat else self.shape
        flags = _TIMED * self.timed | _FLAT * flat | len(shape) << 4
        sides = shape + (0,) * (_MOST_SIDES - len(shape))
        item = self.size // max(1, prod(self.shape))
        how = (self.piece_bytes, self.codec.encode(), self.dimensionality, self.plain_after)
        said = _HEADER.pack(_MAGIC, flags, item, self.dtype.encode(), *sides, *how)
        return (said + _CHECK.pack(zlib.crc32(said))).ljust(HEADER_BYTES, b"\0")

    @classmethod
    def read(cls, data: bytes) -> Self | None:
        """Return what the first bytes say, or None where they are no header."""
        if len(data) < HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
            return None
        said, check = data[: _HEADER.size], data[_HEADER.size :][: _CHECK.size]
        if _CHECK.pack(zlib.crc32(said)) != check:
            return None
        _, flags, item, dtype, *sides, piece_bytes, codec, order, plain = _HEADER.unpack(said)
        shape = tuple(sides[: flags >> 4])
        name, coded = (text.rstrip(b"\0").decode() for text in (dtype, codec))
        size, timed = item * prod(shape), bool(flags & _TIMED)
        return cls(name, shape, size, piece_bytes, timed, coded, order, plain)

    @property
    def pieces(self) -> int:
        """How many streams come; 0 where it travels as it is."""
        return -(-self.size // self.piece_bytes) if self.piece_bytes else 0

    @property
    def what(self) -> str:
        """For people."""
        return f"{self.dtype} of shape {self.shape}"

    def fits(self, dtype: str, values: int) -> bool:
        """Whether a tensor of such values, and so many, can take what comes."""
        return self.dtype == dtype and prod(self.shape) == values


def looks_like_header(data: bytes) -> bool:
    """Whether values begin as a header does, so that they have to travel behind one."""
    return Header.read(data) is not None


def pack_note(stream_bytes: int) -> bytes:
    """Return `NOTE_BYTES` bytes that say how long the next stream is; 0: none comes."""
    said = _NOTE.pack(stream_bytes, zlib.crc32(stream_bytes.to_bytes(8, "little")))
    return said.ljust(NOTE_BYTES, b"\0")


def read_note(data: bytes) -> int | None:
    """Return what a note says, or None where it is none."""
    stream_bytes, check = _NOTE.unpack(data[: _NOTE.size])
    return stream_bytes if check == zlib.crc32(stream_bytes.to_bytes(8, "little")) else None


@dataclass(slots=True)
class Run:
    """Of tensors of a kind.

    Attributes
    ----------
    headers
        How many came in a row, with tensors that went as they were.
    left
        How many tensors come without a header; who lets one go counts it.
    decided
        What the last header's tensor was, and why it went as it did; the sender alone knows it.
    logged
        By tag, what is in the log of each tensor since then.
    """

    headers: int = 0
    left: int = 0
    decided: tuple[Transfer, Decision] | None = None
    logged: dict[int, Any] = field(default_factory=dict)


@dataclass(slots=True)
class PlainRuns:
    """Of one group in one process, as sender and as receiver."""

    _runs: dict[Kind, Run] = field(default_factory=dict)

    def next_of(self, kind: Kind) -> Run | None:
        """Return the run in which the next tensor of a kind has no header; None: it has one."""
        run = self._runs.get(kind)
        return None if run is None or run.left == 0 else run

    def announce(self, kind: Kind, transfer: Transfer, decision: Decision) -> int:
        """Return how many shall follow without a header, for the header of a tensor to send."""
        if decision.compress:
            self._runs.pop(kind, None)
            return 0
        if kind not in self._runs and len(self._runs) >= _MOST_KINDS and not self._make_room():
            return 0
        run = self._runs.setdefault(kind, Run())
        run.headers += 1
        run.decided = (transfer, decision)
        run.logged.clear()
        if run.headers > 1:
            run.left = min(_FIRST_RUN << min(run.headers - 2, 8), _LONGEST_RUN)
        return run.left

    def expect(self, kind: Kind, count: int) -> None:
        """Take in what a header has announced."""
        if count:
            if kind not in self._runs and len(self._runs) >= _MOST_KINDS:
                self._make_room()  # as far as it goes: the sender has made its
            self._runs[kind] = Run(left=count)
        else:
            self._runs.pop(kind, None)

    def _make_room(self) -> bool:
        """Forget a kind of which no run is under way; return whether there was one."""
        idle = next((kind for kind, run in self._runs.items() if run.left == 0), None)
        if idle is None:
            return False
        del self._runs[idle]
        return True
