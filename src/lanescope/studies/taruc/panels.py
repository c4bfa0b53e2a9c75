"""How the curves of a panel are called and told apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from lanescope.report.format import bytes_text, count_text
from lanescope.results.result import Verdict
from lanescope.studies.taruc.contended import Scaling
from lanescope.studies.taruc.points import Series
from lanescope.studies.taruc.views import Panel
from lanescope.studies.taruc.words import field_text

T = TypeVar("T")
Value = Callable[[T, str], Hashable]


def styled(panel: Panel[T], value: Value[T]) -> Iterable[tuple[T, str, int, int]]:
    """Return each series of a panel with its name, colour and dash.

    Curves of one colour have the most telling field in common, curves of one dash
    all others.
    """
    colours: dict[Hashable, int] = {}
    dashes: dict[Hashable, int] = {}
    for series in panel.members:
        first, *rest = [value(series, f) for f in panel.varying] or [None]
        colour = colours.setdefault(first, len(colours))
        dash = dashes.setdefault(tuple(rest), len(dashes))
        words = (field_text(f, value(series, f)) for f in panel.varying)
        yield series, ", ".join(w for w in words if w) or "all", colour, dash


def common_text(order: Sequence[str], panel: Panel[T], value: Value[T]) -> str:
    """Return what all curves of a panel have in common, in words."""
    fields = [f for f in order if len({value(s, f) for s in panel.members}) == 1]
    words = [field_text(f, found) for f in fields if (found := value(panel.members[0], f))]
    text = ", ".join(dict.fromkeys(words))
    return text[:1].upper() + text[1:] if not re.match(r"[hg][0-9]", text) else text


def slugs(values: Iterable[Hashable]) -> list[str]:
    """Return values as parts of a file's name."""
    texts = (re.sub(r"[^a-z0-9+.]+", "-", str(v).lower().replace("⇄", "and")) for v in values)
    return [text.strip("-") or "any" for text in texts]


def lowered(title: str) -> str:
    """Return a title as it stands within another."""
    return title[:1].lower() + title[1:]


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
