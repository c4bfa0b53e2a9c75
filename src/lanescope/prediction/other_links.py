"""The same machine with another link: a prediction of its parameters."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from lanescope.argument_names import argument
from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.machine.pcie import TRANSFER_RATE_GTS, WIDTHS, PcieLink, for_kernels, payload_gbs
from lanescope.prediction.curves import Curve, Surface
from lanescope.prediction.parameters import (
    CopyCost,
    Duplex,
    LinkParameters,
    Mapped,
    Origin,
)
from lanescope.units.bandwidth import transfer_seconds
from lanescope.units.estimate import Estimate

_WIDTHS = WIDTHS[:-1]  # nobody has built one of 32


@dataclass(frozen=True, slots=True)
class Exchange:
    """From one link to another, in one direction, for one kind of packets.

    Attributes
    ----------
    ratio
        Of the old link's payload limit to the new one's.
    reached
        Which share of the old limit copies reach while nothing goes the other way.
    """

    ratio: float
    reached: float

    def per_byte(self, known: Estimate) -> Estimate:
        """Return G on the new link: as much of its limit as of the old one.

        The share of the limit that copies reach need not be the same. The interval is widened as
        if what is lost on the old link were lost on the new one not at all, or once more.
        """
        low, high = known.low * self.ratio, known.high * self.ratio
        return Estimate(known.value * self.ratio, low * self.reached, high / self.reached)


def link_named(text: str) -> PcieLink:
    """Return a link such as ``pcie5`` (16 lanes), ``pcie4x8`` or ``PCIe 3.0 x16``.

    Raises
    ------
    InputError
        If it is none.
    """
    match = re.fullmatch(r"pcie\s*([0-9])(?:\.0)?(?:[\s-]*x([0-9]{1,2}))?", text.strip().lower())
    generation, width = (int(match[1]), int(match[2] or 16)) if match else (0, 0)
    if generation not in TRANSFER_RATE_GTS or width not in _WIDTHS:
        lanes = ", ".join(f"x{w}" for w in _WIDTHS)
        raise InputError(
            f"{argument.on} {shown(text)} is no link; write for example pcie5 or pcie4x8, "
            f"generation 1 to 6 and {lanes}"
        )
    return PcieLink(generation, width)


def link_label(link: PcieLink) -> str:
    """Return a link in a few words, such as ``PCIe 5.0 x16``."""
    return f"PCIe {link.generation}.0 x{link.width}"


def with_link(parameters: LinkParameters, link: str) -> LinkParameters:
    """Return the parameters of the machine if its GPU were on another link.

    Each G is scaled by the ratio of both links' payload limits, so that the share of the limit
    that was reached stays; see `Exchange.per_byte` for the interval. Delays, gaps and calls stay
    as they are. Pageable memory stays as fast as it is, bound by the copy through the host's
    caches, but for links that are slower than that.

    Raises
    ------
    InputError
        If the link is unknown, or the machine's own is no PCIe link.
    """
    new = link_named(link)
    try:
        old = link_named(parameters.link)
    except InputError as error:
        raise InputError(
            f"{parameters.name} is linked by {parameters.link!r}, whose payload limit is not "
            "known; only parameters of a PCIe link can be moved to another"
        ) from error
    plain = parameters.h2d.per_byte.value, parameters.d2h.per_byte.value
    copies = _exchanges(old, new, plain)
    lines = copies
    if parameters.mapped is not None:
        reads, writes = parameters.mapped.read_per_byte, parameters.mapped.write_per_byte
        lines = _exchanges(for_kernels(old), for_kernels(new), (reads.value, writes.value))
    return dataclasses.replace(
        exchanged(parameters, copies, lines),
        name=f"{parameters.name} on {link_label(new)}",
        link=link_label(new),
        origin=Origin.DERIVED,
        source=f"{parameters.source}; scaled from {link_label(old)} to {link_label(new)}",
    )


def exchanged(
    parameters: LinkParameters,
    copies: tuple[Exchange, Exchange],
    lines: tuple[Exchange, Exchange] | None = None,
) -> LinkParameters:
    """Return parameters with each G exchanged: of copies, and of kernels that move lines."""
    lines = lines or copies
    h2d, d2h = _direction(parameters.h2d, copies[0]), _direction(parameters.d2h, copies[1])
    duplex, mixed, mapped = parameters.duplex, parameters.explicit_mapped, parameters.mapped
    return dataclasses.replace(
        parameters,
        h2d=h2d,
        d2h=d2h,
        duplex=None if duplex is None else _duplex(duplex, copies),
        explicit_mapped=None if mixed is None else _duplex(mixed, (copies[0], lines[1])),
        mapped=None if mapped is None else _mapped(mapped, lines),
        pageable_h2d=_staged(parameters.pageable_h2d, h2d),
        pageable_d2h=_staged(parameters.pageable_d2h, d2h),
        fresh_d2h=_staged(parameters.fresh_d2h, d2h),
    )


def _exchanges(
    old: PcieLink, new: PcieLink, per_byte: tuple[float, float]
) -> tuple[Exchange, Exchange]:
    h2d, d2h = (
        Exchange(before / after, min(transfer_seconds(1.0, before) / g, 1.0))
        for before, after, g in zip(payload_gbs(old), payload_gbs(new), per_byte, strict=True)
    )
    return h2d, d2h


def _direction(known: CopyCost, exchange: Exchange) -> CopyCost:
    per_byte = exchange.per_byte(known.per_byte)
    ratio = exchange.ratio

    def moved(curve: Curve | None) -> Curve | None:
        return None if curve is None else _moved(curve, known.per_byte, per_byte, ratio)

    curves = () if known.next is None else known.next.curves
    further = tuple(_moved(curve, known.per_byte, per_byte, ratio) for curve in curves)
    return dataclasses.replace(
        known,
        per_byte=per_byte,
        single=moved(known.single),
        next=None if known.next is None else Surface(known.next.streams, further),
        engine=moved(known.engine),
    )


def _moved(curve: Curve, before: Estimate, after: Estimate, ratio: float) -> Curve:
    """Return a curve with the bytes' part of each time exchanged, the rest as it was."""
    return Curve(
        curve.sizes,
        tuple(
            _exchanged(seconds, size, before, after, ratio)
            for size, seconds in zip(curve.sizes, curve.seconds, strict=True)
        ),
    )


