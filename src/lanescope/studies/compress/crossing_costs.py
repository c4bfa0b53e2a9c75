"""From how many bytes on compressing pays over a path, by the rule, from what was measured there.

L and a come from the raw copies of the least and the most bytes; C and D are the kernels' speeds
on as many SMs, both slower or faster by the factor that explains the transfer of the most bytes;
t0 is what the one of the least bytes took more than all this explains. With one size alone a and
t0 are taken to be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from lanescope._core import native
from lanescope.compression.costs import (
    DEFAULT_SLAB_BYTES,
    CodecCost,
    LinkCost,
    break_even,
    compressed_seconds,
    slowness,
)
from lanescope.studies.compress.crossings import Crossing
from lanescope.studies.compress.results import Kernels

#: Where a transfer took no more than its bytes on the link, the codec's speed is not known.
_LEAST_SLOWNESS = 0.1
#: The factor and t0 depend on each other; each step leaves a small part of what both are off.
_STEPS = 20


def link_cost(crossings: Sequence[Crossing]) -> LinkCost:
    """Return L and a of a path, from arrays that crossed it as they are."""
    times = native.RawTimes()
    for one in crossings:
        for _ in range(2):  # what has been seen once only counts for nothing
            times.take(one.path, one.bytes, median(one.raw_seconds))
    largest = max(crossings, key=lambda one: one.bytes)
    found = times.link(largest.path, largest.bytes)
    assert found is not None, "two of this size were taken in"
    return LinkCost(*found)


def codec_cost(
    crossings: Sequence[Crossing], kernels: Kernels, slab_bytes: int = DEFAULT_SLAB_BYTES
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
    crossings: Sequence[Crossing], kernels: Kernels, slab_bytes: int = DEFAULT_SLAB_BYTES
) -> int | None:
    """Return from how many bytes on that codec pays over that path; None: never."""
    largest = max(crossings, key=lambda one: one.bytes)
    codec = codec_cost(crossings, kernels, slab_bytes)
    return break_even(largest.ratio, codec, link_cost(crossings))


def _kernel_cost(kernels: Kernels, sms: int, slab_bytes: int) -> CodecCost:
    """Return the speeds on so many SMs, or where they were not measured on the most there are."""
    alike = [one for one in kernels.timings if one.threads == sms]
    timing = alike[0] if alike else kernels.timings[-1]
    return CodecCost(timing.compress_gbs.value, timing.decompress_gbs.value, slab_bytes=slab_bytes)
