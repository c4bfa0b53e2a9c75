"""How the curves of a panel are called and told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from lanescope.model.taruc.panels import Panel
from lanescope.model.taruc.words import field_text

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
