"""How long sampling goes on without a loss, and what it counts of a link at full speed.

::

    python benchmarks/watch/endurance.py --seconds 600 --interval 10us --out FILE.json

Watches ``lanescope.examples concurrent-copies`` with ``pm`` and ``counters`` at once: copies of
64 MiB to the GPU, then from it, then both ways, for about as long as was asked. FILE gets what
was lost, the processor time of each source, and the payload that each tells beside what the
program says to have moved, and of each source what it said at the end and, of ``pm``, how many
samples CUPTI was asked for. The wire model is the default one, and nothing is traced.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.trace.limits import pcie_links
from lanescope.trace.run import WatchRun
from lanescope.trace.store import read_watch
from lanescope.trace.timeline import PCIE, Counters
from lanescope.trace.wire import payload_records
from lanescope.trace.wire_fit import default_of

DIRECTIONS = ("h2d", "d2h")
_PROBED_REPEATS = 300


def program(repeats: int) -> list[str]:
    copies = ["concurrent-copies", "--size", "64MiB", "--repeats", str(repeats), "--json"]
    return [sys.executable, "-m", "lanescope.examples", *copies]


def seconds_of(steps: list[dict[str, Any]]) -> float:
    return float((steps[-1]["end_ns"] - steps[0]["begin_ns"]) * 1e-9)


def copying_seconds(steps: list[dict[str, Any]]) -> float:
    """Of the steps whose length the number of repeats decides."""
    return sum(seconds_of([step]) for step in steps if step["name"].startswith("copies"))


def output_of(command: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    steps: list[dict[str, Any]] = json.loads(done.stdout)["steps"]
    return steps


def counted(run: WatchRun, counters: Counters, moved: dict[str, int]) -> dict[str, Any]:
    links = pcie_links(run.manifest.machine, counters.gpu)
    model = default_of(run.timeline, counters, links[0].pcie if links else None)
    told = np.zeros(2)
    for _, payload in payload_records(counters, model, None, None):
        told += payload[:, :2].sum(axis=0)
    lasted = (int(counters.end_ns[-1]) - int(counters.end_ns[0])) * 1e-9
    return {
        "source": counters.source,
        "interval_us": counters.interval_ns / 1e3,
        "records": len(counters),
        "lost_samples": counters.lost_samples,
        "unknown_records": int(sum((~counters.known[part]).sum() for part, _ in counters.pieces())),
        "seconds": lasted,
        "core": None if counters.cpu_seconds is None else counters.cpu_seconds / lasted,
        "payload_bytes": {
            direction: round(float(told[i])) for i, direction in enumerate(DIRECTIONS)
        },
        "error": {
            direction: f"{told[i] / moved[direction] - 1:+.6f}"
            for i, direction in enumerate(DIRECTIONS)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--interval", default="10us")
    parser.add_argument("--sources", nargs="+", default=["pm", "counters"])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    once = copying_seconds(output_of(program(_PROBED_REPEATS)))
    repeats = math.ceil(_PROBED_REPEATS * arguments.seconds / once)
    sources = [word for source in arguments.sources for word in ("--source", source)]
    with tempfile.TemporaryDirectory() as folder:
        watch = [sys.executable, "-m", "lanescope", "watch", "-q", "--out", f"{folder}/run"]
        command = [*watch, *sources, "--interval", arguments.interval, "--", *program(repeats)]
        steps = output_of(command)
        run = read_watch(Path(folder) / "run")
        moved = {
            direction: sum(step[f"{direction}_bytes"] for step in steps) for direction in DIRECTIONS
        }
        found = [counted(run, counters, moved) for counters in run.timeline.over(PCIE)]
    said = {s.name: {"asked": s.asked, "reason": s.reason} for s in run.manifest.sources}
    told = {"seconds": seconds_of(steps), "repeats": repeats, "moved_bytes": moved, "said": said}
    arguments.out.write_text(json.dumps({**told, "sources": found}, indent=1) + "\n")
    print(json.dumps({**told, "sources": found}, indent=1))


if __name__ == "__main__":
    main()
