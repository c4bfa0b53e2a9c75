"""Why a method is predicted to be the fastest, and how far that is to be believed.

And what no method can beat, and what doing one thing after the other takes: section III of van
Werkhoven et al. (2014) extends the roofline model by the link between host and GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lanescope.errors import InputError, argument
from lanescope.prediction.equations import PICKS, Pick, second_engine_helps
from lanescope.prediction.parameters import LinkParameters, Origin
from lanescope.prediction.predictor import (
    MAPPED,
    PUBLISHED_ERRORS,
    STREAMED,
    Method,
    Prediction,
    Workload,
)
from lanescope.prediction.rank import NEARLY, Ranking, least_parts
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import bytes_a_second, size_text
from lanescope.units.words import enumeration, time_text

_PARTS = {
    "h2d": "the bytes to the GPU",
    "d2h": "the bytes to the host",
    "kernel": "the kernel",
    "calls": "the calls of the host's thread",
}
_OVERLAP = {
    Method.EXPLICIT: "nothing overlaps",
    Method.PAGEABLE: "nothing overlaps",
    Method.IMPLICIT: "the kernel and its reads and writes over the link overlap",
    Method.HYBRID: "copies to the GPU overlap with kernels, which write the host's memory",
}
#: A kernel is too fast that takes less than the roofline by a larger share.
_ROUNDED = 0.01
#: Parts that take a smaller share of the whole, in sum, are faster than it.
_QUICK = 0.95


def method_text(prediction: Prediction) -> str:
    """Return a method with its number of streams, such as ``Streams (14)``."""
    if prediction.method in STREAMED:
        return f"{prediction.method} ({prediction.streams})"
    return str(prediction.method)


def bound_text(prediction: Prediction) -> str:
    """Return what a method's time goes to most."""
    return _PARTS.get(prediction.busiest, prediction.busiest)


def why(ranking: Ranking) -> str:
    """Return one paragraph: what is fastest, why, and what speaks against it."""
    sentences = [_winner(ranking), _against(ranking), _interval(ranking)]
    sentences += (
        _assumed(ranking) + _fewer(ranking) + _closed_form(ranking) + _second_engine(ranking)
    )
    sentences += caveats(ranking)
    return " ".join(sentences)


def _winner(ranking: Ranking) -> str:
    best, known = ranking.winner, ranking.parameters
    overlap = _OVERLAP.get(best.method) or _streams_overlap(known, ranking.workload)
    sentence = (
        f"{method_text(best)} is predicted to take {time_text(best.seconds.value)} on {known.name}"
    )
    return f"{sentence}: {overlap}, and most of the time goes to {bound_text(best)}."


def _streams_overlap(known: LinkParameters, work: Workload) -> str:
    both = known.copy_engines > 1 and work.h2d_bytes and work.d2h_bytes
    if not work.has_kernel:
        overlap = "copies in both directions overlap, by two copy engines"
        return overlap if both else "nothing overlaps"
    if both:
        return "copies in both directions and kernels overlap, by two copy engines"
    if known.copy_engines > 1:
        return "copies and kernels overlap"
    if known.implicit_synchronisation:
        return (
            "copies to the GPU overlap with kernels, and copies back wait for all kernels "
            "(one copy engine, implicit synchronisation)"
        )
    return "copies overlap with kernels, but not with copies the other way (one copy engine)"


def _against(ranking: Ranking) -> str:
    if len(ranking.best) < 2:
        return "No other method could be predicted."
    best, second = ranking.best[:2]
    ratio = second.seconds.value / best.seconds.value
    sentence = (
        f"{method_text(second)} takes {time_text(second.seconds.value)}, {ratio:.2f} times that"
    )
    explicit = next((p for p in ranking.best if p.method is Method.EXPLICIT), None)
    if explicit is not None and explicit not in (best, second):
        times = explicit.seconds.value / best.seconds.value
        sentence += f", and doing one thing after the other {times:.2f} times"
    return f"{sentence}."


def _interval(ranking: Ranking) -> str:
    low, high = ranking.winner.seconds.low, ranking.winner.seconds.high
    name = method_text(ranking.winner)
    sentence = f"{name} lies between {time_text(low)} and {time_text(high)} with 95 % confidence"
    known = ranking.parameters
    if known.errors is None:
        share = PUBLISHED_ERRORS[ranking.winner.method]
        others = " and what fits are off by on other machines" * (known.measured is not None)
        sentence = (
            f"The interval of {name}, {time_text(low)} to {time_text(high)}, has in it the "
            f"{share * 100:.2f} % by which the paper's own predictions erred at most{others}, "
            "as nobody has compared these parameters with transfers"
        )
    if len(ranking.best) == 1:
        return f"{sentence}."
    if ranking.decided:
        return f"{sentence}; it lies below that of every other method."
    names = [method_text(p) for p in ranking.level]
    those = f"that of {names[0]}" if len(names) == 1 else f"those of {enumeration(names)}"
    return f"{sentence}; it overlaps {those}, so it is not decided which is fastest."


