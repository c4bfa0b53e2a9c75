"""Spreads series over panels so that none holds more curves than can be told apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

#: More curves than this in a panel cannot be told apart.
MOST_CURVES = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Panel(Generic[T]):
    """Some series that are drawn together.

    Attributes
    ----------
    fixed
        Of the fields that vary between panels, the values of this one.
    varying
        Fields that tell its curves apart, the most telling one first.
    """

    fixed: dict[str, Hashable]
    varying: tuple[str, ...]
    members: tuple[T, ...]


def panels(
    series: Sequence[T],
    order: Sequence[str],
    value: Callable[[T, str], Hashable],
    apart: Sequence[str] = (),
    most: int = MOST_CURVES,
) -> tuple[Panel[T], ...]:
    """Return panels that hold all series, each once.

    Parameters
    ----------
    order
        Every field that may tell series apart, those first that a panel should
        compare. As many as fit are curves of one panel; the others make panels.
    value
        Returns a field of a series.
    apart
        Fields whose values never share a panel.
    """
    live = [f for f in order if len({value(s, f) for s in series}) > 1]
    inside: list[str] = []
    for field in (f for f in live if f not in apart):
        if _curves(series, apart, [*inside, field], value) <= most:
            inside.append(field)
    outside = [f for f in live if f not in inside]
    found: dict[tuple[Hashable, ...], list[T]] = defaultdict(list)
    for one in series:
        found[tuple(value(one, f) for f in outside)].append(one)
    return tuple(
        Panel(
            dict(zip(outside, key, strict=True)), _telling(members, inside, value), tuple(members)
        )
        for key, members in found.items()
    )


def _curves(
    series: Sequence[T],
    apart: Sequence[str],
    fields: Sequence[str],
    value: Callable[[T, str], Hashable],
) -> int:
    """The most curves that a panel of one set of values `apart` would have."""
    found: dict[Hashable, set[Hashable]] = defaultdict(set)
    for one in series:
        key = tuple(value(one, f) for f in apart)
        found[key].add(tuple(value(one, f) for f in fields))
    return max(map(len, found.values()))


def _telling(
    members: Sequence[T], fields: Sequence[str], value: Callable[[T, str], Hashable]
) -> tuple[str, ...]:
    """The fewest of the first fields that tell a panel's curves apart; one at least, for names."""
    telling: list[str] = []
    for field in fields:
        if _curves(members, (), [*telling, field], value) > _curves(members, (), telling, value):
            telling.append(field)
    return tuple(telling) or tuple(fields[:1])
