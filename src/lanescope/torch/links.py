"""Channels between the GPUs of two ranks of one node, which take the place of NCCL there."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from lanescope.compression.meeting import InStore
from lanescope.compression.peer import PeerReceiver, PeerSender
from lanescope.compression.transfers import Record
from lanescope.errors import LanescopeError

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES = ("net", "ipc")
#: What switches them on, on all ranks: no GPU has tried them yet.
VARIABLE = "LANESCOPE_LINKS"

Half = PeerSender | PeerReceiver

_known: WeakKeyDictionary[Any, dict[tuple[int, int, int], Half | None]] = WeakKeyDictionary()


class Ended:
    """Tells what became of a transfer by a channel, once it has ended."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @property
    def seconds(self) -> float | None:
        """How long it took; None where it has not ended."""
        outcome = self._record.outcome
        return None if outcome is None else outcome.seconds

    @property
    def wire_bytes(self) -> int | None:
        """What crossed the link."""
        outcome = self._record.outcome
        return None if outcome is None else outcome.wire_bytes


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
    if os.environ.get(VARIABLE) != "1":
        return None
    known = _known.setdefault(group, {})
    key = (*ends, gpu)
    if key not in known:
        known[key] = _made(store, ends, sends, gpu, timeout)
    return known[key]


def _made(
    store: Any, ends: tuple[int, int], sends: bool, gpu: int, timeout: timedelta
) -> Half | None:
    name = f"{ends[0]}>{ends[1]}"
    own, other = (f"lanescope/place/{name}/{end}" for end in ("sr" if sends else "rs"))
    here = place()
    store.set(own, here)
    store.wait([other], timeout)
    there = store.get(other).decode()
    store.delete_key(other)
    if there != here:
        return None
    meet, patience = InStore(store, name), timeout.total_seconds()
    with suppress(LanescopeError):  # of which the other rank is told, too
        if sends:
            return PeerSender(gpu, meet, compression="off", patience_seconds=patience)
        return PeerReceiver(gpu, meet, patience_seconds=patience)
    return None


def place() -> str:
    """Return what two processes have in common that can share GPUs' memory and a socket."""
    parts = [str(os.geteuid())]
    try:
        parts.append(_BOOT.read_text().strip())
        parts += [str(Path(f"/proc/self/ns/{kind}").stat().st_ino) for kind in _NAMESPACES]
    except OSError:  # no place that another process has
        parts.append(os.urandom(16).hex())
    return " ".join(parts)
