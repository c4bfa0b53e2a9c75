"""What watching costs a program: with and without it in turns.

::

    python benchmarks/watch/cost.py --turns 7 --methods none default trace --out FILE.json \
        [--processes N] -- PROGRAM [ARGUMENTS]...

The program prints when its work began and ended (``steps``), as ``python -m lanescope.examples
... --json`` and ``benchmarks/watch/training.py`` do, so that neither its start nor lanescope's
counts, or, as ``benchmarks/watch/loops.py`` does, the quartiles of an iteration's time of each of
its loops (``loops``), of which the medians are compared. FILE gets every time, and for each method
of watching the median slowdown against the turn's own unwatched run with a 95 % interval of the
median (order statistics) and the range. ``attributed`` is the share of the payload that is counted
to and from the GPU which lies in recorded copies, in each turn.
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

from lanescope.results import median_interval

METHODS: dict[str, list[str] | None] = {
    "none": None,
    "default": [],
    "pm-100khz": ["--source", "pm", "--interval", "10us"],
    "pm": ["--source", "pm"],
    "calls": ["--source", "calls"],
    "trace": ["--source", "trace"],
    "always": ["--trace", "always"],
    "kernels": ["--source", "trace", "--kernels"],
    "counters": ["--source", "counters"],
    "probe": ["--source", "probe"],
    "probe-gentle": ["--source", "probe", "--gentle"],
}
#: Runs several of a program at the same time, and prints what the first does.
TOGETHER = """
import subprocess, sys
count, *program = sys.argv[1:]
all = [subprocess.Popen(program, stdout=subprocess.PIPE) for _ in range(int(count))]
outputs = [one.communicate()[0] for one in all]
sys.stdout.buffer.write(outputs[0])
sys.exit(max(one.returncode for one in all))
"""


def times_of(
    program: list[str], method: list[str] | None
) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the program once; return the seconds of its work by its own account, and the summary."""
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary.json"
        watch = [sys.executable, "-m", "lanescope", "watch", "-q", "--json", str(summary)]
        watch += ["--out", f"{folder}/run"]
        command = program if method is None else [*watch, *method, "--", *program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        watched = json.loads(summary.read_text()) if method is not None else {}
    printed = json.loads(done.stdout.strip().splitlines()[-1])
    if "loops" in printed:
        return {name: one["iteration_s"][1] for name, one in printed["loops"].items()}, watched
    steps = printed["steps"]
    return {"all": (steps[-1]["end_ns"] - steps[0]["begin_ns"]) * 1e-9}, watched


def shares(summary: dict[str, Any]) -> dict[str, float]:
    """Return the share of each direction's counted payload that is in recorded copies."""
    return {
        direction["direction"]: direction["traced_bytes"] / direction["counter_bytes"]
        for direction in summary.get("ways", ())
        if direction.get("counter_bytes") and direction.get("traced_bytes")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=["none", "default"])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="after --")
    arguments = parser.parse_args()
    program = [word for word in arguments.program if word != "--"]
    if arguments.processes > 1:
        program = [sys.executable, "-c", TOGETHER, str(arguments.processes), *program]
    methods = list(dict.fromkeys(["none", *arguments.methods]))
    runs: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    attributed: dict[str, list[dict[str, float]]] = {
        method: [] for method in methods if method != "none"
    }
    for turn in range(arguments.turns):
        for method in methods if turn % 2 == 0 else methods[::-1]:
            seconds, summary = times_of(program, METHODS[method])
            runs[method].append(seconds)
            if method != "none":
                attributed[method].append(shares(summary))
        # after every turn: one that is stopped early leaves what it has measured
        content = {"program": arguments.program, "processes": arguments.processes, "seconds": runs}
        content |= {"slowdown": slowdowns(runs), "attributed": attributed}
        arguments.out.write_text(json.dumps(content, indent=1) + "\n")
    for method, loops in slowdowns(runs).items():
        for loop, slower in loops.items():
            (low, high), (least, most) = slower["interval"], slower["range"]
            print(
                f"{method} {loop}: {slower['median']:+.2%} ({low:+.2%} to {high:+.2%}; range "
                f"{least:+.2%} to {most:+.2%})"
            )
    for loop in runs["none"][0]:
        print(f"none {loop}: {statistics.median(run[loop] for run in runs['none']):.6f} s")


def slowdowns(runs: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return the slowdown by each method and loop against its own turn's unwatched run."""
    found: dict[str, dict[str, Any]] = {}
    for method in (method for method in runs if method != "none"):
        turns = list(zip(runs["none"], runs[method], strict=False))
        for loop in turns[0][0] if turns else ():
            ratios = [watched[loop] / plain[loop] - 1 for plain, watched in turns]
            found.setdefault(method, {})[loop] = {
                "median": statistics.median(ratios),
                "interval": median_interval(np.array(ratios)),
                "range": (min(ratios), max(ratios)),
            }
    return found


if __name__ == "__main__":
    main()
