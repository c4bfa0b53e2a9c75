"""What crosses a link slowly: commands of launches and small reads, which are counted with payload.

A launch of a kernel is fetched from host memory, 2 to 3 KB each on an H100. A loop that is bound by
launches moves 0.2 GB/s that way, a training loop with 80 kernels each 3.6 ms 0.06 GB/s; copies of
some MiB run at 10 GB/s and more. So traffic is slow where a window carries little.
"""

from __future__ import annotations

import numpy as np

from lanescope.trace.codes import FloatArray, IntArray
from lanescope.trace.timeline import Counters
from lanescope.trace.wire import WireModel
from lanescope.trace.wire_fit import blocks_of, in_windows

#: A window with less payload in a direction is slow.
SLOW_BYTES_PER_SECOND = 0.5e9
#: Long enough for several launches, and shorter than the pauses between copies.
WINDOW_NS = 100_000
#: Those of `throughput` are means of 20 ms.
LONGEST_INTERVAL_NS = 2_000_000
#: What is slow goes on while copies run. How much is taken from the windows around.
AROUND_NS = 10_000_000
#: With fewer slow windows around, nothing tells.
LEAST_SHARE = 0.05


def slow_bytes(counters: Counters, model: WireModel) -> tuple[float, float]:
    """Return payload h2d and d2h that crossed slowly, and as much while copies ran, in bytes.

    None of counters that are read so seldom that their means hide copies.
    """
    if counters.interval_ns > LONGEST_INTERVAL_NS:
        return 0.0, 0.0
    sums = np.zeros(2)
    for edges in blocks_of(counters, AROUND_NS):
        sums += _around(counters, model, edges).sum(axis=1)
    return float(max(sums[0], 0.0)), float(max(sums[1], 0.0))


def _around(counters: Counters, model: WireModel, edges: IntArray) -> FloatArray:
    """Return what crossed slowly between edges that are `AROUND_NS` apart: rows h2d, d2h."""
    count = AROUND_NS // max(WINDOW_NS, counters.interval_ns)
    inner = np.linspace(0, AROUND_NS, count + 1).astype(np.int64)[:-1]
    windows = np.append((edges[:-1, None] + inner).ravel(), edges[-1])
    rx, tx, known, own, samples = in_windows(counters, windows)
    observed = model.observed(known * 1e-9, samples, own * 1e-9)
    payload = np.stack(model.solve(rx - observed[0], tx - observed[1]))
    slow = (known > 0) & (payload < SLOW_BYTES_PER_SECOND * known * 1e-9)
    by_block = (2, -1, count)
    carried = np.where(slow, payload, 0.0).reshape(by_block).sum(axis=2)
    slow_ns = np.where(slow, known, 0.0).reshape(by_block).sum(axis=2)
    known_ns = known.reshape(-1, count).sum(axis=1)
    tells = slow_ns > LEAST_SHARE * known_ns
    found: FloatArray = carried * np.where(tells, known_ns / np.where(tells, slow_ns, 1.0), 1.0)
    return found
