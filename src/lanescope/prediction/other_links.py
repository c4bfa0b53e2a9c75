"""Parameters of links that nobody measured: another link of a machine, and GPUs by name.

They are derived from those that were measured, or published."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lanescope.codec.fields import Positive, build, shown
from lanescope.copies.limit import route
from lanescope.errors import InputError, argument
from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode
from lanescope.machine.part_names import part_name
from lanescope.machine.pcie import TRANSFER_RATE_GTS, WIDTHS, PcieLink, for_kernels, payload_gbs
from lanescope.prediction.costs import longer, next_seconds, single_seconds
from lanescope.prediction.parameters import (
    PAGEABLE_COPIES,
    CopyCost,
    Direction,
    Duplex,
    LinkParameters,
    Mapped,
    Origin,
)
from lanescope.units.estimate import Estimate, Surface, TimeCurve
from lanescope.units.sizes import transfer_seconds

_WIDTHS = WIDTHS[:-1]  # nobody has built one of 32
#: Limits of links that differ by no larger factor are alike.
_ALIKE = 1.1
#: Whose parameters are moved to the others' links: the newest that were measured.
BASE = "h200"
_GIB = 1 << 30
PublishedRate = tuple[Positive, Positive, Positive]


@dataclass(frozen=True, slots=True)
class LinkChange:
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


def unlike_link(
    parameters: LinkParameters,
    machine: Machine,
    nodes: Mapping[int, int],
    shared: Collection[Hashable],
) -> str:
    """Return in what a machine's links are unlike that of parameters, by 10 % or more.

    Parameters
    ----------
    nodes
        Of each GPU the node whose memory it copies.
    shared
        Links that are no GPU's own, by ends, kind and direction.

    Returns
    -------
    str
        A sentence on the GPU with the slowest one, or on one whose link a described machine does
        not tell; empty where they are alike, or the limit of one is not known.
    """
    try:
        used, _ = payload_gbs(link_named(parameters.link))
    except InputError:
        return ""
    least = used
    slowest, untold = "", ""
    for number, node in nodes.items():
        host, gpu = part_name("h", node), part_name("g", number)
        way = route(machine, host, gpu)
        if way is None and machine.described:
            untold = untold or (
                f"How {gpu} is linked to {host} {machine.name} does not tell: its copies are taken "
                f"to be as fast as by the {parameters.link} of {parameters.name}."
            )
        hops = [hop for hop in way or () if _key(*hop) not in shared]
        known = [one.payload_gbs[0 if there else 1] for one, there in hops if one.payload_gbs]
        limit = min(known, default=used)
        if not used / _ALIKE < limit < used * _ALIKE and (not slowest or limit < least):
            least, slowest = limit, gpu
    return _unlike(parameters, machine, slowest, used, least) if slowest else untold


def _unlike(
    parameters: LinkParameters, machine: Machine, gpu: str, used: float, limit: float
) -> str:
    slow = ", which no copy is predicted to beat" * (limit < used)
    return (
        f"Each GPU's own link is that of {parameters.name}, {parameters.link}, which carries "
        f"{used:.1f} GB/s to it at most; that of {gpu} in {machine.name} carries "
        f"{limit:.1f}{slow}: give the parameters of such a link, as 'lanescope model fit' measures "
        "them there."
    )


def _key(link: Link, forward: bool) -> Hashable:
    return (link.a, link.b, link.kind, forward)


def with_link(parameters: LinkParameters, link: str) -> LinkParameters:
    """Return the parameters of the machine if its GPU were on another link.

    Each G is scaled by the ratio of both links' payload limits, so that the share of the limit
    that was reached stays; see `LinkChange.per_byte` for the interval. Delays, gaps and calls stay
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
        name=f"{parameters.name} on {new.label}",
        link=new.label,
        origin=Origin.DERIVED,
        source=f"{parameters.source}; scaled from {old.label} to {new.label}",
    )


def exchanged(
    parameters: LinkParameters,
    copies: tuple[LinkChange, LinkChange],
    lines: tuple[LinkChange, LinkChange] | None = None,
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
        cached_h2d=_staged(parameters.cached_h2d, h2d),
        cached_d2h=_staged(parameters.cached_d2h, d2h),
        fresh_d2h=_staged(parameters.fresh_d2h, d2h),
    )


