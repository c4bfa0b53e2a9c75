"""What links cost: from stored parameters, and from transfers that went over them as they were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from lanescope.compression.costs import LinkCost
from lanescope.prediction.parameters import LinkParameters, Way
from lanescope.units.bandwidth import bandwidth_gbs, transfer_seconds

#: The newest time counts so much, all before it the rest.
NEWEST = 0.5
_HOST_FIRST = re.compile(r"h2d|^host>")
_HOST_LAST = re.compile(r"d2h|>host$")


class LinkModel(Protocol):
    """Knows links before anything has crossed them."""

    def link(self, path: str) -> LinkCost | None:
        """Return what a path costs; None: not known."""


@dataclass(frozen=True, slots=True)
class HostLinks:
    """Copies of pinned memory between the host and one GPU, by its stored link parameters."""

    parameters: LinkParameters

    def link(self, path: str) -> LinkCost | None:
        """Return what ``g0>host``, ``host>g0``, ``d2h`` or ``h2d`` costs; None for others."""
        if _HOST_FIRST.search(path):
            way = Way.H2D
        elif _HOST_LAST.search(path):
            way = Way.D2H
        else:
            return None
        direction = self.parameters.direction(way)
        return LinkCost(bandwidth_gbs(1, direction.per_byte.value), direction.first.value)


def links_of_this_machine() -> LinkModel | None:
    """Return its stored link parameters, or None where it has none."""
    from lanescope.errors import LanescopeError
    from lanescope.prediction.stored import named_parameters

    try:
        return HostLinks(named_parameters())
    except LanescopeError:
        return None


def size_class(size: int) -> int:
    """Return the class of a size in bytes: each is twice as large as the one before."""
    return size.bit_length()


@dataclass(slots=True)
class _Timed:
    bytes: float
    seconds: float
    count: int = 1

    def take(self, size: int, seconds: float) -> None:
        """Take in one more; of the first two the faster one, as the first may have had to wait."""
        self.count += 1
        before = self.seconds / self.bytes * size
        if self.count == 2:
            if seconds < before:
                self.bytes, self.seconds = size, seconds
            return
        # one that was held up shall not make the link look slow for long
        self.seconds += NEWEST * (min(seconds, 2 * before) - self.seconds)
        self.bytes += NEWEST * (size - self.bytes)


class RawTimes:
    """What transfers as they are take: by path and size class, the newest counting most."""

    def __init__(self, model: LinkModel | None = None) -> None:
        self._model = model
        self._timed: dict[str, dict[int, _Timed]] = {}

    def take(self, path: str, size: int, seconds: float) -> None:
        """Take in what one took."""
        known = self._timed.setdefault(path, {})
        timed = known.get(size_class(size))
        if timed is None:
            known[size_class(size)] = _Timed(size, seconds)
        else:
            timed.take(size, seconds)

    def seconds(self, path: str, size: int) -> float | None:
        """Return what so many bytes take: as measured twice in their class, else by the model.

        None where neither knows; times of other classes say too little of this one.
        """
        timed = self._known(path).get(size_class(size))
        first = self._first_seconds(path)
        if timed is not None:
            least = min(first, timed.seconds)
            return least + (timed.seconds - least) * size / timed.bytes
        link = None if self._model is None else self._model.link(path)
        return None if link is None else first + transfer_seconds(size, link.gbs)

    def link(self, path: str, size: int) -> LinkCost | None:
        """Return L and a that lead to `seconds` of such a size."""
        seconds = self.seconds(path, size)
        if seconds is None or size <= 0:
            return None
        # a measured time may be shorter than a is told to be: some part of it is for the bytes
        first = min(self._first_seconds(path), seconds / 2)
        return LinkCost(bandwidth_gbs(size, seconds - first), first)

    def _known(self, path: str) -> dict[int, _Timed]:
        return {of: one for of, one in self._timed.get(path, {}).items() if one.count > 1}

    def _first_seconds(self, path: str) -> float:
        """Return a: the model's, or where the line through least and most bytes begins."""
        link = None if self._model is None else self._model.link(path)
        if link is not None:
            return link.first_seconds
        known = self._known(path)
        if len(known) < 2:
            return 0.0
        least, most = known[min(known)], known[max(known)]
        per_byte = (most.seconds - least.seconds) / (most.bytes - least.bytes)
        return min(max(least.seconds - least.bytes * per_byte, 0.0), least.seconds)
