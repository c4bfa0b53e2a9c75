"""Whether compressing what crosses a link pays: predicted from measured ratios and speeds.

An array crosses the link in slabs, each compressed, sent and decompressed while the others are at
another of these steps; `lanescope.compression.rule` says what that takes, with t0 = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lanescope.codec.fields import Positive
from lanescope.compression.rule import (
    DEFAULT_SLAB_BYTES,
    MARGIN,
    CodecCost,
    LinkCost,
    break_even,
    compressed_seconds,
    raw_seconds,
)
from lanescope.studies.compress.results import ArrayResult, Kernels, Measured
from lanescope.units.bandwidth import bandwidth_gbs
from lanescope.units.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Link:
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
class Rates:
    """What a codec does to an array: r, and C and D in GB/s of the array."""

    ratio: float
    compress_gbs: Estimate
    decompress_gbs: Estimate


@dataclass(frozen=True, slots=True)
class Prediction:
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


def rates_of(measured: Measured | Kernels) -> Rates:
    """Return the rates with the most threads, on a GPU with the most SMs."""
    timing = measured.timings[-1]
    return Rates(measured.ratio, timing.compress_gbs, timing.decompress_gbs)


def predict(size: int, rates: Rates, link: Link, slab: int = DEFAULT_SLAB_BYTES) -> Prediction:
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
    return Prediction(
        size,
        raw_seconds(size, link.cost),
        Estimate(*values),
        min(speeds, key=speeds.__getitem__),
    )


def raw_gbs(size: int, link: Link) -> float:
    """Return the GB/s at which an array of `size` bytes crosses a link as it is."""
    return bandwidth_gbs(size, raw_seconds(size, link.cost))


def break_even_gbs(size: int, rates: Rates, slab: int = DEFAULT_SLAB_BYTES) -> float | None:
    """Return the bandwidth in GB/s of the fastest link on which compressing pays, or None.

    Where T_z is `MARGIN` of T_raw, with a = 0.
    """
    c, d = rates.compress_gbs.value, rates.decompress_gbs.value
    fill = min(slab, size) * (1 / c + 1 / d)
    by_codec = MARGIN * size / (fill + size * max(1 / c, 1 / d))
    by_ratio = size * (MARGIN - 1 / rates.ratio) / fill
    return min(by_codec, by_ratio) if by_ratio > 0 else None


def break_even_bytes(rates: Rates, link: Link, slab: int = DEFAULT_SLAB_BYTES) -> int | None:
    """Return from how many bytes on compressing arrays like this one pays; None: never."""
    codec = CodecCost(rates.compress_gbs.value, rates.decompress_gbs.value, slab_bytes=slab)
    return break_even(rates.ratio, codec, link.cost)


def recommendation(
    result: ArrayResult,
    link: Link | None,
    slab: int = DEFAULT_SLAB_BYTES,
    *,
    by_gpu: bool = False,
) -> str:
    """Return in a sentence what to do with an array, and why: predicted.

    By the speeds of the host's CPUs, or with `by_gpu` by those of a GPU's kernels at both ends.
    """
    codecs: Sequence[Measured | Kernels] = result.gpu if by_gpu else result.codecs
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


def _without_link(codecs: Sequence[Measured | Kernels], size: int, slab: int) -> str:
    limits = [(break_even_gbs(size, rates_of(one), slab) or 0.0, one) for one in codecs]
    limit, measured = max(limits, key=lambda pair: pair[0])
    return (
        f"{measured.choice.name} pays on links slower than {limit:.3g} GB/s (predicted); name one "
        "with --link-speed or --parameters"
    )


def _why(measured: Measured | Kernels, prediction: Prediction) -> str:
    rates = rates_of(measured)
    match prediction.slowest:
        case "compressing":
            return f"compressing at {rates.compress_gbs.value:.3g} GB/s is too slow for it"
        case "decompressing":
            return f"decompressing at {rates.decompress_gbs.value:.3g} GB/s is too slow for it"
    return "compressing the first slab and decompressing the last take what the smaller size saves"
