"""Data that is sent to a GPU again though it is there already."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import bytes_text, copies_text, finding
from lanescope.trace.codes import Direction, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.side_tables import HostCopies, with_addresses
from lanescope.trace.timeline import Timeline

#: Gains below this are not worth a change.
LEAST_SECONDS = 1e-3

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
        found = _finding(sent, sent.rows(sent_again(calls)), calls, gpu)
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


def _finding(sent: Operations, again: Operations, called: HostCopies, gpu: int) -> Finding | None:
    seconds = covered_ns(again.start_ns, again.end_ns) * 1e-9
    if seconds < LEAST_SECONDS:
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
