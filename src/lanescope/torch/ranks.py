"""Between ranks: what a sender says before a tensor, and channels that take the place of NCCL.

A header costs the host some tens of microseconds, and the receiver cannot begin before it. Where
the sender sees that tensors of a kind go as they are again and again, it announces so many more
of them that both sides go straight to PyTorch's own call for each. Between GPUs of two ranks of one
node there may be a channel.
"""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from dataclasses import dataclass, field
from datetime import timedelta
from math import prod
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary, WeakSet

from lanescope.compression.deciding import Decision, Transfer
from lanescope.compression.meeting import InStore
from lanescope.compression.peer import PeerReceiver, PeerSender
from lanescope.compression.transfers import Record
from lanescope.errors import LanescopeError

if TYPE_CHECKING:
    from lanescope.torch.deciding import Stopwatch  # which needs PyTorch

_MAGIC = b"lanescp\x03"
_MOST_SIDES = 8
_HEADER = struct.Struct(f"<8sBB24s{_MOST_SIDES}QQ12sHH")
_CHECK = struct.Struct("<I")
HEADER_BYTES = 128
_NOTE = struct.Struct("<QI")
NOTE_BYTES = 16
_TIMED, _FLAT = 1, 2
#: Who sends to whom, the type of values and how many.
TensorKind = tuple[int, int | str, str, int]
#: After the second header in a row that has a tensor go as it is; doubled after each next one.
_FIRST_RUN, _LONGEST_RUN = 4, 32
#: Of which runs are under way, or headers are counted.
_MOST_KINDS = 1024
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = ("net", "ipc")
#: 0 switches them off, on any of the two ranks.
VARIABLE = "LANESCOPE_LINKS"
_OFF = "off"
#: How long the end of a process waits for what it sends.
_END_SECONDS = 30.0
Half = PeerSender | PeerReceiver
_known: WeakKeyDictionary[Any, dict[tuple[int, int, int], Half | None]] = WeakKeyDictionary()
_open: WeakSet[Half] = WeakSet()
_warned: list[str] = []


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
class PlainRun:
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

    _runs: dict[TensorKind, PlainRun] = field(default_factory=dict)

    def next_of(self, kind: TensorKind) -> PlainRun | None:
        """Return the run in which the next tensor of a kind has no header; None: it has one."""
        run = self._runs.get(kind)
        return None if run is None or run.left == 0 else run

    def announce(self, kind: TensorKind, transfer: Transfer, decision: Decision) -> int:
        """Return how many shall follow without a header, for the header of a tensor to send."""
        if decision.compress:
            self._runs.pop(kind, None)
            return 0
        if kind not in self._runs and len(self._runs) >= _MOST_KINDS and not self._make_room():
            return 0
        run = self._runs.setdefault(kind, PlainRun())
        run.headers += 1
        run.decided = (transfer, decision)
        run.logged.clear()
        if run.headers > 1:
            run.left = min(_FIRST_RUN << min(run.headers - 2, 8), _LONGEST_RUN)
        return run.left

    def expect(self, kind: TensorKind, count: int) -> None:
        """Take in what a header has announced."""
        if count:
            if kind not in self._runs and len(self._runs) >= _MOST_KINDS:
                self._make_room()  # as far as it goes: the sender has made its
            self._runs[kind] = PlainRun(left=count)
        else:
            self._runs.pop(kind, None)

    def _make_room(self) -> bool:
        """Forget a kind of which no run is under way; return whether there was one."""
        idle = next((kind for kind, run in self._runs.items() if run.left == 0), None)
        if idle is None:
            return False
        del self._runs[idle]
        return True


class ByChannel:
    """Tells what became of a transfer by a channel, once it has ended.

    Parameters
    ----------
    watch
        What both ranks have timed; None: the channel's own time counts.
    """

    def __init__(self, record: Record, watch: Stopwatch | None = None) -> None:
        self._record, self._watch = record, watch

    @property
    def seconds(self) -> float | None:
        """How long it took; None where it has not ended, 0 where it was lost."""
        outcome = self._record.outcome
        if outcome is None:
            return None
        if self._record.damaged:
            return 0.0
        return outcome.seconds if self._watch is None else self._watch.seconds

    @property
    def wire_bytes(self) -> int | None:
        """What crossed the link."""
        outcome = self._record.outcome
        return None if outcome is None else outcome.wire_bytes


def known_links(group: Any) -> dict[tuple[int, int, int], Half | None]:
    """Return what `link` has made or refused for a group, by both ranks and this one's GPU."""
    found = _known.get(group)
    return _known.setdefault(group, {}) if found is None else found


def link(
    group: Any, store: Any, ends: tuple[int, int], sends: bool, gpu: int, timeout: timedelta
) -> Half | None:
    """Return this rank's half of the channel from one rank to another; None where there is none.

    Both ranks call it before the first tensor that may go by it, and come to the same: it is made
    then, and both wait for each other.

    Parameters
    ----------
    store
        Of the group.
    ends
        The rank that sends, and the one that receives.
    sends
        Whether this is the first of them.

    Raises
    ------
    RuntimeError
        If the other rank does not come in time.
    """
    known = known_links(group)
    key = (*ends, gpu)
    if key not in known:
        known[key] = _made(store, ends, sends, gpu, timeout)
    return known[key]


def _made(
    store: Any, ends: tuple[int, int], sends: bool, gpu: int, timeout: timedelta
) -> Half | None:
    name = f"{ends[0]}>{ends[1]}"
    own, other = (f"lanescope/place/{name}/{end}" for end in ("sr" if sends else "rs"))
    here = _here()
    store.set(own, here)
    store.wait([other], timeout)
    there = store.get(other).decode()
    store.delete_key(other)
    if there != here or here == _OFF:
        return None
    meet, patience = InStore(store, name), timeout.total_seconds()
    try:
        if sends:
            half: Half = PeerSender(gpu, meet, compression="off", patience_seconds=patience)
        else:
            half = PeerReceiver(gpu, meet, patience_seconds=patience)
    except LanescopeError as error:  # which the other rank has, too
        _warn(f"between ranks {ends[0]} and {ends[1]} tensors go by NCCL: {error}")
        return None
    if not _open:
        Finalize(None, _finish, exitpriority=100)
    _open.add(half)
    return half


def _warn(sentence: str) -> None:
    """Warn of what is like for all pairs of ranks: once."""
    if not _warned:
        warnings.warn(f"{sentence} ({VARIABLE}=0 does not try anything else)", stacklevel=2)
    _warned.append(sentence)


def _finish() -> None:
    """Let all that is under way reach the other ranks before this process ends."""
    for half in tuple(_open):
        try:
            half.finish(_END_SECONDS)
        except LanescopeError as error:
            warnings.warn(f"a tensor between GPUs of this node: {error}", stacklevel=2)


def _here() -> str:
    """Return what this process says of itself, also where it wants no channels."""
    return _OFF if os.environ.get(VARIABLE) == "0" else place()


def place() -> str:
    """Return what two processes have in common that can share GPUs' memory and a socket."""
    parts = [str(os.geteuid())]
    try:
        parts.append(_BOOT.read_text().strip())
        parts += [str(Path(f"/proc/self/ns/{kind}").stat().st_ino) for kind in _NAMESPACES]
    except OSError:  # no place that another process has
        parts.append(os.urandom(16).hex())
    return " ".join(parts)
