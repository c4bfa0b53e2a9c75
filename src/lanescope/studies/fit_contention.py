"""What ``model fit`` shows of several GPUs that copy at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lanescope.document.blocks import Bullets, Column, Group, Kind, Table, Text
from lanescope.machine import HostBandwidth
from lanescope.machine.part_names import part_name
from lanescope.prediction.contention import Together, expected_gbs, key_of
from lanescope.prediction.fit_run import Sets
from lanescope.prediction.parameters import Direction
from lanescope.report.format import gbs_text
from lanescope.report.tree import host_bandwidth_text

#: So many of the sets that have no numbers are named.
_NAMED = 3
_Value = str | int | float | None


def contention_blocks(
    sets: Sets, contention: Sequence[HostBandwidth]
) -> list[Table | Text | Bullets]:
    """Return the rates of all sets, what is expected of them, and what GPUs contend for."""
    found: list[Table | Text | Bullets] = [_table(sets.sets, contention)] if sets.sets else []
    sentences = [contention_text(one) for one in contention]
    if sets.sets and not sentences:
        sentences = ["No set of GPUs got less than each of them alone: they contend for nothing."]
    found += [Text(sentence) for sentence in sentences]
    if sets.failed:
        few = len(sets.failed) == 1
        missing = "One set has no numbers" if few else f"{len(sets.failed)} sets have no numbers"
        found.append(Text(f"{missing}; run the fit again when nobody else uses the machine:"))
        found.append(Bullets([f"{one.title}: {one.why}" for one in sets.failed[:_NAMED]]))
    return found


def contention_text(one: HostBandwidth) -> str:
    """Return what some GPUs contend for, in a sentence."""
    shared = (
        ""
        if one.both_gbs is None
        else f"; both ways a copy to it gets {one.write_weight:.2f} times as much as one from it"
    )
    return (
        f"The memory of {part_name('h', one.node)}, {host_bandwidth_text(one)}{shared}. The "
        "copies of a new run are expected within the spread in 95 of 100 cases, all together."
    )


def _table(sets: Sequence[Together], contention: Sequence[HostBandwidth]) -> Table:
    columns = (
        Column("GPUs"),
        Column("directions"),
        Column("to the GPUs GB/s", Kind.GBS, "Sum, median of all rounds"),
        Column("from them GB/s", Kind.GBS, "Sum, median of all rounds"),
        Column("rounds", Kind.COUNT),
        Column("most and least, sum GB/s", Kind.FIGURES),
        Column("without contention GB/s", Kind.GBS, "What each gets alone, in sum"),
        Column("by this fit, sum GB/s", Kind.FIGURES, "With the spread"),
    )
    return Table(
        "Copies of several GPUs at once (measured)",
        columns,
        [Group(list(_rows(sets, contention)))],
    )


def _rows(
    sets: Sequence[Together], contention: Sequence[HostBandwidth]
) -> Iterator[tuple[_Value, ...]]:
    by_key: dict[object, list[Together]] = defaultdict(list)
    for one in sets:
        by_key[one.node, key_of(one)].append(one)
    for same in by_key.values():
        first = same[0]
        into, back = (
            float(np.median([one.gbs(way) for one in same])) if way in first.directions else None
            for way in Direction
        )
        sums = [one.gbs() for one in same]
        several = len(first.gpus) > 1
        yield (
            _names(first.gpus),
            _directions(first),
            into,
            back,
            len(same),
            f"{gbs_text(min(sums))} to {gbs_text(max(sums))}",
            sum(expected_gbs(first, sets, ())) if several else None,
            _fitted(first, sets, contention) if several else None,
        )


def _names(gpus: Iterable[int]) -> str:
    return ", ".join(part_name("g", gpu) for gpu in sorted(gpus))


def _directions(one: Together) -> str:
    into, back = ({r.gpu for r in one.rates if r.direction is way} for way in Direction)
    if into == back:
        return "both"
    if into and back:
        return f"to {_names(into)}; from {_names(back)}"
    return "to the GPU" if into else "from it"


def _fitted(one: Together, sets: Sequence[Together], contention: Sequence[HostBandwidth]) -> str:
    """Return the sum that is expected, with the spread where anything may hold it up."""
    alone = sum(expected_gbs(one, sets, ()))
    gbs = sum(expected_gbs(one, sets, contention))
    spread = max((c.spread for c in contention if len(one.gpus & set(c.gpus)) > 1), default=0.0)
    low, high = gbs * (1 - spread), min(gbs * (1 + spread), alone)
    return f"{gbs_text(gbs)} ({gbs_text(low)} to {gbs_text(high)})"
