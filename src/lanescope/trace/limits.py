"""The links of GPUs, PCIe and NVLink: whom they join, and what they can carry.

A limit is what an earlier run on this machine measured, else the link's rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

from lanescope.copies import Copy, Engine, Memory, Route
from lanescope.errors import InputError
from lanescope.machine import Link, LinkKind, Machine
from lanescope.results import Result, Source
from lanescope.store.folder import default_runs_folder, newest_first, read_manifest
from lanescope.store.run import Manifest, Run
from lanescope.store.store import read_run

#: Directions over a GPU's link, in the order of all pairs in this package.
DIRECTIONS = ("h2d", "d2h")
#: Directions over all NVLinks of a GPU together, as the GPU sees them: received, sent.
NVLINK_DIRECTIONS = ("nvlink-rx", "nvlink-tx")
#: Runs that measure whole links, and how many of them are looked at, the newest first.
_VERBS = ("check", "bench")
_MOST_RUNS = 20
#: A smaller copy does not fill a link.
_LEAST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LinkLimit:
    """A ceiling of one direction, in GB/s of payload; None when unknown, with the reason."""

    gbs: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What an earlier run measured.

    Attributes
    ----------
    gbs
        By GPU and direction, such as ``(0, "h2d")``, in GB/s.
    source
        Which run that was, as a phrase.
    node_gbs
        As `gbs`, by the NUMA node of the host memory, too, such as ``(0, "h2d", 1)``.
    """

    gbs: Mapping[tuple[int, str], float] = field(default_factory=dict)
    source: str = "measured before"
    node_gbs: Mapping[tuple[int, str, int], float] = field(default_factory=dict)


def pcie_links(machine: Machine, gpu: int) -> tuple[Link, ...]:
    """Return the known PCIe links between a GPU and its node, from the GPU upwards."""
    found: list[Link] = []
    part = f"g{gpu}"
    while link := next(
        (ln for ln in machine.links if ln.kind is LinkKind.PCIE and ln.b == part), None
    ):
        if link in found:
            break
        found.append(link)
        part = link.a
    return tuple(found)


def link_limits(
    machine: Machine | None, gpu: int, ceilings: Ceilings | None = None
) -> tuple[LinkLimit, LinkLimit]:
    """Return the ceilings of a GPU's link (h2d, d2h)."""
    links = () if machine is None else pcie_links(machine, gpu)
    down, up = (_limit(links, gpu, direction, ceilings or Ceilings()) for direction in range(2))
    return down, up


def _limit(links: tuple[Link, ...], gpu: int, direction: int, ceilings: Ceilings) -> LinkLimit:
    measured = ceilings.gbs.get((gpu, DIRECTIONS[direction]))
    if measured is not None:
        return LinkLimit(measured, ceilings.source)
    rates = [(link.payload_gbs[direction], link) for link in links if link.payload_gbs is not None]
    if not rates:
        return LinkLimit(None, f"the link of g{gpu} is not known")
    gbs, link = min(rates, key=lambda rate: rate[0])
    best = None if link.pcie is None else link.pcie.at_best()
    label = link.label if best is None else f"PCIe {best.generation}.0 x{best.width}"
    return LinkLimit(gbs, f"payload limit of {label}")


def nvlinks_of(machine: Machine, gpu: int) -> tuple[Link, ...]:
    """Return the bundles of active NVLinks that end at a GPU."""
    part = f"g{gpu}"
    return tuple(
        link for link in machine.links if link.kind is LinkKind.NVLINK and part in (link.a, link.b)
    )


def nvlinked(machine: Machine) -> tuple[int, ...]:
    """Return the GPUs that have active NVLinks."""
    return tuple(gpu.index for gpu in machine.gpus if nvlinks_of(machine, gpu.index))


def joined(machine: Machine) -> frozenset[tuple[int, int]]:
    """Return the pairs of GPUs that NVLinks join, directly or by one switch; each pair both ways.

    Copies between these go over NVLink, those between others over PCIe.
    """
    ends = {gpu: _other_ends(machine, gpu) for gpu in nvlinked(machine)}
    return frozenset(
        (one, other)
        for one, other in permutations(ends, 2)
        if f"g{other}" in ends[one] or any(not e.startswith("g") for e in ends[one] & ends[other])
    )


def fills_all(machine: Machine, gpu: int) -> bool:
    """Whether a copy with one other GPU can use all NVLinks: they all have the same other end."""
    return len(_other_ends(machine, gpu)) == 1


def nvlink_limits(
    machine: Machine | None, gpu: int, ceilings: Ceilings | None = None
) -> tuple[LinkLimit, LinkLimit]:
    """Return what all NVLinks of a GPU carry together: received, sent.

    Without a measured ceiling it is the payload limit of the links that are up.
    """
    links = () if machine is None else nvlinks_of(machine, gpu)
    received, sent = (
        _nvlink_limit(links, gpu, direction, ceilings or Ceilings()) for direction in range(2)
    )
    return received, sent


def _other_ends(machine: Machine, gpu: int) -> set[str]:
    part = f"g{gpu}"
    return {link.b if link.a == part else link.a for link in nvlinks_of(machine, gpu)}


