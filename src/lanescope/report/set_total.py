"""What copies that run at the same time carry together, in words."""

from __future__ import annotations

from collections.abc import Iterable

from lanescope.measurement.result import Result
from lanescope.report.format import gbs_text, percent_text


def total_sentences(results: Iterable[Result]) -> tuple[str, ...]:
    """Return a sentence for each set of copies that ran at the same time."""
    return tuple(_sentence(r, gbs) for r in results if (gbs := r.total_gbs) and len(r.copies) > 1)


def _sentence(result: Result, gbs: float) -> str:
    limit = result.total_limit_gbs
    share = (
        f", {percent_text(gbs / limit)} of the {gbs_text(limit)} that the links allow at once"
        if limit
        else ""
    )
    return f"{result.experiment.title}: {gbs_text(gbs)} GB/s together{share}."
