"""The few parameters of a machine that transfers between a host and one of its GPUs take.

They are those of van Werkhoven et al., Performance models for CPU-GPU data transfers (CCGrid
2014), section V: L + o, G and g for each direction; G again while traffic goes the other way,
by copies or by kernels that read and write the host's memory (table II). Where they were
measured here, L + o, o and g also depend on the size, as in parameterized LogP (Kielmann et al.
2001): one G cannot tell what small copies cost.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from lanescope.codec.fields import Bound, PositiveInt
from lanescope.errors import NotMeasuredError, command
from lanescope.machine import HostBandwidth
from lanescope.units.estimate import Estimate, Surface, TimeCurve, between


class Direction(StrEnum):
    """Direction of a transfer."""

    H2D = "h2d"
    D2H = "d2h"


class HostBuffer(StrEnum):
    """What memory of the host a copy reads or writes."""

    PINNED = "pinned"
    USED = "used"
    """Pageable, used before and in no cache."""
    CACHED = "cached"
    """Pageable, as the host's caches hold it."""
    NEW = "new"
    """Pageable, whose pages the system has yet to give."""


class Origin(StrEnum):
    """Where parameters come from."""

    MEASURED = "measured"
    PUBLISHED = "published"
    DERIVED = "derived"
    """Computed for another link from those of this one: a prediction itself."""


@dataclass(frozen=True, slots=True)
class CopyCost:
    """What copies of pinned memory in one direction cost.

    Attributes
    ----------
    first
        L + o: seconds from the call to its end as the host sees it, of a copy of no bytes.
    per_byte
        G: seconds for each byte of a long copy, nothing going the other way.
    gap
        g: seconds that each further copy costs the engine beside its bytes, long copies.
    single
        Seconds from the call to the end of one copy, by size; None: ``first + bytes * per_byte``.
    next
        Seconds that each further copy of a size costs, by size and by the number of copies, each
        on its own stream: the longer of the call and of the engine's work. None: ``gap + bytes
        * per_byte``.
    call
        o: seconds that the calling thread is held by the call, by size of the copy; None:
        not known, and taken for 0. Of pageable memory the call ends before the copy does; None:
        with it.
    engine
        Seconds that the engine is held by each of many queued copies, by size; None: ``gap +
        bytes * per_byte``.
    """

    first: Estimate
    per_byte: Estimate
    gap: Estimate
    single: TimeCurve | None = None
    next: Surface | None = None
    call: TimeCurve | None = None
    engine: TimeCurve | None = None


@dataclass(frozen=True, slots=True)
class Duplex:
    """What transfers cost in each direction while both are busy.

    Attributes
    ----------
    h2d_per_byte, d2h_per_byte
        G of each direction as long as bytes flow in the other, too; seconds for each byte.
    gap
        Seconds that a long copy holds its engine more than without traffic the other way; None:
        not known, and taken for 0.
    gaps
        The same by size of the copy; None: `gap`, for short copies at most half of what their bytes
        take.
    """

    h2d_per_byte: Estimate
    d2h_per_byte: Estimate
    gap: Estimate | None = None
    gaps: TimeCurve | None = None


@dataclass(frozen=True, slots=True)
class Mixture:
    """How much longer a kernel takes that reads and writes than its longer direction alone.

    Attributes
    ----------
    shares
        Rising, each between 0 and 1: what writing takes alone, as a share of what reading and
        writing take one after the other.
    factors
        How many times as long as the longer direction alone, for each share. Beyond the first
        and the last one they go straight to 1, where a kernel only reads or only writes.
    """

    shares: tuple[float, ...]
    factors: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        _require_shares(self.shares, factors=self.factors)

    def at(self, share: float) -> Estimate:
        """Return the factor of a share."""
        return _along(self.shares, self.factors, share, Estimate.exactly(1.0))