def _assumed(ranking: Ranking) -> list[str]:
    """Return how often mapped bytes are taken to cross, and what to take unless they do."""
    work, chosen = ranking.workload, ranking.chosen
    mapped = [one for one in ranking.best if one.method in MAPPED]
    if not mapped:
        return []
    steps = "in many steps" if work.steps is None else f"in {work.steps:g} steps"
    steps = "in one step" if work.steps == 1 else steps
    sentence = (
        f"Mapped memory is predicted for a kernel that reads each byte {_times(work.mapped_reads)} "
        f"over the link and writes it {_times(work.mapped_writes)}, in whole lines and {steps}"
    )
    if work.mapped_contention != 1:
        sentence += (
            f"; its writes and copies to the GPU slow each other {work.mapped_contention:.2g} "
            "times as much as those of the fit's kernel"
        )
    if chosen is ranking.winner:
        return [f"{sentence}."]
    return [
        f"{sentence}; nobody has said that it does (--mapped-reads, --measured): unless it does, "
        f"{method_text(chosen)} is the method to take, {time_text(chosen.seconds.value)}."
    ]


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:.3g} times"


def _fewer(ranking: Ranking) -> list[str]:
    """Return which number of streams is the fastest, where fewer are nearly as good."""
    best = ranking.winner
    fastest = ranking.curves[best.method].fastest_streams
    if fastest == best.streams or (best.method is Method.STREAMS and _closed_form(ranking)):
        return []
    return [f"{_nearly(best.streams)} the fastest, {fastest}."]


def _nearly(streams: int) -> str:
    verb = "stream is" if streams == 1 else "streams are"
    return f"{streams} {verb} within {NEARLY * 100:.0f} % of"


def _closed_form(ranking: Ranking) -> list[str]:
    found = ranking.closed_form
    curve = ranking.curves.get(Method.STREAMS)
    if found is None or curve is None:
        return []
    fastest, best = curve.fastest_streams, curve.best.streams
    fewer = f", and {_nearly(best)} it" if best != fastest else ""
    return [
        f"For Streams the search finds the fastest at {fastest} of up to {curve.most_streams}"
        f"{fewer}; the paper's closed form gives {found:.3g}."
    ]


def _second_engine(ranking: Ranking) -> list[str]:
    known, work = ranking.parameters, ranking.workload
    streams = next((p for p in ranking.best if p.method is Method.STREAMS), None)
    if streams is None or known.copy_engines > 1 or known.implicit_synchronisation:
        return []
    helps = second_engine_helps(
        work.h2d_bytes * known.h2d.per_byte.value,
        work.kernel_seconds,
        work.d2h_bytes * known.d2h.per_byte.value,
        streams.streams,
    )
    return [f"A second copy engine would {'' if helps else 'not '}make Streams faster."]


def caveats(ranking: Ranking) -> list[str]:
    """Return what the prediction leaves out or extrapolates, and what to measure next."""
    known, work = ranking.parameters, ranking.workload
    sentences = [] if known.note is None else [known.note]
    sentences += _too_large(ranking) + _quick_parts(work)
    if known.origin is Origin.PUBLISHED:
        sentences.append("The parameters are published ones, none was measured here.")
    elif known.origin is Origin.DERIVED:
        sentences.append(
            "Some of the parameters are computed from those of another link: measure there "
            "with 'lanescope model fit' before you rely on it."
        )
    if extrapolated := _extrapolated(ranking.winner, work, known):
        sentences.append(extrapolated)
    if work.needs_previous and ranking.winner.predictor.startswith("equations"):
        sentences.append(
            "The equations take parts for independent; that each needs the one before it delays "
            "streams by about one part more."
        )
    if ranking.winner.predictor.startswith("equations") and (work.kernel_parts or work.steps):
        sentences.append(
            "The equations know neither the kernel's time in parts nor its steps: the replay does "
            "(--predictor replay)."
        )
    return sentences + _left_out(ranking)


def _left_out(ranking: Ranking) -> list[str]:
    """Return which methods are left out, those with the same reason in one sentence."""
    methods: dict[str, list[str]] = {}
    for one in ranking.skipped:
        if one.possible:
            methods.setdefault(one.reason, []).append(str(one.method))
    return [
        f"{enumeration(names)} {'is' if len(names) == 1 else 'are'} left out: "
        f"{reason[:1].lower()}{reason[1:]}"
        for reason, names in methods.items()
    ]


