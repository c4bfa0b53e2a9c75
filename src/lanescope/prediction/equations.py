"""The predictor by equations: van Werkhoven et al. (2014), sections V and VI.

Figure 7 has an equation for each method and each category of device: equations 1 to 6, each a
function here as it is printed. What an equation says of a direction is in `Transfers`: ``L + o +
B * G + g * (nStreams - 1)`` is `Transfers.whole`, and ``L + o + B / nStreams * G`` is
`Transfers.part`. All times are in seconds.

Which of a category's two scenarios is dominant the figure leaves to the reader; each is a chain of
work that cannot be shorter, so the longer of both is taken. Beyond the paper: copies of several
arrays have a gap each, and where it is known what a kernel's launch and the calls of the host cost,
that counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import TypeVar

from lanescope.calls import checked
from lanescope.errors import InputError
from lanescope.prediction.costs import (
    at_contention,
    mapped_seconds,
    next_seconds,
    single_seconds,
)
from lanescope.prediction.parameters import CopyCost, Direction, Duplex, LinkParameters
from lanescope.prediction.predictor import (
    STREAMED,
    Method,
    Prediction,
    Workload,
    copies_of,
    error_band,
)
from lanescope.units.estimate import Estimate

#: Which of an estimate's three numbers is taken.
Pick = Callable[[Estimate], float]
#: The number itself, and both ends of its interval.
PICKS: tuple[Pick, ...] = (lambda e: e.value, lambda e: e.low, lambda e: e.high)
#: G of both directions.
PerByte = tuple[float, float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Transfers:
    """Seconds of the copies of one direction: of all streams, and of one of them."""

    whole: float
    part: float


def explicit(h2d: float, kernel: float, d2h: float) -> float:
    """Return the time without overlap: the sum of the three."""
    return h2d + kernel + d2h


def equation_1(h2d: Transfers, kernel: float, d2h: Transfers) -> float:
    """Return the time by one copy engine, with implicit synchronisation, kernel dominant."""
    return h2d.part + kernel + d2h.whole


def equation_2(h2d: Transfers, kernel: float, d2h: Transfers, streams: int) -> float:
    """Return the time by one copy engine, with implicit synchronisation, transfers dominant."""
    return h2d.whole + kernel / streams + d2h.whole


def equation_3(h2d: Transfers, kernel: float, d2h: Transfers) -> float:
    """Return the time by one copy engine, no implicit synchronisation, kernel dominant."""
    return h2d.part + kernel + d2h.part


def equation_4(h2d: Transfers, kernel: float, d2h: Transfers, streams: int) -> float:
    """Return the time by one copy engine, no implicit synchronisation, transfers dominant.

    As in figure 7; section IV, without gaps, joins the last two terms into one that is their
    sum, which is more than the streams take.
    """
    return max(
        h2d.whole + d2h.whole,
        h2d.whole + kernel / streams + d2h.part,
        h2d.part + kernel / streams + d2h.whole,
    )


def equation_5(h2d: Transfers, kernel: float, d2h: Transfers, streams: int) -> float:
    """Return the time by two copy engines, no implicit synchronisation."""
    return max(
        h2d.whole + kernel / streams + d2h.part,
        h2d.part + kernel + d2h.part,
        h2d.part + kernel / streams + d2h.whole,
    )


def equation_6(
    h2d_bytes: float, kernel: float, d2h_bytes: float, first: float, last: float
) -> float:
    """Return the time of a kernel on mapped memory; `first` and `last` are both ``L + o``.

    `h2d_bytes` and `d2h_bytes` are the seconds ``B * G`` of each direction.
    """
    return max(
        first + h2d_bytes + last,
        first + kernel + last,
        first + last + d2h_bytes,
    )


def most_streams_1(h2d_seconds: float, gap: float) -> float:
    """Return where equation 1 is least: ``sqrt(B_hd * G_hd / g)``."""
    return sqrt(h2d_seconds / gap)


def most_streams_2(kernel: float, gap: float) -> float:
    """Return where equation 2 is least: ``sqrt(t_E / (2 * g))``."""
    return sqrt(kernel / (2 * gap))


def fewest_streams_4(kernel: float, shorter_seconds: float, gap: float) -> float:
    """Return from how many streams on equation 4 is the sum of both directions.

    More streams only add gaps then. It solves ``B * G + g * (n - 1) = (t_E + B * G) / n`` for
    n, where B * G is the shorter direction's.
    """
    if gap == 0:
        return (kernel + shorter_seconds) / shorter_seconds
    slope = shorter_seconds - gap
    root = sqrt(slope * slope + 4 * gap * (kernel + shorter_seconds))
    return (root - slope) / (2 * gap)


def most_streams_5(kernel: float, shorter_seconds: float, gap: float) -> float:
    """Return where equation 5 is least while one direction dominates.

    ``sqrt((B * G + t_E) / g)``, where B * G is the shorter direction's and g the longer's.
    """
    return sqrt((shorter_seconds + kernel) / gap)


def second_engine_helps(h2d: float, kernel: float, d2h: float, streams: int) -> bool:
    """Whether a second copy engine makes streams faster, from equations 3 to 5 without gaps.

    `h2d`, `kernel` and `d2h` are the seconds of all streams together. True where both
    directions' sum is the longest term of equations 3 and 4, as only that is gone in equation 5.
    The inequality that section IV prints, ``t_E / n + t_Thd / n > t_Thd``, does not follow from
    the paper's own equations.
    """
    rest = 1 - 1 / streams
    return (
        d2h * rest > kernel / streams
        and h2d * rest > kernel / streams
        and (h2d + d2h) * rest > kernel
    )


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
        self, back: CopyCost, per_byte: PerByte, pick: Pick
    ) -> tuple[Transfers, Transfers]:
        """Return the copies to the GPU, and what kernels write into the host's memory."""
        work = self.work
        size = round(work.d2h_bytes * work.mapped_writes)
        return (
            self._transfers(self.known.h2d, work.h2d_bytes, work.h2d_arrays, per_byte[0], pick),
            self._transfers(back, size, 1, per_byte[1], pick),
        )

    def seconds(self, direction: CopyCost, size: float, copies: int, pick: Pick) -> float:
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
        launching = self.known.launching if self.work.has_kernel else None
        gap = 0.0 if launching is None else pick(launching.gap)
        return self.work.kernel_seconds + self.streams * gap

    def calls(self, pick: Pick, *, back: bool = True) -> float:
        """Return how long one thread takes to hand everything over; 0 where that is not known.

        Nothing that is handed over can end before it was. Without `back` nothing is copied back.
        """
        work, known = self.work, self.known
        launching = known.launching if work.has_kernel else None
        spent = 0.0 if launching is None else self.streams * pick(launching.call)
        for direction, size, arrays, counts in (
            (known.h2d, work.h2d_bytes, work.h2d_arrays, True),
            (known.d2h, work.d2h_bytes, work.d2h_arrays, back),
        ):
            if counts and size and direction.call is not None:
                copies = copies_of(size, arrays, self.streams) * arrays
                key = id(direction), size / copies
                if key not in self.called:
                    self.called[key] = direction.call.at(size / copies)
                spent += copies * pick(self.called[key])
        return spent

    def _transfers(
        self, direction: CopyCost, size: int, arrays: int, per_byte: float, pick: Pick
    ) -> Transfers:
        more = per_byte - pick(direction.per_byte)
        copies = copies_of(size, arrays, self.streams)
        part = size / copies
        return Transfers(
            self.seconds(direction, size, arrays * copies, pick) + size * more,
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


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds that each part of the machine is busy with all streams; what a method takes."""

    seconds: float
    h2d: float
    kernel: float
    d2h: float
    calls: float = 0.0

    @property
    def busiest(self) -> str:
        """The part with the most to do."""
        busy = {"h2d": self.h2d, "kernel": self.kernel, "d2h": self.d2h, "calls": self.calls}
        return max(busy, key=lambda part: busy[part])


@checked
class Equations:
    """Predicts by equations 1 to 6.

    As printed, G under traffic the other way holds for all bytes of Streams and Hybrid.
    With ``shared=True`` it holds only as long as the other direction has bytes to move, which
    matters where one direction has far fewer. Hybrid with one stream copies, and then computes and
    writes: nothing is slowed, and the longer of the last two counts.

    The interval comes from the low and high ends of all parameters, as every equation rises with
    each of them. It is widened as `error_band` says.
    """

    is_slow = False

    def __init__(self, *, shared: bool = False) -> None:
        self._shared = shared
        self.name = "equations-shared" if shared else "equations"

    def predict(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> Prediction:
        """Return the time of one round.

        Raises
        ------
        NotMeasuredError
            If the parameters lack what the method takes.
        """
        if streams < 1:
            raise InputError("a workload is not cut into 0 parts; give 1 stream or more")
        streams = streams if method in STREAMED else 1
        known = at_contention(parameters, workload.mapped_contention)
        cut = Cut(workload, known, streams)
        here, low, high = (self._parts(cut, method, pick) for pick in PICKS)
        down, up = error_band(parameters, workload, method, streams)
        seconds = Estimate(
            here.seconds,
            min(here.seconds, min(here.seconds, low.seconds) * down),
            max(here.seconds, max(here.seconds, high.seconds) * up),
        )
        return Prediction(method, streams, seconds, self.name, here.busiest)

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the time of one round; see `Predictor.value`."""
        return self.predict(workload, method, streams, parameters).seconds.value

    def least(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return 0: `value` is quick; see `Predictor.least`."""
        return 0.0

    def _parts(self, cut: Cut, method: Method, pick: Pick) -> Parts:
        known = cut.known
        match method:
            case Method.EXPLICIT:
                return _explicit(cut, known.h2d, known.d2h, pick)
            case Method.PAGEABLE:
                into, back = (known.copies_of(cut.work.pageable(one), one) for one in Direction)
                return _explicit(cut, into, back, pick)
            case Method.IMPLICIT:
                return _implicit(cut, pick)
            case Method.HYBRID:
                return self._hybrid(cut, pick)
            case Method.STREAMS:
                return self._streams(cut, pick)

    def _streams(self, cut: Cut, pick: Pick) -> Parts:
        known, n = cut.known, cut.streams
        # one stream copies one way at a time
        duplex = known.duplex if known.copy_engines > 1 and n > 1 else None
        h2d, d2h = cut.copies(cut.slowed(duplex, pick, shared=self._shared), pick)
        kernel, calls = cut.kernel(pick), cut.calls(pick)
        if known.copy_engines > 1:
            seconds = equation_5(h2d, kernel, d2h, n)
        elif known.implicit_synchronisation:
            seconds = max(equation_1(h2d, kernel, d2h), equation_2(h2d, kernel, d2h, n))
        else:
            seconds = max(equation_3(h2d, kernel, d2h), equation_4(h2d, kernel, d2h, n))
        return Parts(max(seconds, calls), h2d.whole, kernel, d2h.whole, calls)

    def _hybrid(self, cut: Cut, pick: Pick) -> Parts:
        known = cut.known
        if known.explicit_mapped is None and known.mapped is None:
            raise known.missing("what kernels that write mapped memory cost")
        # nothing is copied back, so what small copies cost does not count
        back = CopyCost(known.d2h.first, known.d2h.per_byte, known.d2h.gap)
        kernel, calls = cut.kernel(pick), cut.calls(pick, back=False)
        if cut.streams == 1:
            # the kernel begins after the copies: its writes meet none, as those of equation 6
            write = known.d2h.per_byte if known.mapped is None else known.mapped.write_per_byte
            h2d, d2h = cut.mapped_back(back, (pick(known.h2d.per_byte), pick(write)), pick)
            seconds = h2d.whole + max(kernel, d2h.whole)
        else:
            per_byte = cut.slowed(known.explicit_mapped or known.duplex, pick, shared=self._shared)
            h2d, d2h = cut.mapped_back(back, per_byte, pick)
            seconds = equation_5(h2d, kernel, d2h, cut.streams)
        return Parts(max(seconds, calls), h2d.whole, kernel, d2h.whole, calls)


def _explicit(cut: Cut, into: CopyCost, back: CopyCost, pick: Pick) -> Parts:
    work = cut.work
    h2d = cut.seconds(into, work.h2d_bytes, work.h2d_arrays, pick)
    d2h = cut.seconds(back, work.d2h_bytes, work.d2h_arrays, pick)
    kernel = cut.kernel(pick)
    return Parts(explicit(h2d, kernel, d2h), h2d, kernel, d2h)


def _implicit(cut: Cut, pick: Pick) -> Parts:
    known, work = cut.known, cut.work
    mapped = _known(known.mapped, known, "what kernels that read and write mapped memory cost")
    reading, writing = mapped_seconds(
        mapped, work.h2d_bytes * work.mapped_reads, work.d2h_bytes * work.mapped_writes
    )
    h2d, d2h = pick(reading), pick(writing)
    # what the launch costs from end to end is both L + o in one
    seconds = equation_6(h2d, work.kernel_seconds, d2h, pick(mapped.first), 0.0)
    return Parts(seconds, h2d, work.kernel_seconds, d2h)


def _known(value: T | None, parameters: LinkParameters, what: str) -> T:
    if value is None:
        raise parameters.missing(what)
    return value
