"""How findings of a watch are made, and what findings measure in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lanescope.document.contents import Finding
from lanescope.findings.code import CUDA, languages, snippets
from lanescope.trace.codes import BoolArray, DirectionCode, FloatArray, IntArray, among
from lanescope.trace.limits import DIRECTIONS, LinkLimit
from lanescope.trace.operations import Operations
from lanescope.trace.timeline import Timeline
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import bandwidths_gbs

#: So many values are sorted at once.
_MOST_SORTED = 1 << 18
#: Values are told apart by so many bits at a time.
_BITS = 16


def median(count: int, pieces: Callable[[], Iterator[FloatArray]]) -> float:
    """Return the median of one or more values that are not negative.

    Parameters
    ----------
    count
        How many values there are.
    pieces
        Yields all of them, some at a time; each call does so again.
    """
    middle = (count - 1) // 2
    values, place = _around(count, pieces, middle)
    if count % 2:
        return float(values[place])
    if place + 1 < values.size:
        return float(np.mean(values[place : place + 2]))
    above, next_place = _around(count, pieces, middle + 1)
    return float(np.mean((values[place], above[next_place])))


def _around(
    count: int, pieces: Callable[[], Iterator[FloatArray]], place: int
) -> tuple[FloatArray, int]:
    """Return some values in order that follow each other, and where the one asked for is in them.

    Bits of floats that are not negative grow as they do: its first bits are found by counting.
    """
    first, shift = 0, 64
    while count > _MOST_SORTED and shift:
        shift -= _BITS
        counts = np.zeros(1 << _BITS, np.int64)
        for bits in _with_first(pieces, first, shift + _BITS):
            counts += np.bincount(bits >> shift & (1 << _BITS) - 1, minlength=counts.size)
        sums = np.cumsum(counts)
        found = int(np.searchsorted(sums, place, "right"))
        count, place = int(counts[found]), place - int(sums[found] - counts[found])
        first = first << _BITS | found
    if not shift:
        return np.array([first, first]).view(np.float64), 0 if place + 1 < count else 1
    left = np.sort(np.concatenate(list(_with_first(pieces, first, shift))))
    return left.view(np.float64), place


def _with_first(
    pieces: Callable[[], Iterator[FloatArray]], first: int, shift: int
) -> Iterator[IntArray]:
    """Yield the bits of the values whose bits from `shift` on are these."""
    for piece in pieces():
        bits = np.ascontiguousarray(piece, np.float64).view(np.int64)
        yield bits if shift == 64 else bits[bits >> shift == first]


#: Copies from here on run at the rate of their path: what a copy costs beyond its bytes,
#: 1 to 2 µs on the GPU, is 5 % of 2 MiB over PCIe 5.0 x16.
LARGE_BYTES = 2 << 20
#: Fewer large copies say little about the rate of a path.
_LEAST_LARGE = 3

#: Limits of each GPU's link (h2d, d2h).
Limits = dict[int, tuple[LinkLimit, LinkLimit]]


#: By kind of finding, the options of ``lanescope watch`` that show it again, what to do, and what
#: `lanescope.findings.code` calls that; nothing where it is not done in the program.
REMEDIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "far-node": (
        "--addresses",
        "allocate host memory on the node of the GPU that it is for",
        ("place",),
    ),
    "managed-thrashing": (
        "--managed",
        "prefetch managed memory, or let one side alone change it",
        ("managed",),
    ),
    "no-overlap": (
        "--kernels",
        "copy the next piece in while this one is computed, on another stream",
        ("prefetch",),
    ),
    "pageable-async": ("", "use pinned host memory for asynchronous copies", ("pin",)),
    "synchronous-copies": (
        "",
        "copy asynchronously, from and to pinned host memory",
        ("pin", "async"),
    ),
    "tiny-copies": ("", "put what is copied in a row into one buffer, or one batch", ("batch",)),
    "trained-down": ("", "look at the slot, the riser and the firmware's PCIe settings", ()),
    "unchanged-data": ("--addresses --hash", "keep on the GPU what has not changed", ("keep",)),
}


def with_code(found: Iterable[Finding], timeline: Timeline) -> Iterator[Finding]:
    """Yield findings of a watch with what to do in the language of its program.

    Where programs of several languages were watched it is that of the first process.
    """
    language = next(iter(languages(timeline).values()), CUDA)
    for one in found:
        yield replace(one, code=snippets([snippet.what for snippet in one.code], language))


def finding(
    kind: str,
    sentence: str,
    gain_seconds: float | None,
    basis: str,
    conditions: tuple[str, ...],
    evidence: tuple[str, ...],
    to_do: tuple[str, tuple[str, ...]] | None = None,
) -> Finding:
    """Return a finding of a watch; its code is that of CUDA C++.

    Parameters
    ----------
    gain_seconds
        What the watched time would shrink by at best; None where nothing predicts it.
    to_do
        The remedy, and what its code is called, where it is another than that of the kind.
    """
    options, remedy, what = REMEDIES[kind]
    remedy, what = to_do or (remedy, what)
    return Finding(
        kind,
        sentence,
        evidence,
        " ".join(filter(None, ("lanescope watch", options, "-- PROGRAM"))),
        remedy,
        gain_seconds=None if gain_seconds is None else Estimate(gain_seconds, 0.0, gain_seconds),
        basis=basis,
        conditions=conditions,
        code=snippets(what, CUDA),
    )


def bytes_text(count: float) -> str:
    """Return bytes in MiB, from 10,000 MiB on in GiB.

    >>> bytes_text(3 << 20), bytes_text(20 << 30)
    ('3 MiB', '20 GiB')
    """
    return f"{count / 2**20:.4g} MiB" if count < 10_000 << 20 else f"{count / 2**30:.4g} GiB"


@dataclass(frozen=True, slots=True)
class PathRate:
    """A rate that copies of a path can reach, in GB/s, and where it was taken from."""

    gbs: float
    source: str


def copies_text(count: int, kind: str) -> str:
    """Return so many copies of a kind.

    >>> copies_text(1, "h2d"), copies_text(2, "h2d")
    ('1 h2d copy', '2 h2d copies')
    """
    return f"{count} {kind} {'copy' if count == 1 else 'copies'}"


def _rates(rows: Operations) -> FloatArray:
    return bandwidths_gbs(rows.bytes.astype(np.float64), rows.seconds)


def path_rate(
    operations: Operations, gpu: int, direction: int, limits: Limits, kinds: tuple[int, ...]
) -> PathRate | None:
    """Return how fast copies of a direction (0 h2d, 1 d2h) go on a GPU's link.

    The median of its own large copies from or to these kinds of host memory; without
    enough of them what the link can carry; None when that is unknown too.
    """
    code = (DirectionCode.H2D, DirectionCode.D2H)[direction]

    def is_large(o: Operations) -> BoolArray:
        chosen: BoolArray = o.is_copy & (o.direction == code) & (o.bytes >= LARGE_BYTES)
        chosen &= among(o.host_memory, kinds) & (o.end_ns > o.start_ns)
        return chosen

    large = operations.where(is_large, "bytes", device=gpu)
    if len(large) >= _LEAST_LARGE:
        rate = median(len(large), lambda: map(_rates, large.pieces()))
        return PathRate(
            rate, f"median of {len(large)} large {DIRECTIONS[direction]} copies of this watch"
        )
    limit = limits.get(gpu, (None, None))[direction]
    if limit is None or limit.gbs is None:
        return None
    return PathRate(limit.gbs, limit.source)
