"""Links of a machine that cost a watch time: that to a far node, and those trained down."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lanescope.document.contents import Finding
from lanescope.findings.trace.evidence import bytes_text, copies_text, finding
from lanescope.machine import Link, Machine, PcieLink
from lanescope.machine.pcie import is_outrun, payload_gbs
from lanescope.trace.codes import Direction, MemoryKind
from lanescope.trace.limits import DIRECTIONS, Ceilings, pcie_links
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import HostCopies, with_addresses
from lanescope.trace.summary import DirectionSummary
from lanescope.trace.timeline import Timeline
from lanescope.units.sizes import transfer_seconds

#: Less than this, or than this share of what is known, is not worth a change.
_LEAST_BYTES = 64 << 20
_LEAST_SHARE = 0.05


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
            if moved >= max(_LEAST_BYTES, _LEAST_SHARE * of):
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
                yield gpu, DIRECTIONS[direction], _far_node(*far_rows)


def _far_node(
    far: Operations,
    called: HostCopies,
    gpu: int,
    direction: int,
    home: int,
    others: tuple[int, int],
    ceilings: Ceilings | None,
) -> Finding:
    total, (of, unknown) = int(far.bytes.sum()), others
    gain, basis = _near_gain(far, called, gpu, direction, home, ceilings)
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


def _near_gain(
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


def trained_down(machine: Machine, directions: tuple[DirectionSummary, ...]) -> Iterator[Finding]:
    """Yield a finding for each GPU below a link that is trained down and that saw traffic."""
    for gpu in dict.fromkeys(one.gpu for one in directions):
        own = tuple(one for one in directions if one.gpu == gpu)
        for link in pcie_links(machine, gpu):
            if link.pcie is not None and link.pcie.trained_down and not _awake(link.pcie, own):
                yield _trained_down(gpu, link, link.pcie, own)


def _peak_gbs(one: DirectionSummary) -> float | None:
    """The highest rate of a direction over 1 ms or 1 s: shorter ones hold buffered bytes."""
    windows = () if one.rates is None else one.rates.windows[1:]
    return max((w.peak_gbs for w in windows if w.peak_gbs is not None), default=None)


def _awake(pcie: PcieLink, directions: tuple[DirectionSummary, ...]) -> bool:
    peaks: list[float | None] = [None] * len(DIRECTIONS)
    for one in directions:
        peaks[DIRECTIONS.index(one.direction)] = _peak_gbs(one)
    return is_outrun(pcie, peaks)


def _trained_down(
    gpu: int, link: Link, pcie: PcieLink, directions: tuple[DirectionSummary, ...]
) -> Finding:
    best, now = pcie.at_best(), payload_gbs(pcie)
    gains = [
        transfer_seconds(payload, slow) - transfer_seconds(payload, fast)
        for one in directions
        if one.rates is not None and (payload := one.rates.payload_bytes) is not None
        for slow, fast in [
            (now[i], payload_gbs(best)[i]) for i in [DIRECTIONS.index(one.direction)]
        ]
    ]
    peaks = [
        f"{one.label} peaked at {peak:.3g} GB/s"
        for one in directions
        if (peak := _peak_gbs(one)) is not None
    ]
    return finding(
        "trained-down",
        f"The link of {link.b} to {link.a} runs at {pcie.label}, where "
        f"both ends can do {best.generation}.0 x{best.width}: {now[0]:.3g} instead of "
        f"{payload_gbs(best)[0]:.3g} GB/s to g{gpu}.",
        sum(gains) if gains else None,
        "the watched bytes at the payload limits of both states",
        (
            "The state was read while the link was in use: idle links slow down to save power.",
            "Copies run at the link's limit; those held up by something else gain less.",
        ),
        (f"told state: {pcie.label}", *peaks),
    )