def _too_large(ranking: Ranking) -> list[str]:
    """Return what a workload that the GPU's memory does not hold means for each method."""
    work, known = ranking.workload, ranking.parameters
    total, room = work.h2d_bytes + work.d2h_bytes, known.memory_bytes
    if room is None or total <= room:
        return []
    asked = [*ranking.curves, *(one.method for one in ranking.skipped)]
    least = {method: least_parts(work, method, known) for method in Method if method in asked}
    impossible = [str(method) for method, parts in least.items() if parts is None]
    clauses = []
    if impossible:
        verb = "is" if len(impossible) == 1 else "are"
        clauses.append(f"{enumeration(impossible)} {verb} not possible")
    clauses += [
        f"{method} takes {parts} parts or more, which use the same memory again"
        for method, parts in least.items()
        if parts is not None and parts > 1
    ]
    if not clauses:
        return []
    return [
        f"The GPU's {size_text(room)} of memory do not hold the {size_text(total)} of a round: "
        f"{'; '.join(clauses)}."
    ]


def _quick_parts(work: Workload) -> list[str]:
    """Return that parts of the kernel take less than the whole, of that with which most is less."""
    sums = {parts * seconds: parts for parts, seconds in work.kernel_parts}
    least = min(sums, default=work.kernel_seconds)
    if least >= work.kernel_seconds * _QUICK:
        return []
    return [
        f"The kernel's {sums[least]} parts take {time_text(least)} one after the other, less than "
        f"its {time_text(work.kernel_seconds)} in one: unless parts fit a cache and the whole does "
        "not, one of these times is wrong, and so are those of methods with streams."
    ]


