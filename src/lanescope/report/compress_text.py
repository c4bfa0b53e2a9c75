"""Ratios and speeds of codecs as people read them."""

from __future__ import annotations

from lanescope.model.transfer.estimate import Estimate
from lanescope.report.format import gbs_text


def estimate_text(one: Estimate) -> str:
    """Return GB/s with their interval."""
    return f"{gbs_text(one.value)} ({gbs_text(one.low)}–{gbs_text(one.high)})"


def ratio_text(ratio: float) -> str:
    """Return a ratio with three decimals, fewer where it is large."""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.4g}"
