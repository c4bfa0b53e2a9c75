"""The messages of one transfer, over a process group of PyTorch.

Messages go to one rank or to all. What the sender says of them, in headers and notes, goes by
messages of its own where the group takes CPU tensors. The first one may be received into the tensor
itself: over gloo a message may be shorter than the room for it, and so a sender without lanescope
is noticed. A group of NCCL alone has messages only in GPUs' memory, for which the host would have
to wait: there headers and notes have a line of their own, or are written into the group's store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from lanescope.compression.deciding import Transfer
from lanescope.torch.ranks import HEADER_BYTES, NOTE_BYTES, Header, PlainRuns

#: Of PyTorch, whose types are not known where it is not installed.
Tensor = Any
_USUAL_TIMEOUT = timedelta(minutes=30)
#: Types that gloo and NCCL have; others go as bytes: NCCL lacks int16, complex ones and some more.
_EVERYWHERE = frozenset(
    (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64),
    )
)
#: To connect by gloo, with all there; where a firewall lets nothing pass, notes go by the store.
_CONNECTING = timedelta(seconds=30)
_TAG = 0
_connected: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class TorchWork(Protocol):
    """What PyTorch returns of a message that is under way."""

    def wait(self) -> Any:
        """Return when it has ended; of NCCL: let the current stream wait for it."""


class ToPeer:
    """To one other rank, or from it: from any, where none is given, until one is heard.

    Attributes
    ----------
    peer
        The other rank, by the default group's numbers.
    """

    def __init__(self, group: Any, peer: int | None, tag: int) -> None:
        self._group, self._tag = group, tag
        self.peer = peer

    def put(self, data: Tensor) -> TorchWork:
        """Begin to send a tensor, or some of one."""
        return _begun(dist.isend(data, self.peer, self._group, self._tag))

    def get(self, room: Tensor) -> TorchWork:
        """Begin to receive as much as `room` has."""
        return _begun(dist.irecv(room, self.peer, self._group, self._tag))

    def get_first(self, room: Tensor) -> None:
        """Receive at most as much, and learn from whom."""
        self.peer = dist.recv(room, self.peer, self._group, self._tag)

    def meet(self, sends: bool, device: torch.device) -> None:
        """Return, or let the current stream go on, when both sides have come so far."""
        word = torch.zeros(1, device=device)
        # NCCL may end a short sending before it is received, so that the sender has to wait
        # for the receiver's; gloo ends none, and the receiver's would meet those of its program.
        if device.type == "cpu":
            (self.put(word) if sends else self.get(word)).wait()
        else:
            (self.get(word) if sends else self.put(word)).wait()


class ToAll:
    """From one rank to all others of the group."""

    def __init__(self, group: Any, source: int) -> None:
        self._group = group
        self.peer: int | None = source

    def put(self, data: Tensor) -> TorchWork:
        """Begin to send a tensor, or some of one, to all."""
        return _begun(dist.broadcast(data, self.peer, self._group, async_op=True))

    def get(self, room: Tensor) -> TorchWork:
        """Begin to receive as much as `room` has."""
        return self.put(room)

    def get_first(self, room: Tensor) -> None:
        """Receive as much."""
        self.get(room).wait()

    def meet(self, sends: bool, device: torch.device) -> None:
        """Return, or let the current stream go on, when all have come so far."""
        dist.all_reduce(torch.zeros(1, device=device), group=self._group)


Messages = ToPeer | ToAll


def _begun(work: Any) -> TorchWork:
    assert work is not None, "this rank is one of the group"
    begun: TorchWork = work
    return begun


class Notes(Protocol):
    """What the sender says of its messages."""

    def open(self, header: Header) -> TorchWork:
        """Say how the tensor travels."""

    def accept(self, tensor: Tensor) -> Header | None:
        """Return that; None where plain values came, which are in the tensor then."""

    def tell(self, note: bytes) -> TorchWork:
        """Say how long the next stream is."""

    def listen(self) -> Callable[[], bytes]:
        """Return what gives the next note, once it is there."""


class NotesInMessages:
    """Notes that go as CPU tensors.

    Parameters
    ----------
    into_tensor
        Receive the first message into the tensor itself: all of the values, if it is no header.
    """

    def __init__(self, messages: Messages | PairLine | AllLine, into_tensor: bool) -> None:
        self._messages, self._into_tensor = messages, into_tensor

    def open(self, header: Header) -> TorchWork:
        """Say how the tensor travels."""
        return self.tell(header.pack())

    def accept(self, tensor: Tensor) -> Header | None:
        """Return that; None where plain values came, which are in the tensor then."""
        own = bytes_of(tensor) if self._into_tensor else None
        if own is None or own.numel() < HEADER_BYTES:
            room = torch.zeros(HEADER_BYTES, dtype=torch.uint8)
        else:
            room = own
        self._messages.get_first(room)
        header = Header.read(first_bytes(room))
        if header is None and own is not None and room is not own:
            own.copy_(room[: own.numel()])
        return header

    def tell(self, note: bytes) -> TorchWork:
        """Say how long the next stream is."""
        return self._messages.put(torch.frombuffer(bytearray(note), dtype=torch.uint8))

    def listen(self) -> Callable[[], bytes]:
        """Return what gives the next note, once it is there."""
        room = torch.zeros(NOTE_BYTES, dtype=torch.uint8)
        work = self._messages.get(room)

        def hear() -> bytes:
            work.wait()
            return bytes(room.numpy())

        return hear


class NotesInStore:
    """Notes in a group's store, which are read in the order in which they were written.

    Parameters
    ----------
    ends
        Who writes, and for whom.
    readers
        How many read each note; the last one takes it away.
    """

    _turns: ClassVar[WeakKeyDictionary[Any, dict[str, int]]] = WeakKeyDictionary()

    def __init__(self, group: Any, ends: tuple[int, int | str], readers: int) -> None:
        self._store, self._timeout = store_of(group), timeout_of(group)
        self._key, self._readers = f"lanescope/{ends[0]}>{ends[1]}", readers
        self._counts = self._turns.setdefault(group, defaultdict(int))

    def open(self, header: Header) -> TorchWork:
        """Write how the tensor travels."""
        return self.tell(header.pack())

    def accept(self, tensor: Tensor) -> Header | None:
        """Read that."""
        return Header.read(self._read())

    def tell(self, note: bytes) -> TorchWork:
        """Write how long the next stream is."""
        self._store.set(self._next(), note.hex())
        return CompletedWork()

    def listen(self) -> Callable[[], bytes]:
        """Return what reads the next note."""
        return self._read

    def _read(self) -> bytes:
        key = self._next()
        self._store.wait([key], self._timeout)
        note = bytes.fromhex(self._store.get(key).decode())
        if self._readers == 1:
            self._store.delete_key(key)
        elif self._store.add(f"{key}/read", 1) == self._readers:
            self._store.delete_key(key)
            self._store.delete_key(f"{key}/read")
        return note

    def _next(self) -> str:
        self._counts[self._key] += 1
        return f"{self._key}/{self._counts[self._key]}"


class NotesByChannel:
    """Headers that go along a channel, between what is announced of its arrays.

    Parameters
    ----------
    half
        This rank's half of the channel.
    """

    def __init__(self, half: Any) -> None:
        self._half = half

    def open(self, header: Header) -> TorchWork:
        """Say how the tensor travels."""
        return self.tell(header.pack())

    def accept(self, tensor: Tensor) -> Header | None:
        """Return that; None where an array of the channel comes, without a header."""
        note = self._half.hear()
        return None if note is None else Header.read(bytes.fromhex(note))

    def tell(self, note: bytes) -> TorchWork:
        """Say anything."""
        self._half.announce(note.hex())
        return CompletedWork()

    def listen(self) -> Callable[[], bytes]:
        """Return what gives the next note."""
        return lambda: bytes.fromhex(self._half.hear() or "")


class CompletedWork:
    """What was done at once."""

    def wait(self) -> bool:
        """Return at once."""
        return True


@cache
def name_of(dtype: torch.dtype) -> str:
    """Return the name of a type without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def bytes_of(tensor: Tensor) -> Tensor:
    """Return a tensor's memory as bytes."""
    return tensor.detach().reshape(-1).view(torch.uint8)


