"""What watching costs a program: with and without it in turns.

::

    python benchmarks/watch/cost.py --turns 10 --out FILE.json -- PROGRAM [ARGUMENTS]...

The program prints when its work began and ended, as ``python -m lanescope.examples ... --json``
and ``benchmarks/watch/training.py`` do, so that neither its start nor lanescope's counts. FILE
gets every time, and for each way of watching the median slowdown against the turn's own unwatched
run with a 95 % interval of the median (order statistics).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.results.statistics import median_interval

DIRECTIONS: dict[str, list[str] | None] = {
    "none": None,
    "default": [],
    "pm-100khz": ["--source", "pm", "--interval", "10us"],
    "trace": ["--source", "trace"],
    "kernels": ["--source", "trace", "--kernels"],
    "counters": ["--source", "counters"],
    "probe": ["--source", "probe"],
    "probe-gentle": ["--source", "probe", "--gentle"],
}


def seconds(program: list[str], direction: list[str] | None) -> float:
    """Run the program once and return how long its work took, by its own account."""
    with tempfile.TemporaryDirectory() as folder:
        watch = [sys.executable, "-m", "lanescope", "watch", "-q", "--out", f"{folder}/run"]
        command = program if direction is None else [*watch, *direction, "--", *program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    steps = json.loads(done.stdout.strip().splitlines()[-1])["steps"]
    return float((steps[-1]["end_ns"] - steps[0]["begin_ns"]) * 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--ways", nargs="+", choices=list(DIRECTIONS), default=["none", "default"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="after --")
    arguments = parser.parse_args()
    program = [word for word in arguments.program if word != "--"]
    times: dict[str, list[float]] = {
        direction: [] for direction in dict.fromkeys(["none", *arguments.directions])
    }
    for turn in range(arguments.turns):
        order = list(times) if turn % 2 == 0 else list(times)[::-1]
        for direction in order:
            times[direction].append(seconds(program, DIRECTIONS[direction]))
        # after every turn: one that is stopped early leaves what it has measured
        _write(arguments.out, program, times)
    for direction, slower in slowdowns(times).items():
        low, high = slower["interval"]
        print(f"{direction}: {slower['median']:+.2%} ({low:+.2%} to {high:+.2%})")
    print(f"none: {statistics.median(times['none']):.4f} s")


def slowdowns(times: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Return the median slowdown of each way against its own turn's unwatched run."""
    found = {}
    for direction in (direction for direction in times if direction != "none"):
        ratios = [b / a - 1 for a, b in zip(times["none"], times[direction], strict=True)]
        found[direction] = {
            "median": statistics.median(ratios),
            "interval": median_interval(np.array(ratios)),
        }
    return found


def _write(out: Path, program: list[str], times: dict[str, list[float]]) -> None:
    told = {"program": program, "seconds": times, "slowdown": slowdowns(times)}
    out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
