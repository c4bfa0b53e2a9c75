"""Single transfers as samples of the hardware show them, where no trace tells of copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanescope.units.sizes import binary_text
from lanescope.watch.codes import BoolArray, FloatArray, IntArray
from lanescope.watch.timeline import Counters

#: Sources whose samples show single transfers.
FINE = ("pm",)
#: Outside of the sampler's own bursts an idle H200 showed at most 512 bytes in a sample, the
#: samples themselves on their way to the host; so much counts as traffic.
LEAST_BYTES = 1024
#: A copy of 4 KiB is 4,096 bytes on the wire and more; this tells it from notes of 1.5 KB that
#: CUDA's driver writes every 100 ms.
LEAST_BURST_BYTES = 3584


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Runs of samples with traffic, in one direction.

    Attributes
    ----------
    start_ns, end_ns
        Of each burst, nanoseconds since 1970; as exact as samples are apart.
    wire_bytes
        That the GPU received or sent in it, protocol included.
    """

    start_ns: IntArray
    end_ns: IntArray
    wire_bytes: IntArray

    def __len__(self) -> int:
        return int(self.start_ns.size)


def bursts(counters: Counters, way: int) -> Bursts:
    """Return the bursts of one direction, 0 to the GPU and 1 from it.

    Samples during which the sampler itself used the link are left out: there a burst of less
    than 30 KB could be its own. Transfers without a pause between them are one burst.
    """
    column = (counters.rx_bytes, counters.tx_bytes)[way]
    active = counters.known & ~counters.maybe_own & (column >= LEAST_BYTES)
    first, last = _runs(active)
    sums: FloatArray = np.concatenate(([0], np.cumsum(np.where(active, column, 0))))
    moved = (sums[last + 1] - sums[first]).astype(np.int64)
    kept = moved >= LEAST_BURST_BYTES
    first, last = first[kept], last[kept]
    return Bursts(counters.start_ns[first], counters.end_ns[last], moved[kept])


def burst_notes(counters: Counters) -> tuple[str, ...]:
    """Return how many bursts there were in each direction, and how large, as sentences.

    One that goes on from one piece of a long watch to the next counts twice.
    """
    notes = []
    for way, words in enumerate(("to the GPU", "from it")):
        sizes: list[IntArray] = []
        for part, _ in counters.pieces():
            sizes.append(bursts(counters.rows(part), way).wire_bytes)
        found = np.sort(np.concatenate([np.empty(0, np.int64), *sizes]))
        if found.size:
            half, most = (binary_text(int(found[i])) for i in (found.size // 2, -1))
            if found.size == 1:
                told = f"one burst of 4 KiB or more {words}, {most} on the wire"
            else:
                told = (
                    f"{found.size} bursts of 4 KiB or more {words}, half of them up to {half} and "
                    f"the largest {most} on the wire"
                )
            notes.append(f"g{counters.gpu}: {told}; transfers without a pause are one.")
    return tuple(notes)


def _runs(active: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last row of each run of true values."""
    edges = np.diff(active.astype(np.int8), prepend=np.int8(0), append=np.int8(0))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