@dataclass(frozen=True, slots=True)
class Paced:
    """How copies to the GPU and a kernel slow each other that computes longer than it writes.

    Attributes
    ----------
    shares
        Rising, each between 0 and 1: what its writes of the host's memory take alone, as a share
        of the time that the kernel takes alone.
    h2d_factors
        How many times as long as alone copies take beside it, for each share.
    kernel_factors
        How many times as long as alone the kernel takes beside copies, for each share.
    """

    shares: tuple[float, ...]
    h2d_factors: tuple[Estimate, ...]
    kernel_factors: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        _require_shares(
            self.shares, h2d_factors=self.h2d_factors, kernel_factors=self.kernel_factors
        )

    def h2d_at(self, share: float, full: Estimate) -> Estimate:
        """Return the factor of copies beside a share, straight to `full` for one of 1."""
        return _along(self.shares, self.h2d_factors, share, full)

    def kernel_at(self, share: float, full: Estimate) -> Estimate:
        """Return the factor of a kernel with a share, straight to `full` for one of 1."""
        return _along(self.shares, self.kernel_factors, share, full)


def _require_shares(shares: tuple[float, ...], **factors: tuple[Estimate, ...]) -> None:
    """Refuse shares that do not rise within 0 and 1, and factors that are not one for each."""
    rising = (0.0, *shares, 1.0)
    if not shares or any(a >= b for a, b in pairwise(rising)):
        raise ValueError("'shares' are one or more that rise, each between 0 and 1")
    for name, found in factors.items():
        if len(found) != len(shares):
            raise ValueError(f"{name!r} has {len(found)} for {len(shares)} 'shares'; give as many")


def _along(
    shares: tuple[float, ...], factors: tuple[Estimate, ...], share: float, last: Estimate
) -> Estimate:
    """Return the factor of a share: 1 for none, `last` for all, straight between those known."""
    known, values = (0.0, *shares, 1.0), (Estimate.exactly(1.0), *factors, last)
    right = min(bisect_right(known, share), len(known) - 1)
    a, b = known[right - 1], known[right]
    return between(values[right - 1], values[right], (share - a) / (b - a))


@dataclass(frozen=True, slots=True)
class Mapped:
    """Host memory that kernels read and write in place.

    Attributes
    ----------
    first
        Seconds from the launch to its end as the host sees it, of a kernel that moves nothing.
    read_per_byte, write_per_byte
        G of a kernel that only reads, and of one that only writes.
    mixture
        Of one that does both; None: not slower than its longer direction.
    """

    first: Estimate
    read_per_byte: Estimate
    write_per_byte: Estimate
    mixture: Mixture | None = None


@dataclass(frozen=True, slots=True)
class Launching:
    """What kernels cost besides their work.

    Attributes
    ----------
    first
        Seconds from the launch to its end as the host sees it, of an empty kernel.
    call
        Seconds that the calling thread is held by a launch.
    gap
        Seconds from the end of a kernel to the begin of the next, queued behind it.
    event_call
        Seconds that the calling thread is held by recording an event or waiting for one
        on a stream.
    """

    first: Estimate
    call: Estimate
    gap: Estimate
    event_call: Estimate


#: The fields of `LinkParameters` of copies of pageable memory.
PAGEABLE_COPIES = ("pageable_h2d", "pageable_d2h", "cached_h2d", "cached_d2h", "fresh_d2h")
_PAGEABLE = {
    HostBuffer.USED: "pageable memory",
    HostBuffer.CACHED: "pageable memory in the host's caches",
    HostBuffer.NEW: "new pageable memory",
}
#: No transfer has more.
_MOST_BYTES = 1 << 50
#: Even of a fit that is of no use; more is a mistake.
_MOST_ERROR = 1000
_ByteCount = Annotated[int, Bound("0 to 2**50 bytes", lambda value: 0 <= value <= _MOST_BYTES)]
_ErrorShare = Annotated[
    float,
    Bound(
        f"a share of the measured time, 0 to {_MOST_ERROR}", lambda value: 0 <= value <= _MOST_ERROR
    ),
]


@dataclass(frozen=True, slots=True)
class Range:
    """Where the parameters were measured: beyond it they are extrapolated.

    Attributes
    ----------
    least_bytes, most_bytes
        Of one transfer.
    most_streams
        That a transfer was cut into.
    """

    least_bytes: _ByteCount
    most_bytes: _ByteCount
    most_streams: PositiveInt

    def __post_init__(self) -> None:
        if self.least_bytes > self.most_bytes:
            raise ValueError("'least_bytes' are more than 'most_bytes'")