_NOT_STAGED: dict[str, Any] = dict.fromkeys(PAGEABLE_COPIES)


def _exchanges(
    old: PcieLink, new: PcieLink, per_byte: tuple[float, float]
) -> tuple[LinkChange, LinkChange]:
    h2d, d2h = (
        LinkChange(before / after, min(transfer_seconds(1.0, before) / g, 1.0))
        for before, after, g in zip(payload_gbs(old), payload_gbs(new), per_byte, strict=True)
    )
    return h2d, d2h


def _direction(known: CopyCost, exchange: LinkChange) -> CopyCost:
    per_byte = exchange.per_byte(known.per_byte)
    ratio = exchange.ratio

    def moved(curve: TimeCurve | None) -> TimeCurve | None:
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


def _moved(curve: TimeCurve, before: Estimate, after: Estimate, ratio: float) -> TimeCurve:
    """Return a curve with the bytes' part of each time exchanged, the rest as it was.

    Larger sizes cost G for each further byte. The slope between the last two measured times has
    their noise in it, which a faster link enlarges until copies beat its limit.
    """
    seconds = [
        _exchanged(seconds, size, before, after, ratio)
        for size, seconds in zip(curve.sizes, curve.seconds, strict=True)
    ]
    last, most = seconds[-1], curve.sizes[-1]
    twice = Estimate(
        last.value + most * after.value, last.low + most * after.low, last.high + most * after.high
    )
    return TimeCurve((*curve.sizes, 2 * most), (*seconds, twice))


def _exchanged(
    seconds: Estimate, size: int, before: Estimate, after: Estimate, ratio: float
) -> Estimate:
    # where copies share the link's delays, all of a time cannot be more than its bytes' share
    scale = min(ratio, 1.0)
    value = max(seconds.value + size * (after.value - before.value), seconds.value * scale)
    low = max(seconds.low + size * (after.low - before.low), seconds.low * scale)
    high = max(seconds.high + size * (after.high - before.high), value)
    return Estimate(value, min(low, value), high)


def _duplex(known: Duplex, exchanges: tuple[LinkChange, LinkChange]) -> Duplex:
    return Duplex(
        exchanges[0].per_byte(known.h2d_per_byte),
        exchanges[1].per_byte(known.d2h_per_byte),
        known.gap,
        known.gaps,
    )


def _mapped(known: Mapped, exchanges: tuple[LinkChange, LinkChange]) -> Mapped:
    return dataclasses.replace(
        known,
        read_per_byte=exchanges[0].per_byte(known.read_per_byte),
        write_per_byte=exchanges[1].per_byte(known.write_per_byte),
    )


def _staged(known: CopyCost | None, pinned: CopyCost) -> CopyCost | None:
    """Return what copies of pageable memory cost on a link that pinned ones cross at such a cost.

    Where the link is slower than the copy through the host's caches, each size takes as long as
    before, or as a pinned copy does, if that is longer.
    """
    if known is None or known.per_byte.value >= pinned.per_byte.value:
        return known
    slower = Estimate(
        pinned.per_byte.value,
        min(known.per_byte.low, pinned.per_byte.low),
        max(known.per_byte.high, pinned.per_byte.high),
    )

    def bounded(curve: TimeCurve, least: Callable[[int], Estimate]) -> TimeCurve:
        times = zip(curve.sizes, curve.seconds, strict=True)
        return TimeCurve(curve.sizes, tuple(longer(one, least(size)) for size, one in times))

    def further(size: int) -> Estimate:
        return next_seconds(pinned, size)

    return dataclasses.replace(
        known,
        per_byte=slower,
        single=known.single and bounded(known.single, lambda size: single_seconds(pinned, size)),
        next=known.next
        and Surface(known.next.streams, tuple(bounded(one, further) for one in known.next.curves)),
        engine=known.engine and bounded(known.engine, further),
    )


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """A GPU of the library.

    Attributes
    ----------
    gpu
        Its product name.
    link
        To the host, such as ``PCIe 4.0 x16``.
    memory_gbs, memory_gib
        Peak of its own memory, GB/s, and its size, GiB.
    source
        Of these.
    limits_gbs
        Payload limit to the GPU and from it, GB/s; None: computed for a PCIe link.
    h2d_gbs, d2h_gbs
        Published measurements of pinned copies: value, lowest and highest, GB/s.
    rates_source
        Of these.
    only_link
        Whether only the link is known: what calls cost there is not that of an NVIDIA driver.
    """

    gpu: str
    link: str
    memory_gbs: Positive
    memory_gib: Positive
    source: str
    limits_gbs: tuple[Positive, Positive] | None = None
    h2d_gbs: PublishedRate | None = None
    d2h_gbs: PublishedRate | None = None
    rates_source: str | None = None
    only_link: bool = False