def carried(tensor: Tensor) -> Tensor:
    """Return a tensor of the same memory that any backend sends and receives."""
    if tensor.dtype not in _EVERYWHERE:
        return bytes_of(tensor)
    return tensor.detach() if tensor.requires_grad else tensor


def first_bytes(tensor: Tensor) -> bytes:
    """Return as many of a CPU tensor's as a header has, or all."""
    return bytes(bytes_of(tensor)[:HEADER_BYTES].numpy())


@dataclass(frozen=True, slots=True)
class TensorRoute:
    """How tensors of a kind, which may have headers, go to a rank or come from it.

    Attributes
    ----------
    device
        ``cpu`` or ``cuda``.
    half
        Of a channel between the two ranks; None: they go by messages.
    """

    device: str
    transfer: Transfer
    half: Any


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a group in one process; the first four do not change.

    Attributes
    ----------
    own
        This process's rank, by the default group's numbers.
    ranks
        Those of the group, likewise.
    is_member
        Whether this process is of the group.
    backends
        What carries tensors on ``cpu`` or ``cuda``: ``gloo``, ``nccl``, ...
    runs
        Of tensors that have no header.
    routes
        Of kinds of tensors that came here before.
    """

    own: int
    ranks: tuple[int, ...]
    is_member: bool
    backends: dict[str, str]
    runs: PlainRuns = field(default_factory=PlainRuns)
    routes: dict[tuple[Any, ...], TensorRoute] = field(default_factory=dict)


_facts: WeakKeyDictionary[Any, GroupFacts] = WeakKeyDictionary()


def facts_of(group: Any) -> GroupFacts:
    """Return those of a group; looking them up takes PyTorch some 10 us for each tensor."""
    found = _facts.get(group)
    if found is None:
        found = _facts[group] = GroupFacts(
            dist.get_rank(),
            tuple(dist.get_process_group_ranks(group)),
            dist.get_rank(group) >= 0,
            _backends(str(dist.get_backend_config(group))),
        )
    return found


def backend_of(group: Any, device: str) -> str | None:
    """Return what carries tensors on ``cpu`` or ``cuda`` for a group: ``gloo``, ``nccl``, ..."""
    return facts_of(group).backends.get(device)


@cache
def _backends(configured: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in configured.split(","):
        kind, _, backend = entry.partition(":")
        found.setdefault(kind, backend)
    return found


def timeout_of(group: Any) -> timedelta:
    """Return how long a group waits for others."""
    # Not of a device that it has not: PyTorch takes 15 to 45 us to raise that.
    has = facts_of(group).backends
    for device in (one for one in ("cpu", "cuda") if one in has):
        try:
            found = group._get_backend(torch.device(device)).options._timeout
        except (RuntimeError, AttributeError):
            continue
        if isinstance(found, timedelta):
            return found
    return _USUAL_TIMEOUT


def store_of(group: Any) -> Any:
    """Return a group's store."""
    if hasattr(group, "get_group_store"):
        return group.get_group_store()
    from torch.distributed.distributed_c10d import _get_process_group_store

    return _get_process_group_store(group)


