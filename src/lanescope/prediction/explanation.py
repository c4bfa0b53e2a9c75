"""Why a method is predicted to be the fastest, and how far that is to be believed."""

from __future__ import annotations

from lanescope.prediction.equations import second_engine_helps
from lanescope.prediction.parameters import LinkParameters, Origin
from lanescope.prediction.predictor import PUBLISHED_ERRORS, Prediction
from lanescope.prediction.rank import NEARLY, Ranking
from lanescope.prediction.workload import MAPPED, STREAMED, Method, Workload
from lanescope.units.sizes import size_text
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
    overlap = _OVERLAP.get(best.method) or _streams_overlap(known)
    sentence = (
        f"{method_text(best)} is predicted to take {time_text(best.seconds.value)} on {known.name}"
    )
    return f"{sentence}: {overlap}, and most of the time goes to {bound_text(best)}."


def _streams_overlap(known: LinkParameters) -> str:
    if known.copy_engines > 1:
        return "copies in both directions and kernels overlap, by two copy engines"
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
    if ranking.parameters.errors is None:
        share = PUBLISHED_ERRORS[ranking.winner.method]
        sentence = (
            f"The interval of {name}, {time_text(low)} to {time_text(high)}, has the "
            f"{share * 100:.2f} % in it by which the paper's own predictions erred at most, "
            "as nobody has compared these parameters with transfers"
        )
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
    sentence = (
        f"Mapped memory is predicted for a kernel that reads each byte {_times(work.mapped_reads)} "
        f"over the link and writes it {_times(work.mapped_writes)}, in whole lines and {steps}"
    )
    if chosen is ranking.winner:
        return [f"{sentence}."]
    return [
        f"{sentence}; nobody has said that it does (--mapped-reads): unless it does, "
        f"{method_text(chosen)} is the method to take, {time_text(chosen.seconds.value)}."
    ]


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:g} times"


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
    sentences += _too_large(work, known)
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
    sentences += [
        f"{s.method} is left out: {s.reason[:1].lower()}{s.reason[1:]}" for s in ranking.skipped
    ]
    return sentences


def _too_large(work: Workload, known: LinkParameters) -> list[str]:
    """Return what a workload that the GPU's memory does not hold means for each method."""
    total, room = work.h2d_bytes + work.d2h_bytes, known.memory_bytes
    if room is None or total <= room:
        return []
    parts = -(-total // room)
    return [
        f"The GPU's {size_text(room)} of memory do not hold the {size_text(total)} of a round: "
        f"Explicit and Pageable cannot be done so, Streams only in more than {parts} parts that "
        "use the same memory again, which is not predicted; with mapped memory nothing is held "
        "there."
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