@dataclass(frozen=True, slots=True)
class Errors:
    """How far the parameters are from transfers that were measured, and not used for them.

    Attributes
    ----------
    count
        Of transfers compared.
    median, p95, most
        Of the absolute error as a share of the measured time.
    """

    count: int
    median: _ErrorShare
    p95: _ErrorShare
    most: _ErrorShare

    def __post_init__(self) -> None:
        if not self.median <= self.p95 <= self.most:
            raise ValueError("'median', 'p95' and 'most' rise")


@dataclass(frozen=True, slots=True)
class LinkParameters:
    """What transfers between a host and one GPU cost on one machine.

    Attributes
    ----------
    name
        By which the user knows them, such as ``h200-x1``.
    gpu
        Its product name.
    link
        Such as ``PCIe 5.0 x16``.
    origin, source
        Measured or published, and by which command or where.
    copy_engines
        1 or 2 that can work at the same time, in opposite directions.
    implicit_synchronisation
        True where copies to the host wait for all kernels launched before (paper, section IV).
    h2d, d2h
        Copies of pinned memory.
    duplex
        Copies both ways at once; None: not known, and taken for unslowed.
    explicit_mapped
        Copies to the GPU, while kernels write the host's memory; None: as `duplex`.
    paced
        The same where the kernels compute longer than they write; None: not known.
    mapped
        Kernels that read and write the host's memory; None: not known.
    pageable_h2d, pageable_d2h
        Copies of pageable memory that was used before; None: not known.
    cached_h2d, cached_d2h
        Copies of such memory as the host's caches hold it; None: not known.
    fresh_d2h
        Copies to pageable memory that nobody has used, as a new array: the system gives each page
        first; None: not known.
    launching
        None: not known, and taken for 0.
    pinning
        Seconds to get pinned memory from the driver (cudaHostAlloc), by its size; None: not known.
    measured
        Where they were measured; None for published ones.
    errors
        Against transfers held out from the fit; None: never compared.
    machine_key
        Tells whether a stored fit belongs to the machine at hand; None for published ones.
    day
        When they were measured, such as 2026-11-21; None for published ones.
    memory_bytes
        Of the GPU; None: not known.
    driver
        Version of the driver that they were measured with; None: not known.
    note
        What speaks against them on the machine at hand, as a sentence; never stored.
    host_bandwidth
        What this and other GPUs of the machine together read and write of host memory.
    """

    name: str
    gpu: str
    link: str
    origin: Origin
    source: str
    copy_engines: int
    implicit_synchronisation: bool
    h2d: CopyCost
    d2h: CopyCost
    duplex: Duplex | None = None
    explicit_mapped: Duplex | None = None
    paced: Paced | None = None
    mapped: Mapped | None = None
    pageable_h2d: CopyCost | None = None
    pageable_d2h: CopyCost | None = None
    cached_h2d: CopyCost | None = None
    cached_d2h: CopyCost | None = None
    fresh_d2h: CopyCost | None = None
    launching: Launching | None = None
    pinning: TimeCurve | None = None
    measured: Range | None = None
    errors: Errors | None = None
    machine_key: str | None = None
    day: str | None = None
    memory_bytes: PositiveInt | None = None
    driver: str | None = None
    note: str | None = None
    host_bandwidth: tuple[HostBandwidth, ...] = ()

    def copies(self, direction: Direction) -> CopyCost:
        """Return what copies of pinned memory in that direction cost."""
        return self.h2d if direction is Direction.H2D else self.d2h

    def copies_of(self, memory: HostBuffer, direction: Direction) -> CopyCost:
        """Return what copies of such memory cost in that direction.

        Raises
        ------
        NotMeasuredError
            If that is not known.
        """
        to_gpu = direction is Direction.H2D
        match memory:
            case HostBuffer.PINNED:
                cost: CopyCost | None = self.copies(direction)
            case HostBuffer.USED:
                cost = self.pageable_h2d if to_gpu else self.pageable_d2h
            case HostBuffer.CACHED:
                cost = self.cached_h2d if to_gpu else self.cached_d2h
            case HostBuffer.NEW:
                cost = None if to_gpu else self.fresh_d2h
        if cost is None:
            raise self.missing(f"what copies of {_PAGEABLE[memory]} cost")
        return cost

    def missing(self, what: str) -> NotMeasuredError:
        """Return the error that says what the parameters do not tell."""
        return NotMeasuredError(
            f"The parameters of {self.name} do not tell {what}.",
            f"Run {command('model fit')} on that machine.",
        )
