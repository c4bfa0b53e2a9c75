"""Two sources that know one direction each, as one that knows both."""

from __future__ import annotations

import numpy as np

from lanescope.watch.codes import BoolArray, IntArray
from lanescope.watch.timeline import Counters


def merge_directions(rx: Counters, tx: Counters, source: str) -> Counters:
    """Bring together what one spool knows of one direction, and another of the other.

    Their records end at different times. Those of the result end wherever one of both does,
    and the bytes of a record are spread evenly over it; no byte is lost or made up.
    """
    ends = np.union1d(rx.end_ns, tx.end_ns)
    # before both have begun, and after one has ended, only half is known: left out
    if len(rx) and len(tx):
        first, last = max(rx.end_ns[0], tx.end_ns[0]), min(rx.end_ns[-1], tx.end_ns[-1])
        ends = ends[(ends >= first) & (ends <= last)]
    else:
        ends = ends[:0]
    known = _known_at(rx, ends) & _known_at(tx, ends)
    known[:1] = False
    seconds = [c.cpu_seconds for c in (rx, tx) if c.cpu_seconds is not None]
    return Counters(
        source=source,
        gpu=rx.gpu,
        interval_ns=max(rx.interval_ns, tx.interval_ns),
        end_ns=ends,
        rx_bytes=np.where(known, _spread(rx, rx.rx_bytes, ends), 0),
        tx_bytes=np.where(known, _spread(tx, tx.tx_bytes, ends), 0),
        known=known,
        lost_samples=rx.lost_samples + tx.lost_samples,
        cpu_seconds=sum(seconds) if seconds else None,
        link=rx.link,
    )


def _known_at(counters: Counters, ends: IntArray) -> BoolArray:
    """Whether the record is known that each of `ends` lies in."""
    holder = np.searchsorted(counters.end_ns, ends, side="left")
    found: BoolArray = counters.known[np.minimum(holder, max(len(counters) - 1, 0))]
    return found.copy()


def _spread(counters: Counters, column: IntArray, ends: IntArray) -> IntArray:
    """Return the bytes between each of `ends` and the one before; the first has none."""
    if ends.size == 0:
        return ends
    base = counters.end_ns[0]  # doubles hold what has passed since, not today's time
    total = np.interp(ends - base, counters.end_ns - base, np.cumsum(column))
    passed = np.rint(total).astype(np.int64)
    spread: IntArray = np.diff(passed, prepend=passed[:1])
    return spread