def notes_of(messages: Messages, group: Any, device: str, ends: tuple[int, int | str]) -> Notes:
    """Return the cheapest notes that a group has for tensors on ``cpu`` or ``cuda``.

    Both sides, or all, come here for the same tensor.
    """
    if backend_of(group, "cpu") == "gloo":
        return NotesInMessages(messages, device == "cpu" and isinstance(messages, ToPeer))
    own = _line(group, ends)
    if own is not None:
        return NotesInMessages(own, into_tensor=False)
    readers = dist.get_world_size(group) - 1 if isinstance(messages, ToAll) else 1
    return NotesInStore(group, ends, readers)


class Begun:
    """A message under way, for which to wait as long as the group does."""

    def __init__(self, work: Any, timeout: timedelta) -> None:
        self._work, self._timeout = work, timeout

    def wait(self) -> Any:
        """Return when it has ended. Raises `RuntimeError` if it does not in time."""
        return self._work.wait(self._timeout)


class PairLine:
    """Between two ranks by gloo, for what senders say of tensors whose group has NCCL alone.

    A message takes some 20 us on one node; a note in the group's store takes three to five turns to
    the process that has the store, and a message over NCCL has to be fetched from the GPU.
    """

    def __init__(self, gloo: Any, other: int, timeout: timedelta) -> None:
        self._gloo, self._other, self._timeout = gloo, other, timeout

    def put(self, data: Tensor) -> Begun:
        """Begin to send a tensor on the CPU."""
        return Begun(self._gloo.send([data], self._other, _TAG), self._timeout)

    def get(self, room: Tensor) -> Begun:
        """Begin to receive as much as `room` has."""
        return Begun(self._gloo.recv([room], self._other, _TAG), self._timeout)

    def get_first(self, room: Tensor) -> None:
        """Receive as much."""
        self.get(room).wait()