def _extrapolated(best: Prediction, work: Workload, known: LinkParameters) -> str | None:
    if known.measured is None:
        return None
    least, most = known.measured.least_bytes, known.measured.most_bytes
    parts = best.streams if best.method in STREAMED else 1
    copies = []
    if best.method is not Method.IMPLICIT:
        copies.append(work.h2d_bytes / (work.h2d_copies(parts) * work.h2d_arrays))
    if best.method not in (Method.IMPLICIT, Method.HYBRID):
        copies.append(work.d2h_bytes / (work.d2h_copies(parts) * work.d2h_arrays))
    else:
        copies += [work.d2h_bytes * work.mapped_writes / parts]
        if best.method is Method.IMPLICIT:
            copies += [work.h2d_bytes * work.mapped_reads]
    outside = [c for c in copies if c and not least <= c <= most]
    reasons = []
    if outside:
        reasons.append(
            f"transfers of {size_text(round(max(outside)))} lie outside of the "
            f"{size_text(least)} to {size_text(most)} that were measured"
        )
    if parts > known.measured.most_streams:
        reasons.append(f"more than {known.measured.most_streams} streams were not measured")
    if not reasons:
        return None
    return (
        f"This is extrapolated: {' and '.join(reasons)}; run 'lanescope model fit' with such "
        "transfers next."
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Three bounds as seconds of one round, with the interval of the link's parameters.

    Attributes
    ----------
    full_overlap
        If everything overlaps: no method with copies is faster.
    zero_overlap
        If nothing does.
    mapped
        At least, of a kernel on mapped memory, to which the GPU's own is no help.
    flops
        Operations of the kernel, for bounds as rates; None: not known.
    """

    full_overlap: Estimate
    zero_overlap: Estimate
    mapped: Estimate
    flops: float | None = None

    def rate(self, seconds: Estimate) -> float | None:
        """Return the FLOP/s that a time stands for; None where no operations are known."""
        return None if self.flops is None or not seconds.value else self.flops / seconds.value


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a GPU can do at most: FLOP/s, and bytes a second of its memory."""

    flops: float
    memory_bandwidth: float


def peaks_of(flops: float | None, memory_gbs: float | None) -> Peaks | None:
    """Return the peaks of a GPU, FLOP/s and GB/s; None without.

    Raises
    ------
    InputError
        If one alone is given, or one is not above zero.
    """
    for name, peak in ((argument.peak_flops, flops), (argument.memory_gbs, memory_gbs)):
        if peak is not None and not 0 < peak < float("inf"):
            raise InputError(f"{name} {peak:g} is not above zero; give what the GPU can do")
    if flops is None and memory_gbs is None:
        return None
    if flops is None or memory_gbs is None:
        raise InputError(
            f"{argument.peak_flops} and {argument.memory_gbs} belong together; give both or none"
        )
    return Peaks(flops, bytes_a_second(memory_gbs))


def paper_bounds(
    flops: float,
    device_bytes: float,
    transferred_bytes: float,
    peaks: Peaks,
    link_bandwidth: float,
) -> tuple[float, float, float]:
    """Return the bounds in FLOP/s as section III has them: full overlap, zero overlap, mapped.

    Parameters
    ----------
    flops
        Operations of the kernel.
    device_bytes
        To and from the GPU's memory.
    transferred_bytes, link_bandwidth
        Bytes in both directions together, and bytes a second: the paper has one for both.
    """
    operational, data = flops / device_bytes, flops / transferred_bytes
    roof = min(peaks.flops, peaks.memory_bandwidth * operational)
    full = min(roof, link_bandwidth * data)
    zero = flops / (transferred_bytes / link_bandwidth + flops / roof)
    mapped = min(peaks.flops, link_bandwidth * operational)
    return full, zero, mapped


def bounds_as_printed(workload: Workload, parameters: LinkParameters, peaks: Peaks) -> Bounds:
    """Return the paper's bounds of a workload, by the mean bandwidth of all of its bytes.

    Raises
    ------
    InputError
        If the workload's operations or bytes are not known.
    """
    flops, moved = _roofline(workload)
    total = workload.h2d_bytes + workload.d2h_bytes

    def at(pick: Pick) -> tuple[float, ...]:
        h2d, d2h = _link_seconds(workload, parameters, pick)
        rates = paper_bounds(flops, moved, total, peaks, total / (h2d + d2h))
        return tuple(flops / rate for rate in rates)

    return _bounds(at, flops)


def bounds_of(workload: Workload, parameters: LinkParameters, peaks: Peaks | None = None) -> Bounds:
    """Return the bounds of a workload on a link whose directions are busy at the same time.

    The paper's sum of both directions is no bound where they overlap, so here the longer one
    bounds full overlap, and each direction has its own G. The kernel's share is its own time, or
    the roofline's where the GPU's peaks are given.

    Raises
    ------
    InputError
        If there are peaks, and the workload's operations or bytes are not known.
    """
    compute = kernel = workload.kernel_seconds
    if peaks is not None:
        flops, moved = _roofline(workload)
        compute = flops / peaks.flops
        kernel = max(compute, moved / peaks.memory_bandwidth)

    def at(pick: Pick) -> tuple[float, ...]:
        h2d, d2h = _link_seconds(workload, parameters, pick)
        reads, writes = h2d, d2h
        if parameters.mapped is not None:
            reads = workload.h2d_bytes * pick(parameters.mapped.read_per_byte)
            writes = workload.d2h_bytes * pick(parameters.mapped.write_per_byte)
        mapped = max(compute, reads * workload.mapped_reads, writes * workload.mapped_writes)
        return max(h2d, kernel, d2h), h2d + kernel + d2h, mapped

    return _bounds(at, workload.flops)


def too_fast(workload: Workload, peaks: Peaks | None) -> str | None:
    """Return a sentence where the kernel's time is less than the roofline allows; else None."""
    if peaks is None:
        return None
    flops, moved = _roofline(workload)
    computing, memory = flops / peaks.flops, moved / peaks.memory_bandwidth
    least = max(computing, memory)
    if workload.kernel_seconds >= least * (1 - _ROUNDED):
        return None
    what = "its operations take" if computing >= memory else "its bytes of the GPU's memory take"
    return (
        f"The kernel's {time_text(workload.kernel_seconds)} is less than the {time_text(least)} "
        f"that {what} at the GPU's peak: one of these numbers is wrong, and so are the times here."
    )


def _link_seconds(
    workload: Workload, parameters: LinkParameters, pick: Pick
) -> tuple[float, float]:
    return (
        workload.h2d_bytes * pick(parameters.h2d.per_byte),
        workload.d2h_bytes * pick(parameters.d2h.per_byte),
    )


def _roofline(workload: Workload) -> tuple[float, float]:
    if not workload.flops or not workload.device_bytes:
        raise InputError(
            f"the roofline takes all of {argument.flops}, {argument.device_bytes}, "
            f"{argument.peak_flops} and {argument.memory_gbs}; give those four, or "
            "neither of the last two"
        )
    return workload.flops, workload.device_bytes


def _bounds(at: Callable[[Pick], tuple[float, ...]], flops: float | None) -> Bounds:
    ends = zip(*(at(pick) for pick in PICKS), strict=True)
    full, zero, mapped = (Estimate(value, low, high) for value, low, high in ends)
    return Bounds(full, zero, mapped, flops)
