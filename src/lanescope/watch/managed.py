"""Managed memory: what the driver moved by itself, by GPU and direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.watch.codes import Direction, IntArray, What
from lanescope.watch.side_tables import ManagedKind
from lanescope.watch.timeline import Timeline

_WAYS = (Direction.H2D, Direction.D2H, Direction.P2P)


@dataclass(frozen=True, slots=True)
class ManagedWay:
    """Migrations of one direction of one GPU.

    Attributes
    ----------
    direction
        ``h2d``, ``d2h`` or ``p2p``.
    mean_bytes
        Of a migration.
    seconds
        Their time in sum.
    faults
        Page faults of the GPU, beside ``h2d``; of CPUs beside ``d2h``, those of the whole
        process, as they are of no GPU. None where they were not traced.
    """

    gpu: int
    direction: str
    count: int
    total_bytes: int
    mean_bytes: float
    seconds: float
    faults: int | None


def managed_ways(timeline: Timeline) -> tuple[ManagedWay, ...]:
    """Return what managed memory moved, by GPU and direction; nothing where nothing was seen."""
    sums: dict[tuple[int, Direction], IntArray] = {}
    for piece in timeline.operations.pieces():
        for gpu in np.unique(piece.device[piece.what == What.MIGRATION]).tolist():
            for way in _WAYS:
                mine = (piece.device == gpu) & (piece.direction == way)
                mine &= piece.what == What.MIGRATION
                lasted = piece.end_ns - piece.start_ns
                told = [mine.sum(), piece.bytes[mine].sum(), lasted[mine].sum()]
                sums[gpu, way] = sums.get((gpu, way), 0) + np.array(told)
    return tuple(
        ManagedWay(
            gpu,
            way.label,
            int(count),
            int(total),
            int(total) / int(count),
            int(lasted_ns) * 1e-9,
            _faults(timeline, gpu, way),
        )
        for (gpu, way), (count, total, lasted_ns) in sorted(sums.items())
        if count
    )


def _faults(timeline: Timeline, gpu: int, way: Direction) -> int | None:
    managed = timeline.managed
    if not len(managed) or way is Direction.P2P:
        return None
    if way is Direction.H2D:
        mine = (managed.kind == ManagedKind.GPU_FAULT) & (managed.device == gpu)
    else:
        mine = managed.kind == ManagedKind.CPU_FAULT
    return int(managed.value[mine].sum())