class AllLine:
    """From one rank to all others of a group, likewise."""

    def __init__(self, gloo: Any, source: int, timeout: timedelta) -> None:
        self._gloo, self._timeout = gloo, timeout
        self._options = dist.BroadcastOptions()
        self._options.rootRank, self._options.rootTensor = source, 0
        self._options.timeout = timeout
        self._options.asyncOp = True

    def put(self, data: Tensor) -> Begun:
        """Begin to send a tensor on the CPU, or to receive one."""
        return Begun(self._gloo.broadcast([data], self._options), self._timeout)

    get = put

    def get_first(self, room: Tensor) -> None:
        """Receive as much."""
        self.get(room).wait()


def _line(group: Any, ends: tuple[int, int | str]) -> PairLine | AllLine | None:
    """Return a line between two ranks, or from one to all; None where there can be none.

    All of them call it before the first tensor of which something is said by it, and come to the
    same: they wait for each other then. Raises `RuntimeError` if a rank does not come in time.

    Parameters
    ----------
    ends
        The rank that sends, and the one that receives or ``all``.
    """
    source, target = ends
    own, timeout = dist.get_rank(), timeout_of(group)
    to_all = not isinstance(target, int)
    ranks = dist.get_process_group_ranks(group) if to_all else sorted((source, int(target)))
    name = "all" if to_all else f"{ranks[0]}-{ranks[1]}"
    known = _connected.setdefault(group, {})
    if name not in known:
        known[name] = _made(store_of(group), name, ranks, own, timeout)
    gloo = known[name]
    if gloo is None:
        return None
    if to_all:
        return AllLine(gloo, ranks.index(source), timeout)
    return PairLine(gloo, 1 - ranks.index(own), timeout)


def _made(store: Any, name: str, ranks: list[int], own: int, timeout: timedelta) -> Any:
    options = _options()
    key = f"lanescope/gloo/{name}"
    store.set(f"{key}/{own}", "yes" if options else "no")
    keys = [f"{key}/{rank}" for rank in ranks]
    store.wait(keys, timeout)
    if options is None or any(store.get(one) != b"yes" for one in keys):
        return None
    try:
        made = dist.ProcessGroupGloo(
            dist.PrefixStore(key, store), ranks.index(own), len(ranks), options
        )
    except RuntimeError:
        made = None
    store.set(f"{key}/{own}/made", "no" if made is None else "yes")
    keys = [f"{one}/made" for one in keys]
    store.wait(keys, timeout)
    return made if all(store.get(one) == b"yes" for one in keys) else None


def _options() -> Any:
    """Return how to connect; None where this PyTorch or this machine has no means to."""
    try:
        options = dist.ProcessGroupGloo._Options()
        options._devices = [dist.ProcessGroupGloo.create_default_device()]
        options._timeout = _CONNECTING
    except (AttributeError, RuntimeError):
        return None
    return options
