"""What a chart does not show, and why: its notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from lanescope.measurement.result import Verdict
from lanescope.model.taruc.contended import Scaling
from lanescope.model.taruc.points import Series
from lanescope.report.format import bytes_text, count_text

_MOST_NAMES = 2
_MOST_REASONS = 3


def point_notes(series: Sequence[Series], *, rates: bool) -> tuple[str, ...]:
    """Return notes on points that are unresolved or were not measured.

    Parameters
    ----------
    rates
        Whether the chart shows bandwidths, which unresolved points do not have.
    """
    points = [p for s in series for p in s.points]
    unresolved = [p.bytes for p in points if p.unresolved]
    notes = []
    if unresolved:
        count = count_text(len(unresolved), "point")
        up_to = bytes_text(max(unresolved))
        verb = "is" if len(unresolved) == 1 else "are"
        what = f"{verb} left out" if rates else f"{verb} hollow"
        notes.append(
            f"{count} of up to {up_to} {what}: reading the clock takes more than 5 % of the time."
        )
    return (*notes, *_missing((p.experiment, p.verdict) for p in points if p.measured is None))


def step_notes(scalings: Sequence[Scaling]) -> tuple[str, ...]:
    """Return notes on the steps of scalings that were not measured."""
    return _missing(
        (s.experiment, s.not_measured)
        for scaling in scalings
        for s in scaling.steps
        if s.not_measured is not None
    )


def _missing(found: Iterable[tuple[str, Verdict]]) -> tuple[str, ...]:
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, verdict in found:
        if name not in reasons[verdict.reason]:
            reasons[verdict.reason].append(name)
    notes = [_note(reason, names) for reason, names in reasons.items()]
    if len(notes) > _MOST_REASONS:
        more = count_text(len(notes) - _MOST_REASONS, "more reason")
        notes = [*notes[:_MOST_REASONS], f"And {more} for what was not measured."]
    return tuple(notes)


def _note(reason: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    end = "" if reason.endswith(".") else "."
    return f"Not measured: {', '.join(names[:_MOST_NAMES])}{more}: {reason}{end}"
