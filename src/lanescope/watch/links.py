"""What the links to GPUs were measured to carry, by earlier runs on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lanescope.errors import InputError
from lanescope.experiment import Engine, Memory
from lanescope.machine import Machine
from lanescope.measurement.result import Result, Source
from lanescope.run.folders import default_runs_folder
from lanescope.run.run import Run
from lanescope.run.store import MANIFEST, read_run
from lanescope.watch.codes import Direction

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


def measured_links(
    machine: Machine, runs: Path | None = None
) -> dict[tuple[int, Direction], MeasuredLink]:
    """Return what earlier runs measured, by GPU and direction; the newest run of each counts.

    Only runs of the same GPUs, told by their UUIDs, of this machine.
    """
    found: dict[tuple[int, Direction], MeasuredLink] = {}
    for run, name in _runs(machine, runs):
        best: dict[tuple[int, Direction], MeasuredLink] = {}
        for (gpu, way, _), link in _links_of(run, name).items():
            if (gpu, way) not in best or link.gbs > best[gpu, way].gbs:
                best[gpu, way] = link
        found = {**best, **found}
    return found


def measured_nodes(
    machine: Machine, runs: Path | None = None
) -> dict[tuple[int, Direction, int], MeasuredLink]:
    """Return the same by the NUMA node of the host memory, too, where it was pinned there."""
    found: dict[tuple[int, Direction, int], MeasuredLink] = {}
    for run, name in _runs(machine, runs):
        found = {**_links_of(run, name), **found}
    return found


def _runs(machine: Machine, runs: Path | None) -> Iterator[tuple[Run, str]]:
    """Yield runs of this machine with their names, the newest first."""
    folder = runs or default_runs_folder()
    manifests = folder.glob(f"*/{MANIFEST}") if folder.is_dir() else ()
    newest = sorted(manifests, key=lambda path: path.stat().st_mtime, reverse=True)
    looked_at = [p for p in newest if any(f"-{verb}" in p.parent.name for verb in _VERBS)]
    for path in looked_at[:_MOST_RUNS]:
        try:
            run = read_run(path.parent)
        except InputError:
            continue  # damaged, or of another version
        if _same_gpus(run.manifest.machine, machine):
            yield run, path.parent.name


def _same_gpus(one: Machine, other: Machine) -> bool:
    return [g.uuid for g in one.gpus] == [g.uuid for g in other.gpus] and not one.described


def _links_of(run: Run, name: str) -> dict[tuple[int, Direction, int], MeasuredLink]:
    best: dict[tuple[int, Direction, int], MeasuredLink] = {}
    for result in run.results:
        key = _link_of(result)
        gbs = result.total_gbs if key is not None else None
        if key is not None and gbs is not None and (key not in best or gbs > best[key].gbs):
            best[key] = MeasuredLink(gbs, name)
    return best


def _link_of(result: Result) -> tuple[int, Direction, int] | None:
    """The link that a result fills alone, which way, and the node; None of all other results."""
    copies = result.experiment.copies
    if len(copies) != 1 or result.source is not Source.MEASURED:
        return None
    (copy,) = copies
    source, destination = copy.source, copy.destination
    if copy.engine is not Engine.CE or copy.bytes < _LEAST_BYTES or copy.in_pieces:
        return None
    if source.is_host and not destination.is_host and source.memory is Memory.PINNED:
        return destination.index, Direction.H2D, source.index
    if destination.is_host and not source.is_host and destination.memory is Memory.PINNED:
        return source.index, Direction.D2H, destination.index
    return None
