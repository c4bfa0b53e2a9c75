"""Probes of plain numbers for tests."""

from __future__ import annotations

import numpy as np

from lanescope.trace.codes import IntArray
from lanescope.trace.probe import Probe

CHUNK = 200 << 10
#: Undisturbed times on a link of 20.48 GB/s.
COPY_NS, DELAY_NS = 10_000, 5_000


def probe_of(copy_ns: IntArray, delay_ns: IntArray, *, gpu: int = 0, period_ns: int = 0) -> Probe:
    """A probe whose rounds took as long each way, one after the other or every `period_ns`."""
    took = np.repeat(copy_ns + delay_ns, 2)
    begin = np.cumsum(took) - took
    if period_ns:
        begin = np.arange(copy_ns.size).repeat(2) * period_ns
        begin[1::2] += copy_ns + delay_ns
    return Probe.of(
        gpu=gpu,
        chunk_bytes=CHUNK,
        period_ns=period_ns,
        begin_ns=begin,
        delay_ns=np.repeat(delay_ns, 2),
        copy_ns=np.repeat(copy_ns, 2),
        direction=np.arange(begin.size) % 2,
    )


def quiet(rounds: int) -> tuple[IntArray, IntArray]:
    """Times of undisturbed copies: of chunks, and of delays."""
    return np.full(rounds, COPY_NS), np.full(rounds, DELAY_NS)
