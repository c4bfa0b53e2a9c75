"""The type of a diagnosis, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: A list of more names than this is cut: nobody reads it to the end.
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A likely cause for what a run has shown.

    Attributes
    ----------
    kind
        Stable identifier: ``trained-down``, ``far-numa``, ``slow-gpu``, ``slow-pair``,
        ``host-memory-bound``, ``staged-through-host``, ``iommu-or-acs`` or
        ``asymmetric-opposing``.
    sentence
        What is wrong, in plain words, with the parts named.
    evidence
        The numbers that show it, a line each.
    confirm
        Shell command that confirms it.
    remedy
        What to do.
    parts
        The parts of the machine at fault or affected, such as ``("g1",)``.
    fault
        Whether a part is worse than it should be, so that a check fails; otherwise
        it is how this machine is built, and to be counted on.
    """

    kind: str
    sentence: str
    evidence: tuple[str, ...]
    confirm: str
    remedy: str
    parts: tuple[str, ...]
    fault: bool


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
