"""The one place where bandwidth is computed."""

from __future__ import annotations


def bandwidth_gbs(counted_bytes: int, seconds: float) -> float:
    """Return the bandwidth in GB/s (1e9 bytes a second).

    Raises
    ------
    ValueError
        If the time is not positive: such a reading is below the clock's
        resolution and has no bandwidth.
    """
    if not seconds > 0:
        raise ValueError(f"{seconds} s is below the clock's resolution and gives no bandwidth")
    return counted_bytes / seconds / 1e9
