"""Data that goes over a link again: to where it is already, and managed memory to and fro."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from lanescope.document.contents import Finding
from lanescope.findings.trace.evidence import Limits, bytes_text, copies_text, finding, path_rate
from lanescope.trace.codes import Direction, IntArray, MemoryKind
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.side_tables import HostCopies, Managed, ManagedKind, with_addresses
from lanescope.trace.timeline import Timeline
from lanescope.units.sizes import transfer_seconds

#: Gains below this are not worth a change.
_LEAST_SECONDS = 1e-3

#: From this share of the bytes sent on all that matters was read.
_READ_ALL = 0.99


def resent(timeline: Timeline) -> Iterator[Finding]:
    """Yield a finding for each GPU that was sent the same content to the same place again."""
    rows, called = with_addresses(timeline.operations, timeline.host_copies)
    if not called.hashed.any():
        return
    for gpu in np.unique(rows.device).tolist():
        mine = np.flatnonzero((rows.device == gpu) & (rows.direction == Direction.H2D))
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


#: The driver migrates within blocks of this size.
BLOCK_BYTES = 2 << 20
#: There, back, there and back again: fewer are a program that hands its data over.
_LEAST_TURNS = 3


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
