"""What curves over numbers of SMs say, in words."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.model.sms import FULL_SHARE, SmCurve, SmPoint
from lanescope.report.format import bytes_text, count_text, gbs_text, percent_text

EXPLANATION = (
    "Of each number of SMs the best of several kernels is shown: loads and stores, or bulk copies "
    "through shared memory, with a pace where that helps. The plateau is the best of all numbers; "
    f"{FULL_SHARE * 100:.0f} % of it counts as full."
)


def curve_sentence(curve: SmCurve) -> str:
    """Return how few SMs are enough, and how to run that again."""
    best = curve.fewest
    return (
        f"{curve.title}: {count_text(best.sms, 'SM')} carry {gbs_text(best.gbs)} GB/s, "
        f"{percent_text(best.gbs / curve.plateau_gbs)} of the {gbs_text(curve.plateau_gbs)} that "
        f"any number reaches, by {kernel_text(best)}: lanescope copy '{best.command}'"
    )


def sms_conclusion(curves: Sequence[SmCurve]) -> str:
    """Return the fewest SMs of all paths in one sentence."""
    counts = ", ".join(f"{curve.title}: {curve.fewest.sms}" for curve in curves)
    return f"SMs that carry {FULL_SHARE * 100:.0f} % of what kernels can. {counts}."


def kernel_text(point: SmPoint) -> str:
    """Return how a kernel copies, in a few words."""
    chunk = point.copy.chunk_bytes
    how = f"bulk copies of {bytes_text(chunk)}" if chunk else "loads and stores"
    pace = point.copy.pace_gbs
    return how if pace is None else f"{how} at a pace of {gbs_text(pace)} GB/s"