def _nvlink_limit(
    links: tuple[Link, ...], gpu: int, direction: int, ceilings: Ceilings
) -> LinkLimit:
    measured = ceilings.gbs.get((gpu, NVLINK_DIRECTIONS[direction]))
    if measured is not None:
        return LinkLimit(measured, ceilings.source)
    rates = []
    for link in links:
        # a link's limits are (from a to b, from b to a); `way` 0 is towards the GPU
        towards_b = (link.b == f"g{gpu}") == (direction == 0)
        if link.payload_gbs is None:
            return LinkLimit(None, f"the NVLinks of g{gpu} are not known")
        rates.append(link.payload_gbs[0 if towards_b else 1])
    if not rates:
        return LinkLimit(None, f"the NVLinks of g{gpu} are not known")
    bundles = [link.nvlink for link in links if link.nvlink is not None]
    versions = {bundle.version for bundle in bundles}
    version = f" {versions.pop()}" if len(versions) == 1 and None not in versions else ""
    count = sum(bundle.count for bundle in bundles)
    return LinkLimit(sum(rates), f"payload limit of NVLink{version} x{count}")


@dataclass(frozen=True, slots=True)
class MeasuredLink:
    """What one way of a link carried when it was measured: payload, GB/s, and in which run."""

    gbs: float
    run: str


def measured_links(runs: Iterable[tuple[Run, str]]) -> dict[tuple[int, str], MeasuredLink]:
    """Return what `runs_of` a machine measured, by GPU and way; the newest run of each counts.

    Ways are ``h2d``, ``d2h``, ``nvlink-rx`` and ``nvlink-tx``.
    """
    found: dict[tuple[int, str], MeasuredLink] = {}
    for run, name in runs:
        found = {**_links_of(run, name), **found}
    return found


def measured_nodes(runs: Iterable[tuple[Run, str]]) -> dict[tuple[int, str, int], MeasuredLink]:
    """Return the same for ``h2d`` and ``d2h`` by the NUMA node, too, where memory was pinned."""
    found: dict[tuple[int, str, int], MeasuredLink] = {}
    for run, name in runs:
        found = {**_nodes_of(run, name), **found}
    return found


def runs_of(machine: Machine, runs: Path | None = None) -> Iterator[tuple[Run, str]]:
    """Yield runs of the same GPUs, told by their UUIDs, with their names, the newest first."""
    newest = newest_first(runs or default_runs_folder())
    looked_at = [p for p in newest if any(f"-{verb}" in p.name for verb in _VERBS)]
    for folder in looked_at[:_MOST_RUNS]:
        try:
            if _same_gpus(read_manifest(Manifest, folder).machine, machine):
                yield read_run(folder), folder.name
        except InputError:
            continue  # damaged, or of another version


def _same_gpus(one: Machine, other: Machine) -> bool:
    return [g.uuid for g in one.gpus] == [g.uuid for g in other.gpus] and not one.described


def _links_of(run: Run, name: str) -> dict[tuple[int, str], MeasuredLink]:
    best: dict[tuple[int, str], MeasuredLink] = {}
    for result in run.results:
        for key in _filled(result, run.manifest.machine):
            gbs = result.total_gbs
            if gbs is not None and (key not in best or gbs > best[key].gbs):
                best[key] = MeasuredLink(gbs, name)
    return best


def _nodes_of(run: Run, name: str) -> dict[tuple[int, str, int], MeasuredLink]:
    best: dict[tuple[int, str, int], MeasuredLink] = {}
    for result in run.results:
        for gpu, direction in _filled(result, run.manifest.machine):
            (copy,) = result.experiment.copies
            gbs = result.total_gbs
            if direction not in DIRECTIONS or gbs is None:
                continue
            key = (
                gpu,
                direction,
                (copy.source if direction == DIRECTIONS[0] else copy.destination).index,
            )
            if key not in best or gbs > best[key].gbs:
                best[key] = MeasuredLink(gbs, name)
    return best


def _filled(result: Result, machine: Machine) -> tuple[tuple[int, str], ...]:
    """The ways of GPUs' links that a result fills alone; none for all other results."""
    copies = result.experiment.copies
    if len(copies) != 1 or result.source is not Source.MEASURED:
        return ()
    (copy,) = copies
    source, destination = copy.source, copy.destination
    if copy.engine is not Engine.CE or copy.bytes < _LEAST_BYTES or copy.in_pieces:
        return ()
    if source.is_host and not destination.is_host and source.memory is Memory.PINNED:
        return ((destination.index, DIRECTIONS[0]),)
    if destination.is_host and not source.is_host and destination.memory is Memory.PINNED:
        return ((source.index, DIRECTIONS[1]),)
    return _filled_between(copy, machine)


def _filled_between(copy: Copy, machine: Machine) -> tuple[tuple[int, str], ...]:
    """The ways over NVLink that a copy between two GPUs fills."""
    if copy.source.is_host or copy.destination.is_host or copy.route is Route.STAGED:
        return ()
    pair = (copy.source.index, copy.destination.index)
    if pair not in joined(machine):
        return ()
    ends = zip(pair, reversed(NVLINK_DIRECTIONS), strict=True)
    return tuple((gpu, direction) for gpu, direction in ends if fills_all(machine, gpu))
