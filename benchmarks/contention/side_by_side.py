"""Copy and triad by ever more threads, with lanescope and with STREAM in turns.

The peer is named by path and never shipped::

    python benchmarks/contention/side_by_side.py --stream PATH --array 640MB --turns 3 --out FOLDER

lanescope measures the points ``contention/memory/h0`` of its suite: an array of its own for
each thread, all threads at once, the sum of their medians. ``--array`` is the size of one of
STREAM's arrays (8 bytes times its STREAM_ARRAY_SIZE), which our threads share out equally.
STREAM prints the best of its passes over one array that all threads share. FOLDER gets
``turns.json`` with every reading and ``threads.csv``: the median over the turns for each
operation and number of threads, the spread over the turns ((most - least) / median), and of
each tool its best number of threads.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import lanescope
from lanescope import Experiment
from lanescope.engine.sampling import Plan
from lanescope.studies.running import backend_for
from lanescope.studies.taruc.parameters import ContentionParameters
from lanescope.studies.taruc.plan_contention import memory_points
from lanescope.units.sizes import parse_size

sys.path.insert(0, str(Path(__file__).parents[1]))
from side_by_side import stream

OPERATIONS = ("copy", "triad")
PLAN = Plan(target=0.005, budget_seconds=0.5)

#: GB/s of each turn, by operation and number of threads.
Readings = dict[tuple[str, int], list[float]]


def points(machine: lanescope.Machine, array_bytes: int) -> list[tuple[str, int, Experiment]]:
    """The suite's points of node 0 with other sizes: operation, number of threads, experiment."""
    found = []
    for experiment in memory_points(machine.nodes[:1], ContentionParameters()):
        operation, threads = str(experiment.copies[0].operation), len(experiment.copies)
        if operation in OPERATIONS:
            mine = array_bytes // threads // 8 * 8
            copies = tuple(replace(copy, bytes=mine) for copy in experiment.copies)
            found.append((operation, threads, replace(experiment, copies=copies)))
    return found


def measure(
    machine: lanescope.Machine, peer: Path, array_bytes: int, turns: int
) -> tuple[Readings, Readings]:
    backend = backend_for(machine)
    ours: Readings = defaultdict(list)
    theirs: Readings = defaultdict(list)
    for _ in range(turns):
        for operation, threads, experiment in points(machine, array_bytes):
            result = lanescope.measure(experiment, machine, backend=backend, plan=PLAN)
            if result.total_gbs is not None:
                ours[operation, threads].append(result.total_gbs)
        for threads in sorted({threads for _, threads in ours}):
            for name, rates in stream(peer, threads).items():
                theirs[name.partition("/")[0], threads] += rates
    return ours, theirs


def rows(ours: Readings, theirs: Readings) -> list[dict[str, object]]:
    return [
        {
            "operation": operation,
            "threads": threads,
            "lanescope_gbs": round(statistics.median(mine), 2),
            "lanescope_spread": round(spread(mine), 4),
            "stream_gbs": round(statistics.median(theirs[operation, threads]), 2),
            "stream_spread": round(spread(theirs[operation, threads]), 4),
        }
        for (operation, threads), mine in sorted(ours.items())
    ]


def spread(values: list[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


def best(table: list[dict[str, object]], operation: str, column: str) -> tuple[float, int]:
    mine = [row for row in table if row["operation"] == operation]
    row = max(mine, key=lambda r: r[column])
    return row[column], row["threads"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stream", type=Path, required=True, help="STREAM's binary")
    parser.add_argument("--array", required=True, help="size of one of its arrays, such as 640MB")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    array_bytes = parse_size(arguments.array)
    ours, theirs = measure(lanescope.discover(), arguments.stream, array_bytes, arguments.turns)
    table = rows(ours, theirs)
    with (arguments.out / "threads.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    named = {
        tool: {f"{o}/{n}": v for (o, n), v in readings.items()}
        for tool, readings in (("lanescope", ours), ("stream", theirs))
    }
    (arguments.out / "turns.json").write_text(json.dumps(named, indent=1))
    for operation in OPERATIONS:
        mine, peer = (best(table, operation, f"{t}_gbs") for t in ("lanescope", "stream"))
        print(
            f"{operation}: lanescope {mine[0]} GB/s with {mine[1]} threads, "
            f"STREAM {peer[0]} with {peer[1]}: ratio {mine[0] / peer[0]:.3f}"
        )


if __name__ == "__main__":
    main()
