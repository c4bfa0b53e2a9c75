"""Activations that wait in the host's memory from the forward pass to the backward pass.

The forward pass saves tensors, the backward pass uses them in the opposite order. The last ones do
not travel at all: each waits on the GPU until enough others were saved after it. Then it goes to
the host, and its memory on the GPU is free once that is done. When one is used, those saved before
it are brought back ahead of their use.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from threading import RLock
from typing import Any, Protocol, Self

from lanescope.calls import checked
from lanescope.copies.requirements import available_host_bytes
from lanescope.errors import InputError, MissingPartError
from lanescope.units.sizes import Size, size_of

#: By default: for so much and more that is saved at once; for less it is in proportion.
_MOST_AHEAD, _MUCH_SAVED, _LEAST_AHEAD = 1280 << 20, 6 << 30, 64 << 20
_COMPRESSIONS = ("auto", "on", "off")
#: How many tensors before the one in use are looked through for those that are used next: others
#: may belong to a graph that the program holds for long.
MOST_LOOKED_AT = 1024
#: Any tensor of PyTorch, which is not imported here.
Tensor = Any
#: Of the tensors of a pass, when all but a few gradients are there.
_LAST_SHARE = 0.05


@checked
def offload_activations(
    module: Any = None,
    *,
    budget: Size | None = None,
    min_bytes: Size = 1 << 20,
    ahead: Size | None = None,
    compression: str = "auto",
    gpu: int | None = None,
) -> OffloadedActivations:
    """Let what the forward pass saves for the backward pass wait in pinned memory of the host.

    Each tensor of `min_bytes` and more goes to the host behind the computation and comes back ahead
    of the backward pass, compressed where that is faster. Gradients are the same to the bit.
    Parameters stay on the GPU.

    >>> with lanescope.torch.offload_activations():  # doctest: +SKIP
    ...     loss = model(batch)
    >>> loss.backward()  # doctest: +SKIP

    Parameters
    ----------
    module
        Its forward passes are offloaded from now on, in place of what runs in a ``with``.
    budget
        Of the host's memory, before compression: what does not fit stays on the GPU. By default
        half of what is available.
    min_bytes
        Smaller tensors stay on the GPU.
    ahead
        Of the GPU's memory: five eighths for the tensors that were saved last, which do not travel
        if the backward pass begins, two for those that are leaving, one for those that were brought
        back ahead of their use. By default 5/24 of the most that was saved at once until now, each
        tensor once: from 64 MiB to 1.25 GiB.
    compression
        ``auto``, ``on`` or ``off``, as with `lanescope.Channel`.
    gpu
        The GPU, as CUDA counts; by default PyTorch's current one.

    Raises
    ------
    InputError
        If PyTorch or a GPU is missing, or an argument is out of range.
    """
    if compression not in _COMPRESSIONS:
        raise InputError(f"compression cannot be {compression!r}; give {', '.join(_COMPRESSIONS)}")
    link = _link(_gpu(gpu), compression)
    most = _half_of_the_memory() if budget is None else size_of(budget)
    room = None if ahead is None else size_of(ahead)
    offloaded = OffloadedActivations(link, most, size_of(min_bytes), room)
    if module is not None:
        offloaded.around(module)
    return offloaded


class OffloadedActivations:
    """What `offload_activations` returns: a context for forward passes, for as many as wanted.

    Parameters
    ----------
    link
        Moves tensors.
    budget_bytes, min_bytes, ahead_bytes
        As of `offload_activations`.
    """

    def __init__(
        self, link: OffloadLink, budget_bytes: int, min_bytes: int, ahead_bytes: int | None
    ) -> None:
        self._pool = Pool(link, budget_bytes, ahead_bytes)
        self._least = min_bytes
        self._entered: list[AbstractContextManager[Any]] = []

    @property
    def moved(self) -> Moved:
        """How many tensors went to the host and came back, and their bytes, until now."""
        return self._pool.moved

    @property
    def log(self) -> tuple[Any, ...]:
        """The last transfers of its channel, as `lanescope.Channel.log`."""
        return self._pool.link.log

    def around(self, module: Any) -> None:
        """Offload what the forward passes of a module save, from now on."""
        module.register_forward_pre_hook(lambda *_: self._enter())
        module.register_forward_hook(lambda *_: self._leave(), always_call=True)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    def _enter(self) -> None:
        import torch

        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._entered.append(hooks)

    def _leave(self) -> None:
        self._entered.pop().__exit__(None, None, None)

    def _pack(self, tensor: Any) -> Any:
        from lanescope.torch.host_link import region_of

        if tensor.numel() * tensor.element_size() < self._least:
            return tensor
        region = region_of(tensor, self._pool.knows) if self._pool.link.takes(tensor) else None
        if region is None or region.bytes < self._least:
            return tensor
        saved = self._pool.save(region.values, region.bytes, region.versioned)
        return tensor if saved is None else (saved, region.view)

    def _unpack(self, packed: Any) -> Any:
        if not isinstance(packed, tuple):
            return packed
        saved, view = packed
        return view.of(self._pool.use(saved))


def _gpu(gpu: int | None) -> int:
    try:
        import torch
    except ImportError:
        raise InputError("PyTorch is missing; pip install torch") from None
    if not torch.cuda.is_available():
        raise MissingPartError(
            "offloading activations needs a GPU, and PyTorch finds none; train without it here, or "
            "install driver 580 or newer and a PyTorch with CUDA"
        )
    return torch.cuda.current_device() if gpu is None else gpu


@cache
def _link(gpu: int, compression: str) -> OffloadLink:
    """Return the link of a GPU: its memory is pinned once, however many contexts there are."""
    from lanescope.torch.host_link import HostLink

    return HostLink(gpu, compression)


def _half_of_the_memory() -> int:
    available = available_host_bytes()
    if available is None:
        raise InputError("how much memory is available is unknown here; give budget")
    return available // 2


class NoRoomError(Exception):
    """The host has no memory to pin for a tensor."""


class OffloadLink(Protocol):
    """What moves tensors between a GPU and the host, behind the work of the current stream."""

    @property
    def log(self) -> tuple[Any, ...]:
        """What became of the last transfers."""

    def takes(self, tensor: Tensor) -> bool:
        """Whether a tensor can be sent, and is none that stays anyhow, such as a parameter."""

    def begin_pass(self) -> None:
        """Take what follows for the transfers of another forward and backward pass."""

    def send(self, tensor: Tensor) -> tuple[Any, Any]:
        """Begin to send one without gaps; return what brings it back, and the end, for `wait`.

        Raises
        ------
        NoRoomError
            If there is no memory for it on the host.
        """

    def bring(self, sent: Any) -> tuple[Tensor, Any]:
        """Begin to bring one back; return the tensor, and the end of it."""

    def wait(self, end: Any, used: Tensor | None = None) -> None:
        """Let what comes later on the tensor's stream wait, and not the host.

        Parameters
        ----------
        used
            The tensor, where the current stream uses it: its memory stays for that long.
        """

    def reserve(self, size: int) -> None:
        """Pin so much of the host's memory in all.

        Raises
        ------
        NoRoomError
            If there is no more.
        """


@dataclass(slots=True)
class Moved:
    """What became of saved tensors.

    Attributes
    ----------
    tensors, bytes
        That went to the host.
    shared
        Saved again by another operation while it was on the GPU, and sent once at most.
    brought, brought_bytes
        Came back. A tensor that is used before its memory is needed does not.
    stayed
        Were large enough and stayed on the GPU: the host's budget was used up, or the host had no
        more memory to pin.
    """

    tensors: int = 0
    bytes: int = 0
    shared: int = 0
    brought: int = 0
    brought_bytes: int = 0
    stayed: int = 0


class Where(Enum):
    """Where a saved tensor is."""

    WAITING = auto()  # on the GPU, to be sent when more are saved
    LEAVING = auto()  # on the GPU still, and on its way
    AWAY = auto()  # in the host's memory alone
    EARLY = auto()  # on the GPU again, ahead of its use
    BACK = auto()  # on the GPU again, in use
    STAYING = auto()  # on the GPU, as the host has no room


@dataclass(frozen=True, slots=True)
class Windows:
    """Of the GPU's memory, for saved tensors, in bytes.

    Attributes
    ----------
    waiting
        That the backward pass finds where they are, if it begins.
    leaving
        As many as fill the link: the forward pass waits for the oldest.
    early
        As many as fill the link again, when the last tensors of a step come back: all of its
        gradients are there by then.
    """

    waiting: int
    leaving: int
    early: int

    @classmethod
    def of(cls, ahead_bytes: int) -> Windows:
        """Share memory out."""
        eighth = ahead_bytes // 8
        return cls(ahead_bytes - 3 * eighth, 2 * eighth, eighth)

    @classmethod
    def for_saved(cls, saved_bytes: int) -> Windows:
        """Share out as much memory as suits what is saved at once."""
        share = _MOST_AHEAD * saved_bytes // _MUCH_SAVED
        return cls.of(min(max(share, _LEAST_AHEAD), _MOST_AHEAD))

    def early_with(self, held: int, in_use: int, left: float) -> int:
        """Return how many bytes may come back ahead of their use, amid a backward pass.

        What was saved last is used first, and leaves its room to them. Gradients take it from them
        again, of which no more is known than that there are more and more of them. What is in use
        takes room, too: an operation that uses much makes as much.

        Parameters
        ----------
        held
            Bytes that are waiting or leaving.
        in_use
            Bytes that came back and are in use.
        left
            The share of the pass's tensors that are to be used yet.
        """
        most = self.early + max(0.0, left - _LAST_SHARE) * (self.waiting + self.leaving)
        return max(self.early, int(most) - held) - in_use


class Saved:
    """A tensor that may be in the host's memory, as the backward pass holds it."""

    __slots__ = (
        "__weakref__", "_pool", "bytes", "changed", "end", "here", "key", "number", "sent",
        "users", "version", "versioned", "where",
    )  # fmt: skip

    def __init__(self, pool: Pool, values: Tensor, versioned: Tensor, key: Any, size: int) -> None:
        self._pool = pool
        self.number, self.key, self.bytes = pool.next_number(), key, size
        self.where = Where.WAITING
        self.users = 1
        self.sent: Any = None
        self.end: Any = None
        self.changed = False
        self.puts(values, versioned)

    def puts(self, values: Tensor | None, versioned: Tensor | None) -> None:
        """Hold values on the GPU, and what counts their changes in place; or none of them."""
        self.here, self.versioned = values, versioned
        if versioned is not None:
            self.version = versioned._version

    def look_for_changes(self) -> None:
        """Note whether the values were changed in place."""
        if self.versioned is not None:
            self.changed |= self.versioned._version != self.version

    def __del__(self) -> None:
        self._pool.forget(self)


