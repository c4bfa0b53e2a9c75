"""GPUs by name, such as ``a100-sxm``: parameters of their links, published or derived."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import tomllib
from dataclasses import dataclass
from functools import lru_cache

from lanescope.codec.fields import Positive, build, shown
from lanescope.errors import InputError
from lanescope.machine import Gpu, Link, LinkKind, Machine, NumaNode
from lanescope.machine.pcie import payload_gbs
from lanescope.prediction.other_links import Exchange, exchanged, link_named
from lanescope.prediction.parameters import Direction, LinkParameters, Origin
from lanescope.units.bandwidth import transfer_seconds

#: Whose parameters are moved to the others' links: the newest that were measured.
BASE = "h200"
Rate = tuple[Positive, Positive, Positive]


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """A GPU of the library.

    Attributes
    ----------
    gpu
        Its product name.
    link
        To the host, such as ``PCIe 4.0 x16``.
    memory_gbs
        Peak of its own memory, GB/s.
    source
        Of both.
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
    source: str
    limits_gbs: tuple[Positive, Positive] | None = None
    h2d_gbs: Rate | None = None
    d2h_gbs: Rate | None = None
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
    links' payload limits. What calls and the host's memory cost is that of `base`.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    gpu = gpu_named(name)
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
        moved = dataclasses.replace(moved, pageable_h2d=None, pageable_d2h=None, fresh_d2h=None)
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
    base: LinkParameters, direction: Direction, before: float, after: float, rate: Rate | None
) -> Exchange:
    known = base.copies(direction).per_byte
    if rate is None:
        return Exchange(before / after, min(transfer_seconds(1.0, before) / known.value, 1.0))
    value, low, high = rate
    ratio = transfer_seconds(1.0, value) / known.value
    return Exchange(ratio, min(low / value, value / high))


def _source(gpu: KnownGpu, base: LinkParameters) -> str:
    parts = [f"link and memory published ({gpu.source})"]
    if gpu.rates_source is not None:
        parts.append(f"pinned copies published ({gpu.rates_source})")
    what = "calls and host memory" if gpu.rates_source else "G scaled, calls and host memory"
    parts.append(f"{what} derived from {base.name} ({base.source}, {base.link})")
    if gpu.only_link:
        parts.append("only its link is known: calls of its driver cost something else")
    return "; ".join(parts)
