"""The one place where bandwidth is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def bandwidth_gbs(counted_bytes: float, seconds: float) -> float:
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


def bandwidths_gbs(
    counted_bytes: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the bandwidth of each row in GB/s; not a number where no time passed."""
    import numpy as np

    positive = np.where(seconds > 0, seconds, np.nan)
    return counted_bytes / positive / 1e9
