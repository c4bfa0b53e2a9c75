"""A workload, and the methods by which a program can move its data."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum

from lanescope.calls import checked
from lanescope.units.sizes import Bytes


class Method(StrEnum):
    """As van Werkhoven et al. (2014), section VII, name them; and with pageable memory."""

    EXPLICIT = "Explicit"
    """All copies in, the kernel, all copies back; pinned memory, one stream."""
    STREAMS = "Streams"
    """Cut into parts, each on its own stream: copies and kernels overlap."""
    IMPLICIT = "Implicit"
    """The kernel reads and writes mapped host memory; nothing is copied."""
    HYBRID = "Hybrid"
    """As Streams, but the kernels write mapped host memory."""
    PAGEABLE = "Pageable"
    """As Explicit, but memory is not pinned."""


#: Methods that are cut into parts, each on a stream of its own.
STREAMED = (Method.STREAMS, Method.HYBRID)
#: Methods whose kernels read or write the host's memory.
MAPPED = (Method.IMPLICIT, Method.HYBRID)


def copies_of(size: int, arrays: int, streams: int) -> int:
    """Return into how many copies each array of a direction is cut, of work in so many parts.

    As many, but one where an array has fewer bytes than that: it goes to the GPU with the first
    part, and back with the last one.
    """
    return streams if size // arrays >= streams else 1


@dataclass(frozen=True, slots=True)
@checked
class Workload:
    """One round: bytes to the GPU, a kernel, bytes back.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        Of payload in each direction.
    kernel_seconds
        What the kernel takes with all of its data in the GPU's memory, in one launch.
    h2d_arrays, d2h_arrays
        Into how many arrays the bytes of a direction are divided: as many copies for each stream,
        or in all, where an array has fewer bytes than there are streams.
    most_streams
        Into how many equal parts it can be cut; None: any number.
    needs_previous
        True where a part needs the input of the part before it and of the first one.
    returns_later
        How many of the arrays that go back are complete only with the part after theirs.
    mapped_reads, mapped_writes
        How often each byte crosses the link when the kernel reads and writes the host's memory in
        place: 1, more where it does so again, less where it skips some.
    mapped_assumed
        True where nobody has said how often that is: `Ranking.chosen` is then no such method.
    steps
        How many times, one after another, the kernel reads, computes and writes: the waves of its
        thread blocks, times the passes of a loop in each. None: so many that all of it overlaps.
    fresh_output
        Whether the memory that bytes go back to has not been used before, as a new array's: of
        Pageable.
    kernel_parts
        What the kernel takes for one of so many equal parts, alone: pairs of a number of parts and
        seconds. Without any it takes a share of `kernel_seconds`.
    flops, device_bytes
        Operations of the kernel, and bytes that it moves to and from the GPU's memory; for
        the roofline. None: not known.
    """

    h2d_bytes: Bytes
    d2h_bytes: Bytes
    kernel_seconds: float
    h2d_arrays: int = 1
    d2h_arrays: int = 1
    most_streams: int | None = None
    needs_previous: bool = False
    returns_later: int = 0
    mapped_reads: float = 1.0
    mapped_writes: float = 1.0
    flops: float | None = None
    device_bytes: float | None = None
    mapped_assumed: bool = False
    steps: float | None = None
    fresh_output: bool = False
    kernel_parts: tuple[tuple[int, float], ...] = ()

    def h2d_copies(self, streams: int) -> int:
        """Return into how many copies each array to the GPU is cut; see `copies_of`."""
        return copies_of(self.h2d_bytes, self.h2d_arrays, streams)

    def d2h_copies(self, streams: int) -> int:
        """Return into how many copies each array back is cut; see `copies_of`."""
        return copies_of(self.d2h_bytes, self.d2h_arrays, streams)

    def part_seconds(self, share: float) -> float:
        """Return what the kernel takes for a share of the work, alone.

        Straight between the shares that are known, and on from the two smallest below them; never
        less than its share of the fastest pace that is known.
        """
        known = {1.0: self.kernel_seconds} | {1 / n: seconds for n, seconds in self.kernel_parts}
        if len(known) == 1:
            return self.kernel_seconds * share
        shares = sorted(known)
        right = min(max(bisect_left(shares, share), 1), len(shares) - 1)
        a, b = shares[right - 1], shares[right]
        seconds = known[a] + (known[b] - known[a]) * (share - a) / (b - a)
        return max(seconds, share * min(seconds / part for part, seconds in known.items()))
