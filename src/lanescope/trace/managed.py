"""Managed memory: what the driver moved by itself, by GPU and direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.trace.codes import BoolArray, Direction, What
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import ManagedKind
from lanescope.trace.timeline import Timeline

_DIRECTIONS = (Direction.H2D, Direction.D2H, Direction.P2P)


@dataclass(frozen=True, slots=True)
class ManagedDirection:
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


def managed_directions(timeline: Timeline) -> tuple[ManagedDirection, ...]:
    """Return what managed memory moved, by GPU and direction; nothing where nothing was seen."""
    gpus = sorted(timeline.operations.values("device", _migrated))
    found = [_direction(timeline, gpu, direction) for gpu in gpus for direction in _DIRECTIONS]
    return tuple(direction for direction in found if direction.count)


def _migrated(o: Operations) -> BoolArray:
    return np.equal(o.what, What.MIGRATION)


def _direction(timeline: Timeline, gpu: int, direction: Direction) -> ManagedDirection:
    chosen = lambda o: _migrated(o) & (o.direction == direction)  # noqa: E731
    rows = timeline.operations.where(chosen, "bytes", device=gpu)
    total = rows.total("bytes")
    seconds = sum(float(piece.seconds.sum()) for piece in rows.pieces())
    mean, faults = total / max(len(rows), 1), _faults(timeline, gpu, direction)
    return ManagedDirection(gpu, direction.label, len(rows), total, mean, seconds, faults)


def _faults(timeline: Timeline, gpu: int, direction: Direction) -> int | None:
    managed = timeline.managed
    if not len(managed) or direction is Direction.P2P:
        return None
    if direction is Direction.H2D:
        mine = (managed.kind == ManagedKind.GPU_FAULT) & (managed.device == gpu)
    else:
        mine = managed.kind == ManagedKind.CPU_FAULT
    return int(managed.value[mine].sum())
