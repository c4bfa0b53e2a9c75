"""The rule that decides, transfer by transfer, whether compressing pays on the link at hand.

It is that of the library for C++ (``native/src/library/rule.cpp``, docs/compression-rule.md): it
predicts both times and compresses where that takes at most `MARGIN` of the time, learns from what
transfers took and what some of their blocks become, and turns itself off where it was slower.

With B bytes in slabs of S bytes, a link of L bytes a second that takes a seconds besides, codecs
of C and D bytes a second that take t0 seconds to be started, and the ratio r:

    T_raw = a + B/L
    T_z = a + t0 + min(S, B) (1/C + 1/D) + max(B/C, B/(r L), B/D)

The second is never too short: the link's part of the first slab is counted twice where the link
is not the slowest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from lanescope._core import native
from lanescope.calls import checked, shown
from lanescope.compression.deciding import (
    Decision,
    Sampled,
    Transfer,
    TransferOutcome,
    decided,
    dtype_of,
)
from lanescope.compression.stream import Codec
from lanescope.errors import InputError, LanescopeError
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.units.sizes import Bytes, bandwidth_gbs, transfer_seconds

#: Compressing shall save so much time at least that a small error does not make it a loss.
MARGIN: float = native.RULE_MARGIN
DEFAULT_SLAB_BYTES = 8 << 20
_HOST_FIRST = re.compile(r"h2d|^host>")
_HOST_LAST = re.compile(r"d2h|>host$")
#: For each type of values the codecs that may make them smaller, the likeliest first.
CODECS_BY_DTYPE: dict[str, tuple[str, ...]] = {
    "uint8" if one is native.Dtype.bytes else one.name: tuple(
        codec.name for codec in native.codecs_of(one)
    )
    for one in native.Dtype
}
_NAMED = {one: Codec(one.name) for one in native.Codec}


@dataclass(frozen=True, slots=True)
@checked
class LinkCost:
    """L in GB/s, and a in seconds."""

    gbs: float
    first_seconds: float = 0.0

    @property
    def parts(self) -> tuple[float, float]:
        """As the core takes it."""
        return self.gbs, self.first_seconds


@dataclass(frozen=True, slots=True)
@checked
class CodecCost:
    """What a codec costs.

    Attributes
    ----------
    compress_gbs, decompress_gbs
        C and D: GB/s of the array.
    start_seconds
        t0.
    slab_bytes
        S.
    """

    compress_gbs: float
    decompress_gbs: float
    start_seconds: float = 0.0
    slab_bytes: Bytes = DEFAULT_SLAB_BYTES

    @property
    def parts(self) -> tuple[float, float, float, int]:
        """As the core takes it."""
        return self.compress_gbs, self.decompress_gbs, self.start_seconds, self.slab_bytes

    def slower(self, times: float) -> CodecCost:
        """Return a codec that takes so many times as long for each byte."""
        return replace(
            self,
            compress_gbs=self.compress_gbs / times,
            decompress_gbs=self.decompress_gbs / times,
        )


def raw_seconds(size: float, link: LinkCost) -> float:
    """Return T_raw of so many bytes."""
    return link.first_seconds + transfer_seconds(size, link.gbs)


def compressed_seconds(size: float, ratio: float, codec: CodecCost, link: LinkCost) -> float:
    """Return T_z of so many bytes; a ratio of inf for arrays of which nothing crosses the link."""
    _require_ratio(ratio)
    return native.compressed_seconds(size, ratio, codec.parts, link.parts)


def slowness(size: float, ratio: float, codec: CodecCost, link: LinkCost, seconds: float) -> float:
    """Return how many times as slow as `codec` one is by which T_z is `seconds`; 0 or more.

    One transfer cannot tell C from D, so both are taken to be off by the same factor.
    """
    _require_ratio(ratio)
    return native.codec_slowness(size, ratio, codec.parts, link.parts, seconds)


@checked
def break_even(
    ratio: float, codec: CodecCost, link: LinkCost, margin: float = MARGIN
) -> int | None:
    """Return from how many bytes on compressing pays, that is T_z < `margin` T_raw; None: never."""
    _require_ratio(ratio)
    return native.break_even_bytes(ratio, codec.parts, link.parts, margin)


def _require_ratio(ratio: float) -> None:
    if not ratio > 0:
        raise InputError(f"a ratio cannot be {ratio:g}; give bytes of the array by the stream's")


class LinkModel(Protocol):
    """Knows links before anything has crossed them."""

    def link(self, path: str) -> LinkCost | None:
        """Return what a path costs; None: not known."""


@dataclass(frozen=True, slots=True)
class HostLinks:
    """Copies of pinned memory between the host and one GPU, by its stored link parameters."""

    parameters: LinkParameters

    def link(self, path: str) -> LinkCost | None:
        """Return what ``g0>host``, ``host>g0``, ``d2h`` or ``h2d`` costs; None for others."""
        if _HOST_FIRST.search(path):
            direction = Direction.H2D
        elif _HOST_LAST.search(path):
            direction = Direction.D2H
        else:
            return None
        cost = self.parameters.copies(direction)
        return LinkCost(bandwidth_gbs(1, cost.per_byte.value), cost.first.value)


def links_of_this_machine() -> LinkModel | None:
    """Return its stored link parameters, or None where it has none."""
    from lanescope.prediction.stored_parameters import named_parameters

    try:
        return HostLinks(named_parameters())
    except LanescopeError:
        return None


#: What the kernels may reach at best on a whole GPU; that they are slower is learnt, but what
#: is never tried because it is taken to be slow would never be known to be fast.
AT_BEST = CodecCost(compress_gbs=1000, decompress_gbs=1500, start_seconds=20e-6)


class Rule:
    """A `Decider` that learns; for any number of threads. It looks at no clock.

    Parameters
    ----------
    links
        Knows some links beforehand, such as `HostLinks`; two transfers of each size (within a
        factor of two) over others go as they are first, and are timed. Each path is looked up once.
    cost
        What codecs cost at best, and the slabs of the channel.
    codec
        The only codec to use, by name; None: those that suit the type of the values.

    Raises
    ------
    InputError
        If there is no such codec.
    """

    @checked  # and not all of it: what channels call for each transfer takes no longer
    def __init__(
        self,
        links: LinkModel | None = None,
        *,
        cost: CodecCost = AT_BEST,
        codec: str | None = None,
    ) -> None:
        self._links = links
        self._known_paths: set[str] = set()
        self._core = native.Rule(cost.parts, None if codec is None else _codec_of(codec))

    def decide(self, transfer: Transfer) -> Decision:
        """Return whether to compress a transfer that is about to begin."""
        if transfer.dtype not in CODECS_BY_DTYPE:
            return Decision(False, "raw", 1, None, None, f"no codec takes {transfer.dtype}")
        self._set_link(transfer.path)
        compress, codec, dimensionality, raw, compressed, reason = self._core.decide(
            transfer.tag, transfer.path, dtype_of(transfer.dtype), transfer.bytes
        )
        return decided(compress, _NAMED[codec], dimensionality, raw, compressed, reason)

    def wants_sample(self, transfer: Transfer) -> bool:
        """Return whether to look at some blocks of an array that is to be decided about next."""
        if transfer.dtype not in CODECS_BY_DTYPE:
            return False
        self._set_link(transfer.path)
        return self._core.wants_sample(
            transfer.tag, transfer.path, dtype_of(transfer.dtype), transfer.bytes
        )

    def take_sample(self, transfer: Transfer, sampled: Sequence[Sampled]) -> None:
        """Take in what some blocks of an array become by each codec."""
        self._core.take_sample(
            transfer.tag, transfer.path, dtype_of(transfer.dtype), transfer.bytes,
            [(_codec_of(one.codec), one.dimensionality, one.wire_share) for one in sampled],
        )  # fmt: skip

    def learn(self, transfer: Transfer, decision: Decision, outcome: TransferOutcome) -> None:
        """Take in what became of a transfer."""
        if transfer.dtype not in CODECS_BY_DTYPE:
            return  # no channel carries such values
        self._set_link(transfer.path)
        self._core.learn(
            transfer.tag, transfer.path, dtype_of(transfer.dtype), transfer.bytes,
            decision.compress,
            None if decision.codec == "auto" else _codec_of(decision.codec),
            decision.dimensionality, decision.compressed_seconds, outcome.seconds,
            outcome.wire_bytes, outcome.compressed,
        )  # fmt: skip

    def _set_link(self, path: str) -> None:
        """Look up, before a path's first transfer, what is known of its link."""
        if self._links is None or path in self._known_paths:
            return
        link = self._links.link(path)
        if link is not None:
            self._core.set_link(path, link.parts)
        self._known_paths.add(path)


@lru_cache(256)  # of each transfer
def takes(codec: str, dtype: str) -> bool:
    """Return whether a codec takes values of a type, suitable or not."""
    if dtype not in CODECS_BY_DTYPE:
        return codec == "raw"
    return native.can_compress(_codec_of(codec), dtype_of(dtype))


def _codec_of(name: str) -> native.Codec:
    try:
        return native.Codec[name]
    except KeyError:
        names = ", ".join(one.name for one in native.Codec)
        raise InputError(f"there is no codec {shown(name)}; give one of {names}") from None
