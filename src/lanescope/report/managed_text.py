"""Migrations of managed memory, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.report import format as fmt
from lanescope.watch.managed import ManagedWay

#: Stands above the table.
MANAGED = "Managed memory"


def managed_rows(ways: Sequence[ManagedWay]) -> list[tuple[str, ...]]:
    """Return a heading and a row for each way; none for none."""
    if not ways:
        return []
    head = ("migrated", "migrations", "in sum", "mean size", "GPU time", "faults")
    return [head, *map(_row, ways)]


def _row(way: ManagedWay) -> tuple[str, ...]:
    faults = fmt.MISSING
    if way.faults is not None:
        faults = f"{way.faults} of {'the GPU' if way.direction == 'h2d' else 'CPUs'}"
    return (
        f"g{way.gpu} {way.direction}",
        str(way.count),
        fmt.sum_text(way.total_bytes),
        fmt.bytes_text(round(way.mean_bytes)),
        fmt.seconds_text(way.seconds),
        faults,
    )
