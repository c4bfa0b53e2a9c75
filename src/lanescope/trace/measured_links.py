"""What the links of GPUs were measured to carry, by earlier runs on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lanescope.copies import Copy, Engine, Memory, Route
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.results.result import Result, Source
from lanescope.store.folder import MANIFEST, read_manifest
from lanescope.store.folders import default_runs_folder
from lanescope.store.run import Manifest, Run
from lanescope.store.store import read_run
from lanescope.trace.limits import DIRECTIONS, NVLINK_DIRECTIONS, fills_all, joined

#: Runs that measure whole links, and how many of them are looked at, the newest first.
_VERBS = ("check", "bench")
_MOST_RUNS = 20
#: A smaller copy does not fill a link.
_LEAST_BYTES = 64 << 20


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
    folder = runs or default_runs_folder()
    manifests = folder.glob(f"*/{MANIFEST}") if folder.is_dir() else ()
    newest = sorted(manifests, key=lambda path: path.stat().st_mtime, reverse=True)
    looked_at = [p for p in newest if any(f"-{verb}" in p.parent.name for verb in _VERBS)]
    for path in looked_at[:_MOST_RUNS]:
        try:
            if _same_gpus(read_manifest(Manifest, path.parent).machine, machine):
                yield read_run(path.parent), path.parent.name
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
