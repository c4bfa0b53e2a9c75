"""Counters as the page draws them: every record, or bins with mean and peak where they are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.codec.fields import from_attributes
from lanescope.trace.codes import BoolArray, IntArray
from lanescope.trace.stored_columns import in_memory
from lanescope.trace.timeline import Counters

_BIN_COST = 4


@dataclass(frozen=True, slots=True, eq=False)
class RateSeries:
    """Records of one counter, or bins of them.

    Attributes
    ----------
    link, end_ns, rx_bytes, tx_bytes, known
        As in `Counters`.
    rx_peak, tx_peak
        Highest rate of a single record in each bin, bytes a second; None where
        records are whole.
    records
        How many records there were.
    """

    source: str
    link: str
    gpu: int
    interval_ns: int
    end_ns: IntArray
    rx_bytes: IntArray
    tx_bytes: IntArray
    known: BoolArray
    rx_peak: IntArray | None
    tx_peak: IntArray | None
    records: int


def rate_series(counters: tuple[Counters, ...], most: int) -> list[RateSeries]:
    """Return counters whole up to `most` records together, else as a quarter as many bins.

    A bin has a peak beside each mean and compresses less well than a record.
    """
    total = sum(len(c) for c in counters)
    each = -(-total * _BIN_COST // most) if total > most else 1
    return [_whole(c) if each == 1 else _binned(c, each) for c in counters]


def _whole(counters: Counters) -> RateSeries:
    counters = in_memory(counters)
    known = counters.known & (counters.end_ns > counters.start_ns)
    whole = {"rx_peak": None, "tx_peak": None, "records": len(counters)}
    return from_attributes(RateSeries, counters, known=known, **whole)


def _binned(counters: Counters, each: int) -> RateSeries:
    """Bins of consecutive records; no bin holds both what is known and what is not."""
    bins = _Bins(each)
    for part, start_ns in counters.pieces():
        columns = (column[part] for column in (counters.rx_bytes, counters.tx_bytes))
        bins.add(start_ns, counters.end_ns[part], counters.known[part], *columns)
    ends, sums, peaks, known = bins.columns()
    return RateSeries(
        counters.source,
        counters.link,
        counters.gpu,
        counters.interval_ns,
        ends,
        sums[0],
        sums[1],
        known,
        peaks[0],
        peaks[1],
        len(counters),
    )


class _Bins:
    """Bins of so many records, fed piece by piece."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._known: bool | None = None  # of the last record, and how long its run is
        self._run = 0
        self._goes_on = False
        self._ends: list[IntArray] = []
        self._found: list[IntArray] = []  # rows: bytes each way, peaks each way, known

    def add(
        self, start_ns: IntArray, end_ns: IntArray, known: BoolArray, rx: IntArray, tx: IntArray
    ) -> None:
        """Add records that follow those before."""
        known = known & (end_ns > start_ns)
        starts = self._starts(known)
        bytes_ = [np.where(known, column, 0) for column in (rx, tx)]
        seconds = np.maximum(end_ns - start_ns, 1) * 1e-9
        sums = [np.add.reduceat(column, starts) for column in bytes_]
        peaks = [np.maximum.reduceat(column / seconds, starts) for column in bytes_]
        found = np.stack([*sums, *(peak.astype(np.int64) for peak in peaks), known[starts]])
        ends = end_ns[np.append(starts[1:], known.size) - 1]
        if self._goes_on:
            last = self._found[-1][:, -1]
            last[:2] += found[:2, 0]
            last[2:4] = np.maximum(last[2:4], found[2:4, 0])
            self._ends[-1][-1] = ends[0]
            found, ends = found[:, 1:], ends[1:]
        if ends.size:
            self._found.append(found)
            self._ends.append(ends)

    def columns(self) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
        """Return the ends of bins, their bytes and their peaks each way, and whether known."""
        found = np.concatenate(self._found, axis=1)
        return np.concatenate(self._ends), found[:2], found[2:4], found[4].astype(np.bool_)

    def _starts(self, known: BoolArray) -> IntArray:
        """Return where bins begin; the first can be the rest of the last one before."""
        rows = np.arange(known.size)
        first_of_run = np.ones(known.size, bool)
        first_of_run[1:] = known[1:] != known[:-1]
        begin = np.maximum.accumulate(np.where(first_of_run, rows, 0))
        before = self._run if self._known == known[0] else 0
        begin[: int(np.argmax(begin > 0)) or begin.size] = -before
        self._goes_on = before % self._each != 0
        self._known, self._run = bool(known[-1]), known.size - int(begin[-1])
        starts: IntArray = np.flatnonzero((rows - begin) % self._each == 0)
        return starts if starts.size and starts[0] == 0 else np.append(0, starts)