def _exchanged(
    seconds: Estimate, size: int, before: Estimate, after: Estimate, ratio: float
) -> Estimate:
    # where copies share the link's delays, all of a time cannot be more than its bytes' share
    scale = min(ratio, 1.0)
    value = max(seconds.value + size * (after.value - before.value), seconds.value * scale)
    low = max(seconds.low + size * (after.low - before.low), seconds.low * scale)
    high = max(seconds.high + size * (after.high - before.high), value)
    return Estimate(value, min(low, value), high)


def _duplex(known: Duplex, exchanges: tuple[Exchange, Exchange]) -> Duplex:
    return Duplex(
        exchanges[0].per_byte(known.h2d_per_byte),
        exchanges[1].per_byte(known.d2h_per_byte),
        known.gap,
        known.gaps,
    )


def _mapped(known: Mapped, exchanges: tuple[Exchange, Exchange]) -> Mapped:
    return dataclasses.replace(
        known,
        read_per_byte=exchanges[0].per_byte(known.read_per_byte),
        write_per_byte=exchanges[1].per_byte(known.write_per_byte),
    )


def _staged(known: CopyCost | None, pinned: CopyCost) -> CopyCost | None:
    if known is None or known.per_byte.value >= pinned.per_byte.value:
        return known
    slower = Estimate(
        pinned.per_byte.value,
        min(known.per_byte.low, pinned.per_byte.low),
        max(known.per_byte.high, pinned.per_byte.high),
    )
    return CopyCost(known.first, slower, known.gap)
