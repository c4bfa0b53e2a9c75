"""Connections by gloo between ranks whose group has NCCL alone, for what senders say of tensors.

A message takes some 20 us on one node; a note in the group's store takes three to five turns to the
process that has the store, and a message over NCCL has to be fetched from the GPU.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist

#: Of PyTorch, whose types are not known where it is not installed.
Tensor = Any
#: To connect, when all are there; where a firewall lets nothing pass, notes go by the store then.
_CONNECTING = timedelta(seconds=30)
_TAG = 0

_known: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class Begun:
    """A message under way, for which to wait as long as the group does."""

    def __init__(self, work: Any, timeout: timedelta) -> None:
        self._work, self._timeout = work, timeout

    def wait(self) -> Any:
        """Return when it has ended. Raises `RuntimeError` if it does not in time."""
        return self._work.wait(self._timeout)


class PairLine:
    """Between two ranks."""

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
    """From one rank to all others of a group."""

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


Line = PairLine | AllLine


def line(
    group: Any, store: Any, ends: tuple[int, int | str], own: int, timeout: timedelta
) -> Line | None:
    """Return a line between two ranks, or from one to all; None where there can be none.

    All of them call it before the first tensor of which something is said by it, and come to the
    same: they wait for each other then.

    Parameters
    ----------
    store
        Of the group.
    ends
        The rank that sends, and the one that receives or ``all``.
    own
        This process's rank, by the default group's numbers as the others.

    Raises
    ------
    RuntimeError
        If a rank does not come in time.
    """
    source, target = ends
    to_all = not isinstance(target, int)
    ranks = dist.get_process_group_ranks(group) if to_all else sorted((source, int(target)))
    name = "all" if to_all else f"{ranks[0]}-{ranks[1]}"
    known = _known.setdefault(group, {})
    if name not in known:
        known[name] = _made(store, name, ranks, own, timeout)
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
