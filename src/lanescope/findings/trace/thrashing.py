"""Managed memory that goes to and fro again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import Limits, finding, path_rate
from lanescope.trace.codes import IntArray, MemoryKind
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.side_tables import Managed, ManagedKind
from lanescope.units.bandwidth import transfer_seconds

#: The driver migrates within blocks of this size.
BLOCK_BYTES = 2 << 20
#: There, back, there and back again: fewer are a program that hands its data over.
LEAST_TURNS = 3
#: Gains below this are not worth a change.
LEAST_SECONDS = 1e-3


def thrashing(managed: Managed, operations: Operations, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU whose managed memory is migrated both ways repeatedly."""
    directions = (ManagedKind.TO_GPU, ManagedKind.FROM_GPU)
    moved = managed.rows(np.isin(managed.kind, directions))
    for gpu in np.unique(moved.device).tolist():
        own = moved.rows(moved.device == gpu)
        found = _finding(own.rows(again_and_again(own)), managed, operations, gpu, limits)
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
    rows: IntArray = order[(turns[number] >= LEAST_TURNS) & ~before_turn]
    return rows


def _finding(
    rows: Managed, managed: Managed, operations: Operations, gpu: int, limits: Limits
) -> Finding | None:
    seconds = covered_ns(rows.start_ns, rows.end_ns) * 1e-9
    if not len(rows) or seconds < LEAST_SECONDS:
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