@lru_cache(maxsize=1)
def known_gpus() -> dict[str, KnownGpu]:
    """Return the GPUs of the library by name."""
    file = importlib.resources.files("lanescope.prediction") / "library" / "machines.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: build(KnownGpu, table, name) for name, table in tables.items()}


def gpu_named(name: str) -> KnownGpu:
    """Return a GPU of the library.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    found = known_gpus()
    if name in found:
        return found[name]
    near = difflib.get_close_matches(name, found, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(found)}"
    raise InputError(f"no GPU is named {shown(name)}; {hint}")


def library_parameters(name: str, base: LinkParameters) -> LinkParameters:
    """Return the parameters of a GPU by name: `base` moved to its link.

    G of pinned copies is the published one where there is any; else that of `base`, scaled by both
    links' payload limits. What calls and the host's memory cost is that of `base`, which is itself
    returned by its own name.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    gpu = gpu_named(name)
    if name == base.name:
        return base
    old = payload_gbs(link_named(base.link))
    new = gpu.limits_gbs or payload_gbs(link_named(gpu.link))
    exchanges = [
        _exchange(base, direction, before, after, rate)
        for direction, before, after, rate in zip(
            Direction, old, new, (gpu.h2d_gbs, gpu.d2h_gbs), strict=True
        )
    ]
    moved = exchanged(base, (exchanges[0], exchanges[1]))
    if gpu.limits_gbs is not None:  # it reaches pageable memory in place: nothing is staged
        moved = dataclasses.replace(moved, **_NOT_STAGED)
    return dataclasses.replace(
        moved,
        name=name,
        gpu=gpu.gpu,
        link=gpu.link,
        origin=Origin.DERIVED,
        source=_source(gpu, base),
        errors=None,
        machine_key=None,
        day=None,
        memory_bytes=int(gpu.memory_gib * _GIB),
        host_bandwidth=(),
    )


def machine_of(name: str, gpus: int) -> Machine:
    """Return a machine with so many of a GPU on one node, each with a link of its own.

    What they share besides is not known.
    """
    gpu = gpu_named(name)
    links = []
    for number in range(gpus):
        ends = "h0", f"g{number}"
        if gpu.limits_gbs is None:
            links.append(Link.of_pcie(*ends, link_named(gpu.link)))
        else:
            links.append(Link(*ends, LinkKind.PCIE, payload_gbs=gpu.limits_gbs))
    return Machine(
        name=f"{gpus} {name}",
        nodes=(NumaNode(0),),
        gpus=tuple(Gpu(n, gpu.gpu, 0, memory_gbs=gpu.memory_gbs) for n in range(gpus)),
        links=tuple(links),
        described=True,
    )


def _exchange(
    base: LinkParameters,
    direction: Direction,
    before: float,
    after: float,
    rate: PublishedRate | None,
) -> LinkChange:
    known = base.copies(direction).per_byte
    if rate is None:
        return LinkChange(before / after, min(transfer_seconds(1.0, before) / known.value, 1.0))
    value, low, high = rate
    ratio = transfer_seconds(1.0, value) / known.value
    return LinkChange(ratio, min(low / value, value / high))


def _source(gpu: KnownGpu, base: LinkParameters) -> str:
    parts = [f"link and memory published ({gpu.source})"]
    if gpu.rates_source is not None:
        parts.append(f"pinned copies published ({gpu.rates_source})")
    what = "calls and host memory" if gpu.rates_source else "G scaled, calls and host memory"
    parts.append(f"{what} derived from {base.name} ({base.source}, {base.link})")
    if gpu.only_link:
        parts.append("only its link is known: calls of its driver cost something else")
    return "; ".join(parts)
