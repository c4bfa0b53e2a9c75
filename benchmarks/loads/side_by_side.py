"""Chases pointers with lanescope and with multichase in turns and compares the time of a load.

The peer (github.com/google/multichase) is named by path and never shipped::

    python benchmarks/loads/side_by_side.py --peer PATH --turns 9 --out FOLDER

Both follow a random ring over the same size, with the same stride, on the same kind of
pages, on CPU 0, for half a second a turn. FOLDER gets ``turns.json`` (what every turn found,
and both commands) and ``loads.csv``: for each case the median over the turns of each one's
mean, the spread over the turns ((most - least) / median), the ratio of the medians
(lanescope / multichase), and the least of the turns, which other programs on the
machine disturb least. Where others want the same cores, put ``chrt -f 10`` before the
command: means of half a second are no use when a share of it was theirs.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

import lanescope
from lanescope import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.copies.terms import Access
from lanescope.engine.sampling import Plan
from lanescope.studies.running import backend_for

STRIDE_BYTES = 64
SIZES = {"16k": 16 << 10, "256k": 256 << 10, "4m": 4 << 20, "64m": 64 << 20, "256m": 256 << 20}
PAGES = {Memory.SMALL_PAGES: (), Memory.HUGE: ("-H",)}
#: Where multichase binds its first thread, too.
CPU = 0
#: What multichase takes for one sample, after one that it drops.
TURN_SECONDS = 0.5


@dataclass(frozen=True)
class Case:
    size: str
    memory: Memory

    @property
    def name(self) -> str:
        return f"{self.size}/{self.memory}"

    def command(self, peer: Path) -> list[str]:
        """The peer's: all of the memory is one block within which it shuffles."""
        sizes = ["-m", self.size, "-s", str(STRIDE_BYTES), "-T", self.size]
        return [str(peer), "-a", "-n", "1", *sizes, *PAGES[self.memory]]

    def experiment(self) -> Experiment:
        place = Place("h0", self.memory)
        access = Access(stride_bytes=STRIDE_BYTES, span_bytes=SIZES[self.size])
        # a load of 8 bytes in each stride
        loaded = SIZES[self.size] // STRIDE_BYTES * 8
        copy = Copy(
            *(place, place, loaded, Engine.CPU, Operation.CHASE_RANDOM, (CPU,)), access=access
        )
        return Experiment(self.name, self.name, (copy,), Timing.HOST)


def ours(case: Case, machine: lanescope.Machine, backend: object) -> float:
    """Mean time of a load in ns, over half a second."""
    plan = Plan(target=0, budget_seconds=TURN_SECONDS)
    result = lanescope.measure(case.experiment(), machine, backend=backend, plan=plan)
    if result.not_measured is not None:
        raise SystemExit(f"{case.name}: {result.not_measured.reason}")
    return result.copies[0].statistics.mean_seconds * 1e9


def theirs(case: Case, peer: Path) -> float:
    """The same by the peer."""
    done = subprocess.run(case.command(peer), capture_output=True, text=True, check=True)
    return float(done.stdout)


def spread(values: list[float]) -> float:
    """Share of the median between the least and the most of the turns."""
    return (max(values) - min(values)) / statistics.median(values)


def compare(name: str, mine: list[float], peers: list[float]) -> dict[str, object]:
    medians = statistics.median(mine), statistics.median(peers)
    return {
        "case": name,
        "lanescope_ns": round(medians[0], 3),
        "lanescope_spread": round(spread(mine), 4),
        "multichase_ns": round(medians[1], 3),
        "multichase_spread": round(spread(peers), 4),
        "ratio": round(medians[0] / medians[1], 4),
        "least_lanescope_ns": round(min(mine), 3),
        "least_multichase_ns": round(min(peers), 3),
        "least_ratio": round(min(mine) / min(peers), 4),
    }


def show(rows: list[dict[str, object]]) -> None:
    print(
        f"{'case':18}{'lanescope ns':>14}{'spread':>9}{'multichase ns':>15}{'spread':>9}"
        f"{'ratio':>8}{'of least':>10}"
    )
    for row in rows:
        print(
            f"{row['case']:18}{row['lanescope_ns']:14.3f}{row['lanescope_spread']:9.1%}"
            f"{row['multichase_ns']:15.3f}{row['multichase_spread']:9.1%}"
            f"{row['ratio']:8.3f}{row['least_ratio']:10.3f}"
        )


def main() -> None:
    arguments = _arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    machine = lanescope.discover()
    backend = backend_for(machine)
    rows, turns = [], []
    for case in (Case(size, memory) for size in arguments.sizes for memory in PAGES):
        mine, peers = [], []
        for _ in range(arguments.turns):
            mine.append(ours(case, machine, backend))
            peers.append(theirs(case, arguments.peer))
        rows.append(compare(case.name, mine, peers))
        command = " ".join(case.command(Path("multichase")))
        turns.append(
            {"case": case.name, "command": command, "lanescope_ns": mine, "multichase_ns": peers}
        )
    with (arguments.out / "loads.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (arguments.out / "turns.json").write_text(json.dumps(turns, indent=1))
    show(rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True, help="multichase's binary")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
