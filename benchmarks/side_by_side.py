"""Runs lanescope and its peers in turns on this machine and compares the numbers.

Peers are named by path and never shipped::

    python benchmarks/side_by_side.py --nvbandwidth PATH --stream PATH --out FILE.json

nvbandwidth: host to device and device to host by copy engine, 512 MiB, its default of
three samples a turn. STREAM: copy and triad with as many threads as there are cores and
with one, on arrays of the size it was compiled for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
from collections import defaultdict
from pathlib import Path

import lanescope
from lanescope import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.studies.check import check_experiments
from lanescope.studies.running import backend_for
from lanescope.units.sizes import bandwidth_gbs

Series = dict[str, list[float]]

NVBANDWIDTH_CASES = {
    "host_to_device_memcpy_ce": "h2d",
    "device_to_host_memcpy_ce": "d2h",
    "device_to_device_memcpy_write_ce": "d2d",
}


def nvbandwidth(binary: Path) -> Series:
    """Each cell of the matrices, as ``h2d/g0`` and ``d2d/g0-g1``, GB/s."""
    command = [str(binary), "-j", "-t", *NVBANDWIDTH_CASES]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: Series = defaultdict(list)
    for case in json.loads(text)["nvbandwidth"]["testcases"]:
        short = NVBANDWIDTH_CASES[case["name"]]
        for row, cells in enumerate(case.get("bandwidth_matrix", [])):
            for column, cell in enumerate(cells):
                if cell != "N/A":
                    # host cases have one row; between devices the column writes to the row
                    direction = f"g{column}-g{row}" if short == "d2d" else f"g{column}"
                    found[f"{short}/{direction}"].append(float(cell))
    return found


def stream_elements(binary: Path) -> int:
    """Elements of an array that STREAM was compiled for."""
    text = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"Array size = (\d+)", text)[1])


def stream(binary: Path, threads: int) -> Series:
    """Best rates of copy and triad in GB/s."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}
    text = subprocess.run(
        [str(binary)], capture_output=True, text=True, check=True, env=environment
    ).stdout
    rates = dict(re.findall(r"^(Copy|Triad): +([\d.]+)", text, re.M))
    return {f"{name.lower()}/{threads}": [float(rate) / 1e3] for name, rate in rates.items()}


def host_experiment(operation: Operation, cpus: tuple[int, ...], size: int) -> Experiment:
    """The same copy or triad as STREAM's, on node 0."""
    place = Place("h0", Memory.PAGEABLE)
    copy = Copy(place, place, size, Engine.CPU, operation, cpus)
    name = f"{operation}/{len(cpus)}"
    return Experiment(name, name, (copy,), Timing.HOST)


def main() -> None:
    arguments = _arguments()
    machine = lanescope.discover()
    backend = backend_for(machine)
    ours: dict[str, Series] = {"median": defaultdict(list), "best": defaultdict(list)}
    theirs: Series = defaultdict(list)
    experiments = []
    if arguments.nvbandwidth:
        experiments += [
            e for e in check_experiments(machine) if e.name.split("/")[0] in ("h2d", "d2h", "d2d")
        ]
    cores = tuple(core[0] for core in machine.nodes[0].cores)
    if arguments.stream:
        size = 8 * stream_elements(arguments.stream)
        experiments += [
            host_experiment(operation, cpus, size)
            for operation in Operation
            for cpus in ((cores[:1], cores) if len(cores) > 1 else (cores,))
        ]
    for _ in range(arguments.turns):
        for experiment in experiments:
            (copy,) = lanescope.measure(experiment, machine, backend=backend).copies
            ours["median"][experiment.name].append(copy.gbs)
            best = bandwidth_gbs(copy.copy.counted_bytes, copy.statistics.min_seconds)
            ours["best"][experiment.name].append(best)
        peers = [nvbandwidth(arguments.nvbandwidth)] if arguments.nvbandwidth else []
        if arguments.stream:
            peers += [stream(arguments.stream, n) for n in sorted({1, len(cores)})]
        for peer in peers:
            for name, values in peer.items():
                theirs[name] += values
    rows = [_row(name, ours, theirs[name]) for name in ours["median"] if theirs[name]]
    arguments.out.write_text(json.dumps({"turns": arguments.turns, "rows": rows}, indent=1))
    _print(rows)


def _row(name: str, ours: dict[str, Series], theirs: list[float]) -> dict[str, object]:
    # STREAM prints its best, nvbandwidth its median of three: compare like with like
    statistic = "best" if name.split("/")[0] in ("copy", "triad") else "median"
    mine = ours[statistic][name]
    return {
        "case": name,
        "statistic": statistic,
        "lanescope_gbs": mine,
        "peer_gbs": theirs,
        "ratio_of_medians": statistics.median(mine) / statistics.median(theirs),
    }


def _print(rows: list[dict[str, object]]) -> None:
    print(f"{'case':14}{'lanescope':>11}{'spread':>18}{'peer':>10}{'spread':>18}{'ratio':>9}")
    for row in rows:
        cells = [f"{row['case']:14}"]
        for values, width in ((row["lanescope_gbs"], 11), (row["peer_gbs"], 10)):
            spread = f"{min(values):.2f}-{max(values):.2f}"
            cells.append(f"{statistics.median(values):>{width}.2f}{spread:>18}")
        print("".join(cells) + f"{row['ratio_of_medians']:>9.4f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvbandwidth", type=Path)
    parser.add_argument("--stream", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
