"""What a probe found: how long small copies over a GPU's link took, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lanescope.trace.codes import BoolArray, FloatArray, IntArray
from lanescope.units.bandwidth import bandwidths_gbs

#: Names of directions; their places are the numbers in `Probe.direction`.
PROBE_DIRECTIONS = ("h2d", "d2h")
#: Bytes of the copy whose time is the delay.
DELAY_BYTES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Copies over the link of one GPU, record by record: a short one, then a long one.

    Times are by the host's clock, from the call until the copy was seen to have ended.

    Attributes
    ----------
    gpu
        The machine's number of the GPU.
    chunk_bytes
        Of the long copy.
    period_ns
        From round to round, as asked for; 0 is without a pause.
    begin_ns
        Begin of the short copy, nanoseconds since 1970; it grows.
    delay_ns, copy_ns
        How long the short copy took, and the long one behind it.
    direction
        0 to the GPU, 1 from it; see `PROBE_DIRECTIONS`.
    cpu_seconds
        Processor time that the probe took; None when unknown.
    """

    gpu: int
    chunk_bytes: int
    period_ns: int
    begin_ns: IntArray
    delay_ns: IntArray
    copy_ns: IntArray
    direction: IntArray
    cpu_seconds: float | None = None

    def __len__(self) -> int:
        return int(self.begin_ns.size)

    @property
    def end_ns(self) -> IntArray:
        """End of each long copy, nanoseconds since 1970."""
        return self.begin_ns + self.delay_ns + self.copy_ns

    @property
    def gbs(self) -> FloatArray:
        """Bandwidth of each long copy in GB/s; not a number where no time passed."""
        sizes = np.full(len(self), self.chunk_bytes, np.float64)
        return bandwidths_gbs(sizes, self.copy_ns.astype(np.float64) * 1e-9)

    def rows(self, chosen: slice | BoolArray) -> Probe:
        """Return some of the records."""
        return Probe(
            self.gpu,
            self.chunk_bytes,
            self.period_ns,
            self.begin_ns[chosen],
            self.delay_ns[chosen],
            self.copy_ns[chosen],
            self.direction[chosen],
            self.cpu_seconds,
        )

    def bytes_between(self, start_ns: int, end_ns: int) -> int:
        """Return the bytes of the records that lie between two times."""
        whole = (self.begin_ns >= start_ns) & (self.end_ns <= end_ns)
        return int(whole.sum()) * (self.chunk_bytes + DELAY_BYTES)

    def one_direction(self, direction: int) -> Probe:
        """Return the records of one direction."""
        return self.rows(self.direction == direction)

    @classmethod
    def of(cls, *, gpu: int = 0, chunk_bytes: int, period_ns: int = 0, **columns: Any) -> Probe:
        """Make one of columns that are anything numpy takes."""
        arrays: dict[str, Any] = {
            name: np.asarray(values, np.int64) for name, values in columns.items()
        }
        return cls(gpu=gpu, chunk_bytes=chunk_bytes, period_ns=period_ns, **arrays)
