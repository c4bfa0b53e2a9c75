"""Time that links cost a watch: to a far node, trained down, and data that goes over them again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from lanescope.document.contents import Finding
from lanescope.findings.trace.evidence import Limits, bytes_text, copies_text, finding, path_rate
from lanescope.machine import Link, Machine, PcieLink
from lanescope.machine.pcie import is_trained_down, payload_gbs
from lanescope.trace.codes import DirectionCode, IntArray, MemoryKind
from lanescope.trace.limits import DIRECTIONS, Ceilings, pcie_links
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.side_tables import HostCopies, Managed, ManagedKind, with_addresses
from lanescope.trace.summary import DirectionSummary
from lanescope.trace.timeline import Timeline
from lanescope.units.sizes import transfer_seconds

#: Less than this, or than this share of what is known, is not worth a change.
_LEAST_BYTES = 64 << 20
_LEAST_SHARE = 0.05
#: Gains below this are not worth a change.
_LEAST_SECONDS = 1e-3
#: From this share of the bytes sent on all that matters was read.
_READ_ALL = 0.99
#: The driver migrates within blocks of this size.
BLOCK_BYTES = 2 << 20
#: There, back, there and back again: fewer are a program that hands its data over.
_LEAST_TURNS = 3


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
        for direction, code in enumerate((DirectionCode.H2D, DirectionCode.D2H)):
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
        peaks = {one.direction: _peak_gbs(one) for one in own}
        rates = [peaks.get(direction) for direction in DIRECTIONS]
        for link in pcie_links(machine, gpu):
            if link.pcie is not None and is_trained_down(link.pcie, rates):
                yield _trained_down(gpu, link, link.pcie, own)


def _peak_gbs(one: DirectionSummary) -> float | None:
    """The highest rate of a direction over 1 ms or 1 s: shorter ones hold buffered bytes."""
    windows = () if one.rates is None else one.rates.windows[1:]
    return max((w.peak_gbs for w in windows if w.peak_gbs is not None), default=None)


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


def resent(timeline: Timeline) -> Iterator[Finding]:
    """Yield a finding for each GPU that was sent the same content to the same place again."""
    rows, called = with_addresses(timeline.operations, timeline.host_copies)
    if not called.hashed.any():
        return
    for gpu in np.unique(rows.device).tolist():
        mine = np.flatnonzero((rows.device == gpu) & (rows.direction == DirectionCode.H2D))
        sent, calls = rows.rows(mine), called.rows(mine)
        found = _unchanged(sent, sent.rows(sent_again(calls)), calls, gpu)
        if found is not None:
            yield found


def sent_again(called: HostCopies) -> IntArray:
    """Return the rows whose content the last copy to exactly that place has brought already.

    Parameters
    ----------
    called
        Copies to one GPU in the order of time. One to a part of a place, or over it, makes what
        is there unknown.
    """
    again: list[int] = []
    there: dict[int, _Places] = {}
    columns = (called.pid, called.destination, called.bytes, called.hash, called.hashed)
    for row, (pid, begin, size, content, hashed) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        if not size:  # is nowhere, and changes nothing
            continue
        known = content if hashed else None
        if there.setdefault(pid, _Places()).put(begin, begin + size, known) and hashed:
            again.append(row)
    return np.array(again, np.int64)


class _Places:
    """What lies where in a GPU's memory, as far as copies tell: places that do not overlap."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._held: dict[int, tuple[int, int | None]] = {}

    def put(self, begin: int, end: int, content: int | None) -> bool:
        """Note what is copied to a place, and return whether just that was there."""
        if self._held.get(begin) == (end, content):
            return True
        first = bisect_left(self._begins, begin)
        if first and self._held[self._begins[first - 1]][0] > begin:
            first -= 1
        last = bisect_left(self._begins, end)
        for gone in self._begins[first:last]:
            del self._held[gone]
        self._begins[first:last] = [begin]
        self._held[begin] = (end, content)
        return False


def _unchanged(sent: Operations, again: Operations, called: HostCopies, gpu: int) -> Finding | None:
    seconds = covered_ns(again.start_ns, again.end_ns) * 1e-9
    if seconds < _LEAST_SECONDS:
        return None
    total, of = int(again.bytes.sum()), int(sent.bytes.sum())
    hashed = int(called.bytes[called.hashed > 0].sum())
    if hashed < _READ_ALL * of:  # as where 'advise' reads for a share of the time
        compared = f"{bytes_text(hashed)} of {bytes_text(of)}"
        rest = f" Only {compared} were read: of the rest nothing is known."
    else:
        rest = ""
    return finding(
        "unchanged-data",
        f"{copies_text(len(again), 'h2d')} of g{gpu} ({bytes_text(total)}, "
        f"{total / of * 100:.3g} % of the bytes sent) brought what the copy before had brought to "
        f"the same place, by a hash of all bytes. That took {seconds:.3g} s.{rest}",
        seconds,
        "all of the time of these copies",
        (
            "No kernel, memset or copy within the GPU wrote there in between: such writes are not "
            "seen here.",
            "The program can tell that the data has not changed, without reading all of it.",
            "The buffer on the GPU can be kept, and is not needed for something else.",
            "The program waits for these copies; what overlaps with kernels now gains less.",
        ),
        (
            f"{hashed / 2**20:.4g} of {bytes_text(of)} were compared by a hash of 64 bits; "
            "copies of graphs, rectangles, batches and managed memory were not",
        ),
    )


