"""What ``model fit`` shows of several GPUs that copy at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from lanescope.document.blocks import Bullets, Column, Group, Kind, Table, Text
from lanescope.machine import HostBandwidth
from lanescope.machine.part_names import part_name
from lanescope.prediction.contention import Together, expected_gbs
from lanescope.prediction.fit_run import Sets
from lanescope.prediction.parameters import Direction
from lanescope.report.format import gbs_text
from lanescope.report.tree import host_bandwidth_text

#: So many of the sets that have no numbers are named.
_NAMED = 3
_Value = str | int | float | None
_Key = tuple[int, tuple[int, ...], tuple[Direction, ...]]


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
        "spread is over all sets that were held up."
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
        Column("by this fit GB/s", Kind.GBS, "Sum"),
    )
    return Table(
        "Copies of several GPUs at once (measured)",
        columns,
        [Group(list(_rows(sets, contention)))],
    )


def _rows(
    sets: Sequence[Together], contention: Sequence[HostBandwidth]
) -> Iterator[tuple[_Value, ...]]:
    by_key: dict[_Key, list[Together]] = defaultdict(list)
    for one in sets:
        by_key[one.node, tuple(sorted(one.gpus)), tuple(sorted(one.directions))].append(one)
    for (_, gpus, ways), same in by_key.items():
        into, back = (
            float(np.median([one.gbs(way) for one in same])) if way in ways else None
            for way in Direction
        )
        sums = [one.gbs() for one in same]
        several = len(gpus) > 1
        yield (
            ", ".join(part_name("g", gpu) for gpu in gpus),
            "both" if len(ways) > 1 else ("to the GPU" if Direction.H2D in ways else "from it"),
            into,
            back,
            len(same),
            f"{gbs_text(min(sums))} to {gbs_text(max(sums))}",
            sum(expected_gbs(same[0], sets, ())) if several else None,
            sum(expected_gbs(same[0], sets, contention)) if several else None,
        )
