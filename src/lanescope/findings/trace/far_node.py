"""Copies whose host memory lies on another NUMA node than their GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import bytes_text, copies_text, finding
from lanescope.machine import Machine
from lanescope.trace.codes import Direction, MemoryKind
from lanescope.trace.limits import DIRECTIONS, Ceilings
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import HostCopies, with_addresses
from lanescope.trace.timeline import Timeline
from lanescope.units.bandwidth import transfer_seconds

#: Less than this, or than this share of what is known, is not worth a change.
LEAST_BYTES = 64 << 20
LEAST_SHARE = 0.05


def far_node(
    timeline: Timeline, machine: Machine, ceilings: Ceilings | None = None
) -> Iterator[Finding]:
    """Yield a finding for each GPU and direction with much traffic of a far node's memory."""
    for _, _, found in far_by_direction(timeline, machine, ceilings):
        yield found


def far_by_direction(
    timeline: Timeline, machine: Machine, ceilings: Ceilings | None = None
) -> Iterator[tuple[int, str, Finding]]:
    """Yield the same findings, each with its GPU and its direction (``h2d`` or ``d2h``)."""
    rows, called = with_addresses(timeline.operations, timeline.host_copies)
    homes = {
        gpu.index: machine.nearest_node(gpu).index for gpu in machine.gpus if gpu.node is not None
    }
    for gpu in np.unique(rows.device).tolist():
        if gpu not in homes or len(machine.nodes) < 2:
            continue
        for direction, code in enumerate((Direction.H2D, Direction.D2H)):
            mine = np.flatnonzero((rows.device == gpu) & (rows.direction == code))
            known = mine[called.node[mine] >= 0]
            far = known[called.node[known] != homes[gpu]]
            moved, of = int(rows.bytes[far].sum()), int(rows.bytes[known].sum())
            if moved >= max(LEAST_BYTES, LEAST_SHARE * of):
                unknown = int(rows.bytes[mine].sum()) - of
                node = homes[gpu]
                far_rows = (
                    rows.rows(far),
                    called.rows(far),
                    gpu,
                    direction,
                    node,
                    (of, unknown),
                    ceilings,
                )
                yield gpu, DIRECTIONS[direction], _finding(*far_rows)


def _finding(
    far: Operations,
    called: HostCopies,
    gpu: int,
    direction: int,
    home: int,
    others: tuple[int, int],
    ceilings: Ceilings | None,
) -> Finding:
    total, (of, unknown) = int(far.bytes.sum()), others
    gain, basis = _gain(far, called, gpu, direction, home, ceilings)
    nodes = ", ".join(f"h{node}" for node in np.unique(called.node).tolist())
    return finding(
        "far-node",
        f"{bytes_text(total)} in {copies_text(len(far), DIRECTIONS[direction])} of g{gpu} "
        f"({total / of * 100:.3g} % of those whose node is known) use host memory on {nodes}; "
        f"g{gpu} is at h{home}.",
        gain,
        basis,
        (
            f"The memory can be allocated on h{home}: by a thread bound there (numactl "
            "--cpunodebind, --membind), before it is first written to.",
            "The threads that work on it can run there, too.",
            "The node of a copy is that of its first page.",
            "Copies wait for the link between the nodes, not for something else.",
        ),
        (
            f"{bytes_text(of)} of known nodes",
            f"{bytes_text(unknown)} of which the kernel does not tell the node: the driver's "
            "own pinned memory is among it",
        ),
    )


def _gain(
    far: Operations,
    called: HostCopies,
    gpu: int,
    direction: int,
    home: int,
    ceilings: Ceilings | None,
) -> tuple[float | None, str]:
    """Return the gain of pinned copies by rates that were measured on this machine, and how."""
    rates = {} if ceilings is None else ceilings.node_gbs
    near = rates.get((gpu, DIRECTIONS[direction], home))
    pinned = far.host_memory == MemoryKind.PINNED
    if near is None or not pinned.any():
        return None, (
            "no gain is told: it takes a 'lanescope bench' of this machine with near and far "
            "pinned memory, and pinned copies"
        )
    gain, parts = 0.0, []
    for node in np.unique(called.node[pinned]).tolist():
        gbs = rates.get((gpu, DIRECTIONS[direction], node))
        if gbs is None:
            continue
        moved = int(far.bytes[pinned & (called.node == node)].sum())
        gain += max(transfer_seconds(moved, gbs) - transfer_seconds(moved, near), 0.0)
        parts.append(f"{gbs:.3g} GB/s from h{node}")
    if not parts:
        return None, "no gain is told: no run here has measured pinned memory of the far node"
    return (
        gain,
        f"pinned copies at {near:.3g} instead of {', '.join(parts)}, as measured here before",
    )
