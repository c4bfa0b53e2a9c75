"""Timelines of plain numbers for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from lanescope.trace.timeline import Counters, Operations, Process, Timeline

US, MS, S = 1_000, 1_000_000, 1_000_000_000
PAGEABLE, PINNED, DEVICE = 1, 2, 3


def copies(
    count: int,
    size: int,
    *,
    start_ns: int = 0,
    every_ns: int = MS,
    lasts_ns: int = MS // 2,
    down: bool = True,
    host: int = PINNED,
    **columns: Any,
) -> Operations:
    """Copies of one size at even distances, on GPU 0 by process 7."""
    start = start_ns + np.arange(count) * every_ns
    ends = (host, DEVICE), (-1, 0)
    (source, destination), (from_, to) = ends if down else (ends[0][::-1], ends[1][::-1])
    told = {
        "pid": 7,
        "bytes": size,
        "asynchronous": True,
        "source_kind": source,
        "destination_kind": destination,
        "source_device": from_,
        "destination_device": to,
        "stream": 13,
        **columns,
    }
    filled = {key: np.full(count, value) for key, value in told.items()}
    return Operations.of(start_ns=start, end_ns=start + lasts_ns, **filled)


def timeline(
    *operations: Operations, seconds: float = 1.0, counters: tuple[Counters, ...] = ()
) -> Timeline:
    process = Process(7, "python train.py", 0, int(seconds * S))
    found = Operations.concat(operations)
    return Timeline(0, int(seconds * S), counters, found, (process,))


def even_counters(down_gbs: float, up_gbs: float = 0.0, seconds: float = 1.0) -> Counters:
    """Counters at 10 µs of a steady payload, as PM sampling would count it."""
    n = int(seconds * 100_000)
    end = np.arange(n + 1) * 10 * US
    rx = np.full(n + 1, round(down_gbs * 10_000 * 1.046875) + 36)
    tx = np.full(n + 1, round(down_gbs * 10_000 * 0.0625 + up_gbs * 10_000 * 1.0625) + 92 + 44)
    return Counters("pm", 0, 10 * US, end, rx, tx, np.arange(n + 1) > 0, 3, 0.25)
