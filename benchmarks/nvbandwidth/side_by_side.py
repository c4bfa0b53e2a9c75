"""Runs all cases of lanescope and nvbandwidth in turns and compares them cell by cell.

The peer is named by path and never shipped::

    python benchmarks/nvbandwidth/side_by_side.py --peer PATH --turns 5 --out FOLDER

Both copy 512 MiB, verify the bytes and take as many samples as they do by themselves; with
``--only CASE ...`` both run these cases alone.
FOLDER gets, turn by turn, what both printed (JSON in nvbandwidth's shape) and
``cells.csv``: for each cell the median over the turns, the spread over the turns
((most - least) / median), and the ratio of the medians. Latencies are compared as
theirs / ours, so that above 1 lanescope is the better one everywhere.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

Cells = dict[tuple[str, int, int], float]

OURS = (sys.executable, "-m", "lanescope", "bench", "--format", "nvbandwidth", "--json")


def run(command: tuple[str, ...]) -> tuple[dict[str, object], float]:
    """What a command prints as JSON, and how many seconds of wall time it takes."""
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode not in (0, 1):  # 1: lanescope has found a slow path
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()}")
    return json.loads(done.stdout), seconds


def cells(report: dict[str, object]) -> Cells:
    """Every number of every matrix, by case, row and column."""
    found: Cells = {}
    for case in report["nvbandwidth"]["testcases"]:
        for row, line in enumerate(case.get("bandwidth_matrix", [])):
            for column, cell in enumerate(line):
                if cell != "N/A":
                    found[case["name"], row, column] = float(cell)
    return found


def spread(values: list[float]) -> float:
    """Share of the median between the least and the most of the turns."""
    return (max(values) - min(values)) / statistics.median(values)


def compare(ours: list[Cells], theirs: list[Cells]) -> list[dict[str, object]]:
    """A row for each cell that both have."""
    rows = []
    for key in theirs[0]:
        mine, peers = ([turn[key] for turn in side if key in turn] for side in (ours, theirs))
        if not mine:
            continue
        ratio = statistics.median(mine) / statistics.median(peers)
        rows.append(
            {
                "case": key[0],
                "row": key[1],
                "column": key[2],
                "lanescope": round(statistics.median(mine), 3),
                "lanescope_spread": round(spread(mine), 5),
                "nvbandwidth": round(statistics.median(peers), 3),
                "nvbandwidth_spread": round(spread(peers), 5),
                "ratio": round(1 / ratio if "latency" in key[0] else ratio, 5),
            }
        )
    return rows


def show(rows: list[dict[str, object]], seconds: dict[str, list[float]]) -> None:
    """Print the worst cell of each case and how long the turns took."""
    by_case = defaultdict(list)
    for row in rows:
        by_case[row["case"]].append(row)
    print(f"{'case':52}{'lanescope':>11}{'spread':>9}{'nvbandwidth':>13}{'spread':>9}{'ratio':>9}")
    for case, found in by_case.items():
        worst = min(found, key=lambda row: row["ratio"])
        print(
            f"{case:52}{worst['lanescope']:11.2f}{worst['lanescope_spread']:9.2%}"
            f"{worst['nvbandwidth']:13.2f}{worst['nvbandwidth_spread']:9.2%}{worst['ratio']:9.4f}"
        )
    print(f"the cell with the lowest ratio of each case; {len(rows)} cells in all")
    for name, times in seconds.items():
        print(
            f"{name}: {statistics.median(times):.2f} s of wall time, {min(times):.2f} to "
            f"{max(times):.2f} over {len(times)} turns"
        )


def main() -> None:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    only = ("-t", *arguments.only) if arguments.only else ()
    ours = (*OURS, *(word for case in arguments.only for word in ("-t", case)))
    commands = {"lanescope": ours, "nvbandwidth": (str(arguments.peer), "-j", *only)}
    found, seconds = defaultdict(list), defaultdict(list)
    for turn in range(1, arguments.turns + 1):
        for name, command in commands.items():
            report, took = run(command)
            (arguments.out / f"{name}-{turn}.json").write_text(json.dumps(report, indent=1))
            found[name].append(cells(report))
            seconds[name].append(took)
        rows = compare(found["lanescope"], found["nvbandwidth"])
        store(rows, seconds, arguments.out)
    show(rows, seconds)


def store(rows: list[dict[str, object]], seconds: dict[str, list[float]], out: Path) -> None:
    """Write what the turns so far found, so that it is there however this ends."""
    with (out / "cells.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (out / "seconds.json").write_text(json.dumps(seconds, indent=1))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True, help="nvbandwidth's binary")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="default: all")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
