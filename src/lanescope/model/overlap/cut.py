"""A workload that is cut into streams, on a machine: the seconds that the equations take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lanescope.model.overlap.forms import Transfers
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.parameters import Direction, Duplex, LinkParameters
from lanescope.model.transfer.seconds import next_seconds, single_seconds

#: Which of an estimate's three numbers is taken.
Pick = Callable[[Estimate], float]
#: The number itself, and both ends of its interval.
PICKS: tuple[Pick, ...] = (lambda e: e.value, lambda e: e.low, lambda e: e.high)
#: G of both directions.
PerByte = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Cut:
    """A workload in so many equal parts.

    Attributes
    ----------
    work, known, streams
        What is cut, where, and into how many parts.
    copied, called
        Times of copies, first and further ones, and of calls that have been looked up: they are
        asked for again for each end of the interval.
    """

    work: Workload
    known: LinkParameters
    streams: int
    copied: dict[tuple[int, float, int], tuple[Estimate, Estimate]] = field(default_factory=dict)
    called: dict[tuple[int, float], Estimate] = field(default_factory=dict)

    def slowed(self, duplex: Duplex | None, pick: Pick, *, shared: bool) -> PerByte:
        """Return G of each direction while the other may be busy, too.

        With `shared` the direction with more to do is slowed only as long as the other has bytes
        left.
        """
        plain = pick(self.known.h2d.per_byte), pick(self.known.d2h.per_byte)
        if duplex is None or not (self.work.h2d_bytes and self.work.d2h_bytes):
            return plain
        both = pick(duplex.h2d_per_byte), pick(duplex.d2h_per_byte)
        if not shared:
            return both
        return shared_per_byte(plain, both, (self.work.h2d_bytes, self.work.d2h_bytes))

    def copies(self, per_byte: PerByte, pick: Pick) -> tuple[Transfers, Transfers]:
        """Return the copies of both directions at that G."""
        work, known = self.work, self.known
        return (
            self._transfers(known.h2d, work.h2d_bytes, work.h2d_arrays, per_byte[0], pick),
            self._transfers(known.d2h, work.d2h_bytes, work.d2h_arrays, per_byte[1], pick),
        )

    def mapped_back(
        self, back: Direction, per_byte: PerByte, pick: Pick
    ) -> tuple[Transfers, Transfers]:
        """Return the copies to the GPU, and what kernels write into the host's memory."""
        work = self.work
        size = round(work.d2h_bytes * work.mapped_writes)
        return (
            self._transfers(self.known.h2d, work.h2d_bytes, work.h2d_arrays, per_byte[0], pick),
            self._transfers(back, size, 1, per_byte[1], pick),
        )

    def seconds(self, direction: Direction, size: float, copies: int, pick: Pick) -> float:
        """Return ``L + o + B * G + g * (copies - 1)``, or as measured at such sizes."""
        if not size:
            return 0.0
        key = id(direction), size / copies, copies
        if key not in self.copied:
            self.copied[key] = (
                single_seconds(direction, size / copies),
                next_seconds(direction, size / copies, copies),
            )
        first, further = self.copied[key]
        return pick(first) + (copies - 1) * pick(further)

    def kernel(self, pick: Pick) -> float:
        """Return t_E, with a gap before each launch's kernel where that is known."""
        launching = self.known.launching
        gap = 0.0 if launching is None else pick(launching.gap)
        return self.work.kernel_seconds + self.streams * gap

    def calls(self, pick: Pick, *, back: bool = True) -> float:
        """Return how long one thread takes to hand everything over; 0 where that is not known.

        Nothing that is handed over can end before it was. Without `back` nothing is copied back.
        """
        work, known = self.work, self.known
        spent = 0.0 if known.launching is None else self.streams * pick(known.launching.call)
        for direction, size, arrays, counts in (
            (known.h2d, work.h2d_bytes, work.h2d_arrays, True),
            (known.d2h, work.d2h_bytes, work.d2h_arrays, back),
        ):
            if counts and size and direction.call is not None:
                copies = self.streams * arrays
                key = id(direction), size / copies
                if key not in self.called:
                    self.called[key] = direction.call.at(size / copies)
                spent += copies * pick(self.called[key])
        return spent

    def _transfers(
        self, direction: Direction, size: int, arrays: int, per_byte: float, pick: Pick
    ) -> Transfers:
        more = per_byte - pick(direction.per_byte)
        part = size / self.streams
        return Transfers(
            self.seconds(direction, size, arrays * self.streams, pick) + size * more,
            self.seconds(direction, part, arrays, pick) + part * more,
        )


def shared_per_byte(plain: PerByte, both: PerByte, sizes: tuple[int, int]) -> PerByte:
    """Return mean G of each direction, slowed only while the other has bytes left.

    The direction that ends first is slowed all the time, the other for as long (the rule of
    CoCoPeLia: Anastasiadis et al., ISPASS 2021).
    """
    times = [size * g for size, g in zip(sizes, both, strict=True)]
    longer = 0 if times[0] >= times[1] else 1
    means = list(both)
    saved = 1 - plain[longer] / both[longer]
    means[longer] = plain[longer] + times[1 - longer] / sizes[longer] * saved
    return means[0], means[1]