def _nobody() -> None:
    """Stand for a reference to nothing."""


def key_of(values: Tensor, size: int) -> Any:
    """Return what tells values without gaps, in a GPU's memory, from others."""
    return (values.data_ptr(), size, values.dtype)


class Pool:
    """The saved tensors of a model's passes.

    Parameters
    ----------
    link
        Moves them.
    budget_bytes
        Of the host's memory that they may take, uncompressed.
    ahead_bytes
        Of the GPU's memory, which `Windows` shares out; None: as much as suits the most that
        was ever saved at once. So a smaller pass may take what the largest one took.
    """

    def __init__(
        self, link: OffloadLink, budget_bytes: int, ahead_bytes: int | None = None
    ) -> None:
        self.link = link
        self.moved = Moved()
        self._budget_bytes = budget_bytes
        self._adapts, self._most_saved = ahead_bytes is None, 0
        self._windows = Windows.for_saved(0) if ahead_bytes is None else Windows.of(ahead_bytes)
        self._lock = RLock()  # a backward pass has threads of its own, and frees in any of them
        self._number = 0
        self._first = 1  # of the tensors of the pass that was saved last
        self._is_saving = True
        self._there: dict[int, weakref.ref[Saved]] = {}  # by number
        self._by_key: dict[Any, weakref.ref[Saved]] = {}  # that have been on the GPU ever since
        self._away: list[int] = []  # numbers of those on the host alone, in order
        self._waiting: deque[weakref.ref[Saved]] = deque()
        self._leaving: deque[weakref.ref[Saved]] = deque()
        self._host_bytes = 0  # of those that were sent
        self._may_reserve = True
        self.bytes = dict.fromkeys(Where, 0)

    def next_number(self) -> int:
        """Return the number of the next tensor, from 1."""
        self._number += 1
        return self._number

    def knows(self, key: Any) -> bool:
        """Whether values are saved already, and on the GPU."""
        with self._lock:
            return self._by_key.get(key, _nobody)() is not None

    def save(self, values: Tensor, size: int, versioned: Tensor | None = None) -> Saved | None:
        """Take a tensor without gaps, to be sent to the host; None where there is no room for it.

        Parameters
        ----------
        size
            Its bytes.
        versioned
            What counts changes in place of the same memory; by default the tensor does.
        """
        versioned = values if versioned is None else versioned
        with self._lock:
            key = key_of(values, size)
            known = self._by_key.get(key, _nobody)()
            if known is not None and known.version == versioned._version:
                known.users += 1
                self.moved.shared += 1
                return known
            if self._host_bytes + self.bytes[Where.WAITING] + size > self._budget_bytes:
                self.moved.stayed += 1
                return None
            saved = Saved(self, values, versioned, key, size)
            if not self._is_saving:
                self._first, self._is_saving = saved.number, True
                self.link.begin_pass()
            self._there[saved.number] = self._by_key[key] = weakref.ref(saved)
            self._waiting.append(self._by_key[key])
            self.bytes[Where.WAITING] += size
            if self._adapts:
                self._adapt_windows()
            self._send_the_oldest()
            return saved

    def use(self, saved: Saved) -> Tensor:
        """Return a saved tensor, and bring back those that are used next.

        Raises
        ------
        RuntimeError
            If it was changed in place before it had left.
        """
        with self._lock:
            self._end_of_saving()
            if saved.where is Where.AWAY:
                self._bring(saved, Where.BACK)
            elif saved.where is Where.EARLY:
                self._becomes(saved, Where.BACK)
            # Before the wait for this one: they come behind what is on the stream until now.
            self._bring_those_before(saved.number)
            saved.look_for_changes()
            if saved.changed:
                raise RuntimeError(
                    "a tensor that the backward pass needs was changed in place after it was "
                    "saved; find the operation with torch.autograd.set_detect_anomaly(True)"
                )
            if saved.where is Where.BACK:  # the others were on the GPU all the time
                self.link.wait(saved.end, saved.here)
            tensor = saved.here
            saved.users -= 1
            if saved.users <= 0:  # it may be used once more, by a graph that is retained
                self._drop(saved)
            return tensor

    def forget(self, saved: Saved) -> None:
        """Take off one that nobody holds any more."""
        with self._lock:
            if self._there.pop(saved.number, None) is None:
                return
            self._drop(saved)
            self._no_longer_by_key(saved)
            self._leaves(saved)
            if saved.sent is not None:
                self._host_bytes -= saved.bytes

    def _adapt_windows(self) -> None:
        """Widen the windows where more is saved at once than ever before.

        That needs no end of a pass, of which graphs that are dropped, retained or built amid a
        backward pass have none.
        """
        saved = sum(self.bytes.values())
        if saved > self._most_saved:
            self._most_saved, self._windows = saved, Windows.for_saved(saved)

    def _end_of_saving(self) -> None:
        """Let the next pass find what this one took at most, however far ahead the host runs.

        A tensor takes as much memory as it has bytes until it has left, and the first pass, which
        pins memory, runs less far ahead than those after it.
        """
        if self._is_saving:
            self._is_saving = False
            if self._may_reserve:
                try:
                    self.link.reserve(self._host_bytes)
                except NoRoomError:  # those that find no room stay
                    self._may_reserve = False  # every further try would take long

    def _becomes(self, saved: Saved, where: Where) -> None:
        self._leaves(saved)
        self.bytes[where] += saved.bytes
        saved.where = where
        if where is Where.AWAY:
            insort(self._away, saved.number)

    def _leaves(self, saved: Saved) -> None:
        self.bytes[saved.where] -= saved.bytes
        if saved.where is Where.AWAY:
            del self._away[bisect_left(self._away, saved.number)]

    def _send_the_oldest(self) -> None:
        """Send until no more are waiting than may, as far as the host has room."""
        while self._waiting and self.bytes[Where.WAITING] > self._windows.waiting:
            saved = self._waiting.popleft()()
            if saved is None or saved.where is not Where.WAITING:
                continue
            self._let_go(self._windows.leaving - saved.bytes)
            try:
                if self._host_bytes + saved.bytes > self._budget_bytes:
                    raise NoRoomError
                saved.sent, saved.end = self.link.send(saved.here)
            except NoRoomError:
                self._budget_bytes = self._host_bytes  # every further try would take long
                self.moved.stayed += 1
                self._becomes(saved, Where.STAYING)
                continue
            self._becomes(saved, Where.LEAVING)
            self._leaving.append(weakref.ref(saved))
            self._host_bytes += saved.bytes
            self.moved.tensors += 1
            self.moved.bytes += saved.bytes

    def _let_go(self, most_bytes: int) -> None:
        """Free what left longest ago until no more than this is leaving."""
        while self._leaving and self.bytes[Where.LEAVING] > most_bytes:
            saved = self._leaving.popleft()()
            if saved is not None and saved.where is Where.LEAVING:
                self._drop(saved)

    def _bring(self, saved: Saved, where: Where) -> None:
        values, saved.end = self.link.bring(saved.sent)
        saved.puts(values, values)
        self._becomes(saved, where)
        self.moved.brought += 1
        self.moved.brought_bytes += saved.bytes

    def _drop(self, saved: Saved) -> None:
        """Free its memory on the GPU, for what comes after it has left or come."""
        if saved.sent is None or saved.where is Where.AWAY:
            return
        saved.look_for_changes()
        self.link.wait(saved.end)
        saved.puts(None, None)
        self._becomes(saved, Where.AWAY)
        self._no_longer_by_key(saved)

    def _no_longer_by_key(self, saved: Saved) -> None:
        held = self._by_key.get(saved.key)
        if held is not None and held() in (saved, None):
            del self._by_key[saved.key]

    def _bring_those_before(self, number: int) -> None:
        """Bring back what is used next, as much as there is room for, and one at least."""
        held = self.bytes[Where.WAITING] + self.bytes[Where.LEAVING]
        left = (number - self._first) / (self._number - self._first + 1)
        most = self._windows.early_with(held, self.bytes[Where.BACK], left)
        first, end = (bisect_left(self._away, one) for one in (number - MOST_LOOKED_AT, number))
        for before in self._away[first:end][::-1]:
            early = self.bytes[Where.EARLY]
            if early > 0 and early >= most:
                return
            saved = self._there.get(before, _nobody)()
            if saved is None or saved.users <= 0:
                continue
            if early > 0 and early + saved.bytes > most:
                return
            self._bring(saved, Where.EARLY)
