"""In which steps a kernel begins that waits for a copy on its stream.

``python benchmarks/model/one_stream.py FILE.csv...`` takes what benchmarks/model/one_stream.cu
printed: the time of a copy to the GPU and an empty kernel behind it, both queued before the copy
begins. It prints the period of the grid on which these times lie best, how far they are from it,
and, for a round of one copy each way and a kernel, how far apart runs of the same size are.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

#: Shorter copies are not moved by an engine.
LEAST_BYTES = 64 << 10
PERIODS_US = np.arange(4.0, 12.0, 0.01)
ONE_EACH_WAY = ("1", "1", "1", "1")


def main() -> None:
    """Print the grid of each file's machine."""
    for name in sys.argv[1:]:
        rows = list(csv.DictReader(Path(name).read_text().splitlines()))
        waited = times(rows, "queued", ("1", "0", "1", "1"))
        off = np.array([distances(waited, period) for period in PERIODS_US])
        best = int(np.abs(off).mean(1).argmin())
        most = np.percentile(np.abs(off[best]), 90)
        print(
            f"{name}: of {len(waited)} medians, {waited.min():.0f} to {waited.max():.0f} us, 90 % "
            f"lie within {most:.2f} us of a grid of {PERIODS_US[best]:.2f} us"
        )
        print("  one copy each way and a kernel, KiB: medians of rounds, 10th to 90th percentiles")
        for size, *ends in spreads(rows):
            print(f"  {size >> 10}:", "{:.1f} to {:.1f}, {:.1f} to {:.1f} us".format(*ends))


def times(rows: list[dict[str, Any]], what: str, pattern: tuple[str, ...]) -> np.ndarray:
    """Return the medians of a pattern, in microseconds."""
    those = [
        row
        for row in rows
        if (row["what"], *pattern_of(row)) == (what, *pattern) and int(row["bytes"]) >= LEAST_BYTES
    ]
    return np.array([float(row["us"]) for row in those])


def pattern_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return copies in, copies back, whether a kernel is between, whether all on one stream."""
    return row["in"], row["out"], row["kernel"], row["one_stream"]


def distances(found: np.ndarray, period: float) -> np.ndarray:
    """Return how far times are from the nearest point of a grid that lies best for them."""
    turned = np.exp(2j * np.pi * found / period).mean()
    begin = np.angle(turned) / (2 * np.pi) * period
    return (found - begin + period / 2) % period - period / 2


def spreads(rows: list[dict[str, Any]]) -> list[tuple[int, float, float, float, float]]:
    """Return by size the least and the most of the rounds' medians and of their percentiles."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["what"] == "whole" and pattern_of(row) == ONE_EACH_WAY:
            found.setdefault(int(row["bytes"]), []).append(row)
    ends = (("us", min), ("us", max), ("p10", min), ("p90", max))
    return [
        (size, *(most(float(row[name]) for row in those) for name, most in ends))
        for size, those in sorted(found.items())
        if size >= LEAST_BYTES
    ]


if __name__ == "__main__":
    main()
