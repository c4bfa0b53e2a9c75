"""The one place where bandwidth is computed: GB/s, 1e9 bytes a second, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    Number = TypeVar("Number", float, FloatArray)

_BYTES_PER_GB = 1e9


def bandwidth_gbs(counted_bytes: float, seconds: float) -> float:
    """Return the bandwidth in GB/s.

    Raises
    ------
    ValueError
        If the time is not positive: such a reading is below the clock's
        resolution and has no bandwidth.

    >>> bandwidth_gbs(64 << 20, 1.2e-3)
    55.92405333333333
    """
    if not seconds > 0:
        raise ValueError(f"{seconds} s is below the clock's resolution and gives no bandwidth")
    return counted_bytes / seconds / _BYTES_PER_GB


def bandwidths_gbs(counted_bytes: FloatArray, seconds: FloatArray) -> FloatArray:
    """Return the bandwidth of each row in GB/s; not a number where no time passed."""
    import numpy as np

    positive = np.where(seconds > 0, seconds, np.nan)
    return counted_bytes / positive / _BYTES_PER_GB


def transfer_seconds(counted_bytes: Number, gbs: float) -> Number:
    """Return how long bytes take at a bandwidth in GB/s, which is above zero."""
    return counted_bytes / (gbs * _BYTES_PER_GB)


def bytes_a_second(gbs: float) -> float:
    """Return a bandwidth in GB/s as bytes a second."""
    return gbs * _BYTES_PER_GB
