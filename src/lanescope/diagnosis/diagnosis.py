"""How the numbers of diagnoses are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: A list of more names than this is cut: nobody reads it to the end.
_MOST_NAMES = 8


def names(parts: Iterable[str], last: str = "and") -> str:
    """Return names as a list in words: ``g0, g1 and g2``."""
    listed = list(parts)
    if len(listed) > _MOST_NAMES:
        listed = [*listed[: _MOST_NAMES - 1], f"{len(listed) - _MOST_NAMES + 1} more"]
    return f" {last} ".join(p for p in (", ".join(listed[:-1]), *listed[-1:]) if p)


def percent_below(gbs: float, reference_gbs: float) -> str:
    """Return how far a rate is below another, such as ``12 %``."""
    return f"{(1 - gbs / reference_gbs) * 100:.0f} %"


def in_order(parts: Iterable[str]) -> tuple[str, ...]:
    """Return parts once each, by letter and number: ``g2`` before ``g10``."""
    return tuple(sorted(set(parts), key=lambda part: (part.rstrip("0123456789"), len(part), part)))


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the first lines of evidence, and how many more there are."""
    if len(lines) <= _MOST_NAMES:
        return tuple(lines)
    return (*lines[: _MOST_NAMES - 1], f"and {len(lines) - _MOST_NAMES + 1} more like these")