def thrashing(managed: Managed, operations: Operations, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose managed memory is migrated both ways repeatedly."""
    directions = (ManagedKind.TO_GPU, ManagedKind.FROM_GPU)
    moved = managed.rows(np.isin(managed.kind, directions))
    for gpu in np.unique(moved.device).tolist():
        own = moved.rows(moved.device == gpu)
        found = _thrashing(own.rows(again_and_again(own)), managed, operations, gpu, limits)
        if found is not None:
            yield found


def again_and_again(moved: Managed) -> IntArray:
    """Return the rows of blocks that changed sides often, without each block's first migration.

    Those would not be there if the block had stayed.
    """
    block = moved.address // BLOCK_BYTES
    order = np.lexsort((moved.start_ns, block, moved.pid))
    pid, block, kind = moved.pid[order], block[order], moved.kind[order]
    same = np.zeros(len(moved), bool)
    same[1:] = (pid[1:] == pid[:-1]) & (block[1:] == block[:-1])
    turned = np.zeros(len(moved), bool)
    turned[1:] = same[1:] & (kind[1:] != kind[:-1])
    number = np.cumsum(~same) - 1
    turns = np.bincount(number, turned, minlength=1)
    # pages of a block come in several migrations: the first ones are all up to the first turn
    before_turn = np.cumsum(turned) - np.cumsum(turned)[np.flatnonzero(~same)][number] == 0
    rows: IntArray = order[(turns[number] >= _LEAST_TURNS) & ~before_turn]
    return rows


def _thrashing(
    rows: Managed, managed: Managed, operations: Operations, gpu: int, limits: Limits
) -> Finding | None:
    seconds = covered_ns(rows.start_ns, rows.end_ns) * 1e-9
    if not len(rows) or seconds < _LEAST_SECONDS:
        return None
    down = rows.kind == ManagedKind.TO_GPU
    sizes = [int(rows.value[mine].sum()) for mine in (down, ~down)]
    blocks = np.unique(np.stack((rows.pid, rows.address // BLOCK_BYTES)), axis=1).shape[1]
    rates = [
        path_rate(operations, gpu, direction, limits, (MemoryKind.PINNED,)) for direction in (0, 1)
    ]
    gain, basis = None, "the rate of large pinned copies is not known here"
    if rates[0] is not None and rates[1] is not None:
        prefetched = sum(
            transfer_seconds(size, rate.gbs)
            for size, rate in zip(sizes, rates, strict=True)
            if rate
        )
        gain = max(seconds - prefetched, 0.0)
        basis = (
            f"predicted: the same bytes prefetched at {rates[0].gbs:.3g} and {rates[1].gbs:.3g} "
            f"GB/s ({rates[0].source}; {rates[1].source}); where they need not move again, all of "
            f"{seconds:.3g} s"
        )
    faults = int(
        managed.value[(managed.kind == ManagedKind.GPU_FAULT) & (managed.device == gpu)].sum()
    )
    total, noun = sum(sizes), "block" if blocks == 1 else "blocks"
    return finding(
        "managed-thrashing",
        f"Managed memory of g{gpu} goes to and fro: {blocks} {noun} of 2 MiB migrated "
        f"both ways again and again, {total / 2**20:.4g} MiB in {len(rows)} migrations of "
        f"{total / len(rows) / 1024:.4g} KiB, which took {seconds:.3g} s beside the waiting of "
        "kernels and threads that faulted.",
        gain,
        basis,
        (
            "The program knows when each side needs the data, and prefetches it "
            "(cudaMemPrefetchAsync) before that in large pieces.",
            "Or only one side changes it: cudaMemAdvise (read mostly, preferred location), or "
            "pinned memory with copies of what is needed, ends the migrations back.",
            "All that is in use at one time fits into the GPU's memory.",
        ),
        (
            f"{sizes[0] / 2**20:.4g} MiB to the GPU, {sizes[1] / 2**20:.4g} MiB back",
            f"{faults} page faults of the GPU were told",
        ),
    )
