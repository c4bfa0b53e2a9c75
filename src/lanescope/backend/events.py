"""What an event between two copies costs, found out by leaving most of them out."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from lanescope._core import native
from lanescope.backend.specs import copy_spec
from lanescope.experiment import Copy

#: So short that the event is a large part of the time.
_BYTES = 16
_WINDOWS = 100
#: A train of copies with one event at its end, and so many of them in a batch.
_TRAIN = 32
_TRAINS = 10
_ROUNDS = 5


class Gated(Protocol):
    """What runs copies behind a gate: the core's CopySet."""

    def run_gated(self, windows: int, loops: int) -> list[list[float]]:
        """Return boundaries of each copy's windows in seconds."""


def event_seconds(copies: Gated) -> float:
    """Return what an event adds to the time of one copy, 0 or more.

    Parameters
    ----------
    copies
        One copy of a few bytes.
    """
    singles, trains = [], []
    for _ in range(_ROUNDS):
        singles.append(np.diff(copies.run_gated(_WINDOWS, 1)[0]))
        trains.append(np.diff(copies.run_gated(_TRAINS, _TRAIN)[0]) / _TRAIN)
    with_each = float(np.median(np.concatenate(singles)))
    with_few = float(np.median(np.concatenate(trains)))
    # with_each = copy + event, with_few = copy + event / train
    return max(0.0, (with_each - with_few) / (1 - 1 / _TRAIN))


class EventCosts:
    """What events cost each GPU on each way, found out once and kept."""

    def __init__(self, topology: native.Topology, pool: native.BufferPool) -> None:
        self._topology = topology
        self._pool = pool
        self._known: dict[tuple[object, ...], float] = {}

    def of(self, copy: Copy) -> float:
        """Return the seconds of an event between copies on the way of this one."""
        way = _way(copy)
        if way not in self._known:
            short = dataclasses.replace(copy, bytes=_BYTES, access=None)
            copies = native.CopySet(self._topology, self._pool, [copy_spec(short)])
            self._known[way] = event_seconds(copies)
        return self._known[way]


def _way(copy: Copy) -> tuple[object, ...]:
    """What may make a difference: neither the kind of host memory nor its node does."""
    ends = ("host" if end.is_host else end.part for end in (copy.source, copy.destination))
    return (copy.executing_gpu, *ends, copy.route)
