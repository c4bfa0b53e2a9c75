"""The predictor by equations: van Werkhoven et al. (2014), sections V and VI.

Figure 7 has an equation for each method and each category of device. Which of a category's two
scenarios is dominant it leaves to the reader; each is a chain of work that cannot be shorter, so
the longer of both is taken. Beyond the paper: copies of several arrays have a gap each, and where
it is known what a kernel's launch and the calls of the host cost, that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from lanescope.calls import checked
from lanescope.errors import InputError, NotMeasuredError
from lanescope.model.overlap import forms
from lanescope.model.overlap.cut import PICKS, Cut, Pick
from lanescope.model.overlap.errors import error_share
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.overlap.predictor import Prediction
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.parameters import Direction, LinkParameters
from lanescope.model.transfer.seconds import mapped_seconds

T = TypeVar("T")


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
    each of them. It is widened by `Errors.p95` where the parameters were compared with transfers,
    else by `PUBLISHED_ERRORS`.
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
        cut = Cut(workload, parameters, streams)
        here, low, high = (self._parts(cut, method, pick) for pick in PICKS)
        share = error_share(parameters, method)
        seconds = Estimate(
            here.seconds,
            min(here.seconds, low.seconds) * (1 - share),
            max(here.seconds, high.seconds) * (1 + share),
        )
        return Prediction(method, streams, seconds, self.name, here.busiest)

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the time of one round; see `Predictor.value`."""
        return self.predict(workload, method, streams, parameters).seconds.value

    def _parts(self, cut: Cut, method: Method, pick: Pick) -> Parts:
        known = cut.known
        match method:
            case Method.EXPLICIT:
                return _explicit(cut, known.h2d, known.d2h, pick)
            case Method.PAGEABLE:
                into = _known(known.pageable_h2d, known, "what copies of pageable memory cost")
                back = _known(known.pageable_d2h, known, "what copies of pageable memory cost")
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
            seconds = forms.equation_5(h2d, kernel, d2h, n)
        elif known.implicit_synchronisation:
            seconds = max(forms.equation_1(h2d, kernel, d2h), forms.equation_2(h2d, kernel, d2h, n))
        else:
            seconds = max(forms.equation_3(h2d, kernel, d2h), forms.equation_4(h2d, kernel, d2h, n))
        return Parts(max(seconds, calls), h2d.whole, kernel, d2h.whole, calls)

    def _hybrid(self, cut: Cut, pick: Pick) -> Parts:
        known = cut.known
        if known.explicit_mapped is None and known.mapped is None:
            raise _missing(known, "what kernels that write mapped memory cost")
        # nothing is copied back, so what small copies cost does not count
        back = Direction(known.d2h.first, known.d2h.per_byte, known.d2h.gap)
        kernel, calls = cut.kernel(pick), cut.calls(pick, back=False)
        if cut.streams == 1:
            # the kernel begins after the copies: its writes meet none, as those of equation 6
            write = known.d2h.per_byte if known.mapped is None else known.mapped.write_per_byte
            h2d, d2h = cut.mapped_back(back, (pick(known.h2d.per_byte), pick(write)), pick)
            seconds = h2d.whole + max(kernel, d2h.whole)
        else:
            per_byte = cut.slowed(known.explicit_mapped or known.duplex, pick, shared=self._shared)
            h2d, d2h = cut.mapped_back(back, per_byte, pick)
            seconds = forms.equation_5(h2d, kernel, d2h, cut.streams)
        return Parts(max(seconds, calls), h2d.whole, kernel, d2h.whole, calls)


def _explicit(cut: Cut, into: Direction, back: Direction, pick: Pick) -> Parts:
    work = cut.work
    h2d = cut.seconds(into, work.h2d_bytes, work.h2d_arrays, pick)
    d2h = cut.seconds(back, work.d2h_bytes, work.d2h_arrays, pick)
    kernel = cut.kernel(pick)
    return Parts(forms.explicit(h2d, kernel, d2h), h2d, kernel, d2h)


def _implicit(cut: Cut, pick: Pick) -> Parts:
    known, work = cut.known, cut.work
    mapped = _known(known.mapped, known, "what kernels that read and write mapped memory cost")
    reading, writing = mapped_seconds(
        mapped, work.h2d_bytes * work.mapped_reads, work.d2h_bytes * work.mapped_writes
    )
    h2d, d2h = pick(reading), pick(writing)
    # what the launch costs from end to end is both L + o in one
    seconds = forms.equation_6(h2d, work.kernel_seconds, d2h, pick(mapped.first), 0.0)
    return Parts(seconds, h2d, work.kernel_seconds, d2h)


def _known(value: T | None, parameters: LinkParameters, what: str) -> T:
    if value is None:
        raise _missing(parameters, what)
    return value


def _missing(parameters: LinkParameters, what: str) -> NotMeasuredError:
    return NotMeasuredError(
        f"The parameters of {parameters.name} do not tell {what}.",
        "Run 'lanescope model fit' on that machine.",
    )
