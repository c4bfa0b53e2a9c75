"""What to do with an array: predicted for a link, and measured over each path that it crossed.

An array crosses a link in slabs, each compressed, sent and decompressed while the others are at
another of these steps. A prediction is made of measured ratios and speeds;
`lanescope.compression.rule` says what a transfer takes, there with t0 = 0.

Of paths that were measured, the rule says from how many bytes on compressing pays there. L and a
come from the raw copies of the least and the most bytes; C and D are the kernels' speeds on as many
SMs, both slower or faster by the factor that explains the transfer of the most bytes; t0 is what
the one of the least bytes took more than all this explains. With one size alone a and t0 are taken
to be 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from lanescope._core import native
from lanescope.codec.fields import Positive
from lanescope.compression.channel_setup import TO_GPU, TO_HOST
from lanescope.compression.rule import (
    DEFAULT_SLAB_BYTES,
    MARGIN,
    CodecCost,
    LinkCost,
    break_even,
    compressed_seconds,
    raw_seconds,
    slowness,
)
from lanescope.studies.compress.results import ArrayResult, Crossing, Measured, MeasuredKernels
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import bandwidth_gbs

#: Where a transfer took no more than its bytes on the link, the codec's speed is not known.
_LEAST_SLOWNESS = 0.1
#: The factor and t0 depend on each other; each step leaves a small part of what both are off.
_STEPS = 20


@dataclass(frozen=True, slots=True)
class CrossedLink:
    """What arrays cross.

    Attributes
    ----------
    name
        As the user named it.
    gbs
        L, in GB/s.
    first_seconds
        a: what a transfer takes besides its bytes.
    """

    name: str
    gbs: Positive
    first_seconds: float = 0.0

    @property
    def cost(self) -> LinkCost:
        """L and a."""
        return LinkCost(self.gbs, self.first_seconds)


@dataclass(frozen=True, slots=True)
class CodecRates:
    """What a codec does to an array: r, and C and D in GB/s of the array."""

    ratio: float
    compress_gbs: Estimate
    decompress_gbs: Estimate


@dataclass(frozen=True, slots=True)
class CrossingPrediction:
    """What an array takes across a link.

    Attributes
    ----------
    raw_seconds, seconds
        T_raw, and T_z with the interval that those of the speeds lead to.
    slowest
        What limits a long array: ``compressing``, ``the link`` or ``decompressing``.
    """

    bytes: int
    raw_seconds: float
    seconds: Estimate
    slowest: str

    @property
    def gbs(self) -> Estimate:
        """Effective bandwidth: GB/s of the array."""
        times = (self.seconds.value, self.seconds.high, self.seconds.low)
        return Estimate(*(bandwidth_gbs(self.bytes, one) for one in times))

    @property
    def raw_gbs(self) -> float:
        """GB/s of the array as it is."""
        return bandwidth_gbs(self.bytes, self.raw_seconds)

    @property
    def speedup(self) -> float:
        """How many times as fast as the array as it is."""
        return self.raw_seconds / self.seconds.value

    @property
    def pays(self) -> bool:
        """Whether the rule says so."""
        return self.seconds.value < MARGIN * self.raw_seconds

    @property
    def certain(self) -> bool:
        """Whether both ends of the interval lead to the same answer."""
        limit = MARGIN * self.raw_seconds
        return (self.seconds.low < limit) == (self.seconds.high < limit)


def rates_of(measured: Measured | MeasuredKernels) -> CodecRates:
    """Return the rates with the most threads, on a GPU with the most SMs."""
    timing = measured.timings[-1]
    return CodecRates(measured.ratio, timing.compress_gbs, timing.decompress_gbs)


def predict(
    size: int, rates: CodecRates, link: CrossedLink, slab: int = DEFAULT_SLAB_BYTES
) -> CrossingPrediction:
    """Predict what an array of `size` bytes takes; `slab` in bytes."""
    values = [
        compressed_seconds(size, rates.ratio, CodecCost(c, d, slab_bytes=slab), link.cost)
        for c, d in (
            (rates.compress_gbs.value, rates.decompress_gbs.value),
            (rates.compress_gbs.high, rates.decompress_gbs.high),
            (rates.compress_gbs.low, rates.decompress_gbs.low),
        )
    ]
    speeds = {
        "compressing": rates.compress_gbs.value,
        "the link": rates.ratio * link.gbs,
        "decompressing": rates.decompress_gbs.value,
    }
    return CrossingPrediction(
        size,
        raw_seconds(size, link.cost),
        Estimate(*values),
        min(speeds, key=speeds.__getitem__),
    )


def raw_gbs(size: int, link: CrossedLink) -> float:
    """Return the GB/s at which an array of `size` bytes crosses a link as it is."""
    return bandwidth_gbs(size, raw_seconds(size, link.cost))


def break_even_gbs(size: int, rates: CodecRates, slab: int = DEFAULT_SLAB_BYTES) -> float | None:
    """Return the bandwidth in GB/s of the fastest link on which compressing pays, or None.

    Where T_z is `MARGIN` of T_raw, with a = 0.
    """
    c, d = rates.compress_gbs.value, rates.decompress_gbs.value
    fill = min(slab, size) * (1 / c + 1 / d)
    by_codec = MARGIN * size / (fill + size * max(1 / c, 1 / d))
    by_ratio = size * (MARGIN - 1 / rates.ratio) / fill
    return min(by_codec, by_ratio) if by_ratio > 0 else None


def break_even_bytes(
    rates: CodecRates, link: CrossedLink, slab: int = DEFAULT_SLAB_BYTES
) -> int | None:
    """Return from how many bytes on compressing arrays like this one pays; None: never."""
    codec = CodecCost(rates.compress_gbs.value, rates.decompress_gbs.value, slab_bytes=slab)
    return break_even(rates.ratio, codec, link.cost)


def recommendation(
    result: ArrayResult,
    link: CrossedLink | None,
    slab: int = DEFAULT_SLAB_BYTES,
    *,
    by_gpu: bool = False,
) -> str:
    """Return in a sentence what to do with an array, and why: predicted.

    By the speeds of the host's CPUs, or with `by_gpu` by those of a GPU's kernels at both ends.
    """
    codecs: Sequence[Measured | MeasuredKernels] = result.gpu if by_gpu else result.codecs
    if not codecs:
        return "leave it raw: no codec takes it"
    smaller = [one for one in codecs if one.ratio * MARGIN > 1]
    if not smaller:
        smallest = max(codecs, key=lambda one: one.ratio)
        return (
            f"leave it raw: no codec makes it 5 % smaller (at best {smallest.ratio:.2f}, by "
            f"{smallest.choice.name})"
        )
    if not all(one.timings for one in smaller):
        smallest = max(smaller, key=lambda one: one.ratio)
        return (
            f"{smallest.choice.name} makes it {smallest.ratio:.2f} times as small; whether that "
            "pays is not known, as no speed was measured"
        )
    if link is None:
        return _without_link(smaller, result.bytes, slab)
    predicted = [(one, predict(result.bytes, rates_of(one), link, slab)) for one in smaller]
    measured, prediction = min(predicted, key=lambda pair: pair[1].seconds.value)
    name = measured.choice.name
    sure = "" if prediction.certain else "; the interval of its speeds leaves that open"
    if prediction.pays:
        return (
            f"use {name}: predicted {prediction.gbs.value:.3g} GB/s instead of "
            f"{prediction.raw_gbs:.3g}, {prediction.speedup:.2f} times as fast{sure}"
        )
    return (
        f"leave it raw: predicted {prediction.gbs.value:.3g} GB/s with {name} and "
        f"{prediction.raw_gbs:.3g} without; {_why(measured, prediction)}{sure}"
    )


def _without_link(codecs: Sequence[Measured | MeasuredKernels], size: int, slab: int) -> str:
    limits = [(break_even_gbs(size, rates_of(one), slab) or 0.0, one) for one in codecs]
    limit, measured = max(limits, key=lambda pair: pair[0])
    return (
        f"{measured.choice.name} pays on links slower than {limit:.3g} GB/s (predicted); name one "
        "with --link-speed or --parameters"
    )


def _why(measured: Measured | MeasuredKernels, prediction: CrossingPrediction) -> str:
    rates = rates_of(measured)
    match prediction.slowest:
        case "compressing":
            return f"compressing at {rates.compress_gbs.value:.3g} GB/s is too slow for it"
        case "decompressing":
            return f"decompressing at {rates.decompress_gbs.value:.3g} GB/s is too slow for it"
    return "compressing the first slab and decompressing the last take what the smaller size saves"


@dataclass(frozen=True, slots=True)
class CrossingVerdict:
    """What to do over one path.

    Attributes
    ----------
    best
        The fastest codec at the largest size that was measured.
    pays_from
        From how many bytes on that codec pays by the rule, from the measured speeds; None: never,
        or its kernels were not measured.
    """

    best: Crossing
    pays_from: int | None

    @property
    def sentence(self) -> str:
        """For people."""
        best, speedup = self.best, self.best.speedup
        coded, raw = f"{best.gbs.value:.3g}", f"{best.raw_gbs.value:.3g}"
        low, high = (MARGIN * one > 1 for one in (speedup.low, speedup.high))
        sure = "" if low == high else "; the interval of its speeds leaves that open"
        if best.pays:
            return (
                f"{path_text(best.path)}: use {best.choice.name}: measured {coded} GB/s instead "
                f"of {raw}, {speedup.value:.2f} times as fast{sure}"
            )
        little = ", which is too little of a gain" if speedup.value > 1 else ""
        return (
            f"{path_text(best.path)}: leave it raw: measured {coded} GB/s with {best.choice.name} "
            f"and {raw} without{little}{sure}"
        )


def verdicts(result: ArrayResult) -> tuple[CrossingVerdict, ...]:
    """Return one for each path that the array crossed, in their order."""
    return tuple(_verdicts(result))


def sentences(result: ArrayResult, link: CrossedLink | None, slab_bytes: int) -> tuple[str, ...]:
    """Return what to do with an array, and why: as measured, and as predicted where it was not.

    Predicted is for the link that was named, or for none where nothing crossed one.
    """
    measured = [one.sentence for one in verdicts(result)]
    if measured and link is None:
        return tuple(measured)
    by_cpu = recommendation(result, link, slab_bytes)
    if not result.gpu:
        return (*measured, by_cpu)
    if any(one.timings for one in result.codecs):
        measured.append(f"by this host's CPUs: {by_cpu}")
    by_gpu = recommendation(result, link, slab_bytes, by_gpu=True)
    return (*measured, f"by kernels of such GPUs: {by_gpu}")


def pays(result: ArrayResult, link: CrossedLink | None, slab_bytes: int) -> bool:
    """Return whether compressing an array pays: over a path as measured, else as predicted."""
    if result.crossings or link is None:
        return any(one.best.pays for one in verdicts(result))
    coded: list[Measured | MeasuredKernels] = [*result.codecs, *result.gpu]
    rates = (rates_of(one) for one in coded if one.timings)
    return any(predict(result.bytes, one, link, slab_bytes).pays for one in rates)


def _verdicts(result: ArrayResult) -> Iterator[CrossingVerdict]:
    for path in dict.fromkeys(one.path for one in result.crossings):
        those = [one for one in result.crossings if one.path == path]
        size = max(one.bytes for one in those)
        best = max((one for one in those if one.bytes == size), key=lambda one: one.speedup.value)
        yield CrossingVerdict(best, crossing_break_even(result, best))


def crossing_break_even(result: ArrayResult, of: Crossing) -> int | None:
    """Return from how many bytes on a crossing's codec pays over its path, by the rule.

    With the slabs that channels over such a path have by themselves.

    None: never; or its kernels were not measured.
    """
    kernels = [one for one in result.gpu if one.choice == of.choice]
    if not kernels:
        return None
    alike = [one for one in result.crossings if (one.path, one.choice) == (of.path, of.choice)]
    usual = TO_HOST if "host" in of.path else TO_GPU
    return pays_from(alike, kernels[0], usual.fill_bytes)


def path_text(path: str) -> str:
    """Return a path for people.

    >>> path_text("g0>host"), path_text("g0>g1"), path_text("p2p")
    ('GPU 0 to host', 'GPU 0 to GPU 1', 'p2p')
    """
    return re.sub(r"\bg(\d+)", r"GPU \1", path).replace(">", " to ")


def link_cost(crossings: Sequence[Crossing]) -> LinkCost:
    """Return L and a of a path, from arrays that crossed it as they are."""
    times = native.RawTimes()
    for one in crossings:
        for _ in range(2):  # what was observed once only counts for nothing
            times.take(one.path, one.bytes, median(one.raw_seconds))
    largest = max(crossings, key=lambda one: one.bytes)
    found = times.link(largest.path, largest.bytes)
    assert found is not None, "two of this size were taken in"
    return LinkCost(*found)


def codec_cost(
    crossings: Sequence[Crossing], kernels: MeasuredKernels, slab_bytes: int = DEFAULT_SLAB_BYTES
) -> CodecCost:
    """Return C, D and t0 of one codec over one path.

    Parameters
    ----------
    crossings
        By that codec over that path, of one size or several.
    kernels
        What its kernels do alone.
    """
    largest = max(crossings, key=lambda one: one.bytes)
    smallest = min(crossings, key=lambda one: one.bytes)
    alone = _kernel_cost(kernels, largest.sms, slab_bytes)
    link = link_cost(crossings)
    codec = alone
    for _ in range(_STEPS):
        started = replace(alone, start_seconds=codec.start_seconds)
        taken = slowness(largest.bytes, largest.ratio, started, link, median(largest.seconds))
        codec = started.slower(max(taken, _LEAST_SLOWNESS))
        if smallest.bytes == largest.bytes:
            break
        codec = replace(codec, start_seconds=_start_seconds(smallest, codec, link))
    return codec


def _start_seconds(smallest: Crossing, codec: CodecCost, link: LinkCost) -> float:
    """Return what a transfer took more than a codec without a start would."""
    alone = replace(codec, start_seconds=0.0)
    explained = compressed_seconds(smallest.bytes, smallest.ratio, alone, link)
    return max(median(smallest.seconds) - explained, 0.0)


def pays_from(
    crossings: Sequence[Crossing], kernels: MeasuredKernels, slab_bytes: int = DEFAULT_SLAB_BYTES
) -> int | None:
    """Return from how many bytes on that codec pays over that path; None: never."""
    largest = max(crossings, key=lambda one: one.bytes)
    codec = codec_cost(crossings, kernels, slab_bytes)
    return break_even(largest.ratio, codec, link_cost(crossings))


def _kernel_cost(kernels: MeasuredKernels, sms: int, slab_bytes: int) -> CodecCost:
    """Return the speeds on so many SMs, or where they were not measured on the most there are."""
    alike = [one for one in kernels.timings if one.threads == sms]
    timing = alike[0] if alike else kernels.timings[-1]
    return CodecCost(timing.compress_gbs.value, timing.decompress_gbs.value, slab_bytes=slab_bytes)
