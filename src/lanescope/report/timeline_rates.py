"""Counters as the page draws them: every record, or bins with mean and peak where they are many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.watch.codes import BoolArray, IntArray
from lanescope.watch.timeline import Counters

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
    known = counters.known & (counters.end_ns > counters.start_ns)
    return RateSeries(
        counters.source,
        counters.link,
        counters.gpu,
        counters.interval_ns,
        counters.end_ns,
        counters.rx_bytes,
        counters.tx_bytes,
        known,
        None,
        None,
        len(counters),
    )


def _binned(counters: Counters, each: int) -> RateSeries:
    """Bins of consecutive records; no bin holds both what is known and what is not."""
    one = _whole(counters)
    starts = _bin_starts(one.known, each)
    lasts = np.append(starts[1:], len(counters)) - 1
    seconds = np.maximum(counters.end_ns - counters.start_ns, 1) * 1e-9

    def summed(column: IntArray) -> IntArray:
        sums: IntArray = np.add.reduceat(np.where(one.known, column, 0), starts)
        return sums

    def peak(column: IntArray) -> IntArray:
        rates = np.where(one.known, column, 0) / seconds
        return np.maximum.reduceat(rates, starts).astype(np.int64)

    return RateSeries(
        one.source,
        one.link,
        one.gpu,
        one.interval_ns,
        one.end_ns[lasts],
        summed(one.rx_bytes),
        summed(one.tx_bytes),
        one.known[starts],
        peak(one.rx_bytes),
        peak(one.tx_bytes),
        len(counters),
    )


def _bin_starts(known: BoolArray, each: int) -> IntArray:
    rows = np.arange(known.size)
    first_of_run = np.ones(known.size, bool)
    first_of_run[1:] = known[1:] != known[:-1]
    begin = np.maximum.accumulate(np.where(first_of_run, rows, 0))
    starts: IntArray = np.flatnonzero((rows - begin) % each == 0)
    return starts
