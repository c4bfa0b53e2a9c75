"""Runs two versions of lanescope in turns on this machine and compares each cell and the time.

::

    python benchmarks/versions.py --before FOLDER --after FOLDER --turns 3 --out FILE.json

Each FOLDER is what ``pip install --target FOLDER`` made. A cell is a copy of an experiment of
``bench`` or ``check``; told are the ratios of its medians over the turns, after by before, and
the wall time of each run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

VERBS = ("bench", "check")


def run(folder: Path, verb: str) -> tuple[dict[str, float], float, int]:
    """Return GB/s by cell, seconds of wall time, and the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        command = [sys.executable, "-m", "lanescope", verb, "--json", "--out", str(out)]
        environment = os.environ | {"PYTHONPATH": str(folder)}
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        lasted = time.perf_counter() - begun
    try:
        rows = json.loads(done.stdout)["results"]
    except ValueError:
        raise SystemExit(
            f"{verb} of {folder} ended with {done.returncode}: {done.stderr}"
        ) from None
    cells = {f"{row['experiment']} {row['copy']}": row["gbs"] for row in rows if row["gbs"]}
    return cells, lasted, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    sides = {"before": asked.before, "after": asked.after}
    found: dict[str, dict] = {}
    for verb in VERBS:
        cells: dict[str, dict[str, list[float]]] = {side: defaultdict(list) for side in sides}
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        codes: dict[str, list[int]] = {side: [] for side in sides}
        for turn in range(asked.turns):
            order = sides if turn % 2 == 0 else dict(reversed(sides.items()))
            for side, folder in order.items():
                gbs, lasted, code = run(folder, verb)
                seconds[side].append(round(lasted, 2))
                codes[side].append(code)
                for cell, value in gbs.items():
                    cells[side][cell].append(value)
        both = cells["before"].keys() & cells["after"].keys()
        ratios = {
            cell: statistics.median(cells["after"][cell]) / statistics.median(cells["before"][cell])
            for cell in sorted(both)
        }
        found[verb] = {
            "seconds": seconds,
            "exit_codes": codes,
            "cells": len(both),
            "only_before": sorted(cells["before"].keys() - both),
            "only_after": sorted(cells["after"].keys() - both),
            "median_ratio": statistics.median(ratios.values()),
            "gbs": {cell: {side: cells[side][cell] for side in sides} for cell in ratios},
        }
        spread = sorted(ratios.values())
        within = sum(abs(ratio - 1) <= 0.01 for ratio in spread)
        print(
            f"{verb}: {len(ratios)} cells, after over before {spread[0]:.3f} to {spread[-1]:.3f}, "
            f"median {found[verb]['median_ratio']:.4f}, {within} within 1 %; seconds {seconds}; "
            f"exit codes {codes}"
        )
        for cell, ratio in sorted(ratios.items(), key=lambda one: one[1])[:6]:
            print(f"  {cell}: {ratio:.3f} {cells['before'][cell]} -> {cells['after'][cell]}")
    asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
