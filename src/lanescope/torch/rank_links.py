"""Channels between the GPUs of two ranks of one node, which take the place of NCCL there."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from lanescope.compression.meeting import InStore
from lanescope.compression.peer import PeerReceiver, PeerSender
from lanescope.compression.transfers import Record
from lanescope.errors import LanescopeError

if TYPE_CHECKING:
    from lanescope.torch.deciding import Watch  # which needs PyTorch

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


class ByChannel:
    """Tells what became of a transfer by a channel, once it has ended.

    Parameters
    ----------
    watch
        What both ranks have timed; None: the channel's own time counts.
    """

    def __init__(self, record: Record, watch: Watch | None = None) -> None:
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
