"""Counters as payload, record by record."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray
from lanescope.watch.stored import search_all
from lanescope.watch.timeline import Counters
from lanescope.watch.wire import WireModel

#: Records that are worked on at once: 25 MB.
_CHUNK = 1 << 18


def payload_records(
    counters: Counters,
    model: WireModel,
    end_before_ns: int | None = None,
    operation_ends: IntArray | None = None,
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the ends of records, and a row for each: payload h2d, d2h, known nanoseconds.

    Payload is exact in sums and can come out below zero, as `WireModel.solve` says.

    Parameters
    ----------
    end_before_ns
        Where the record before ended; None when there is none.
    operation_ends
        As for `RateMeter.add_counters`.
    """
    ends = np.empty(0, np.int64) if operation_ends is None else operation_ends
    for part, start_ns in counters.pieces(_CHUNK):
        end_ns = counters.end_ns[part]
        if not part.start and end_before_ns is not None:
            start_ns[0] = end_before_ns
        known_ns = np.where(counters.known[part], end_ns - start_ns, 0).astype(np.float64)
        own = None if counters.own is None else np.where(counters.own[part], known_ns, 0.0) * 1e-9
        observed = model.observed(known_ns * 1e-9, counters.interval_ns, own)
        finished = np.diff(search_all(ends, np.concatenate((start_ns[:1], end_ns)), "right"))
        wires = (counters.rx_bytes[part], counters.tx_bytes[part])
        down, up = model.solve(
            *(
                np.where(known_ns > 0, wire - own - each * finished, 0.0)
                for wire, own, each in zip(wires, observed, model.per_operation, strict=True)
            )
        )
        yield end_ns, np.stack((down, up, known_ns), axis=1)
