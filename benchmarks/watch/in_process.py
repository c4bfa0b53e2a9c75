"""What recording costs a loop: calls of one process are recorded and not, in turns of some ms.

::

    g++ -O2 -std=c++20 -fPIC -fvisibility=hidden -shared -I native/src -I /usr/local/cuda/include \
        -o calls_in_turn.so benchmarks/watch/calls_in_turn.cpp native/src/intercept/dlsym.cpp -ldl
    python benchmarks/watch/in_process.py calls_in_turn.so --out FILE.json [--seconds 10]
        [--loops train launch tiny loader] [--restarts 2] [--block 0.002]

Two processes of one loop differ by more than recording costs: by where their memory lies, what the
processor has learned, which core they are on. Here one process runs a loop of loops.py under
``lanescope watch --source calls``, and its calls that copy go by lanescope's functions or past
them, straight to the driver. Both ways take a jump more than without this. A block of iterations
is recorded, the next two are not, one is, and so on; each pair of blocks that follow each other has
one of both.

FILE has for each loop and process: the median of an iteration in seconds, by how much longer one
took that was recorded, as a share, in the median of all pairs and in that of each tenth of them,
and how many copies were recorded. ``check`` is the same without a watch, where both ways are the
driver's: what this method itself makes of noise. ``each`` has no copy that is only counted.

Small copies are counted when 64 of them were close to each other. As nothing is recorded before a
block, its first 64 to 128 are recorded each: a longer ``--block`` has less of that.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KINDS = ("recorded", "each", "check")
PARTS = 10


def loop(name: str, library: str, seconds: float, block: float, out: Path) -> None:
    """Run a loop, recorded and not in turns, and write what the pairs of blocks took."""
    from loops import LOOPS, WARM_UP

    past = ctypes.CDLL(library).calls_in_turn
    step = LOOPS[name]()
    for _ in range(WARM_UP):
        step()
    begun = time.perf_counter()
    for _ in range(WARM_UP):
        step()
    count = max(1, round(block * WARM_UP / (time.perf_counter() - begun)))
    pairs = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for order in ((0, 1), (1, 0)):
            pair = [0.0, 0.0]
            for which in order:
                past(which)
                begun = time.perf_counter()
                for _ in range(count):
                    step()
                pair[which] = time.perf_counter() - begun
            pairs.append(pair)
    past(0)
    out.write_text(json.dumps({"iterations": count, "pairs": pairs}))


def longer(pairs: list[list[float]]) -> float:
    """Return by which share recorded blocks last longer: the median of all pairs."""
    middle = statistics.median(plain for _, plain in pairs)
    return statistics.median(recorded - plain for recorded, plain in pairs) / middle


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return what FILE has of a process."""
    pairs, count = found["pairs"], found["iterations"]
    size = max(len(pairs) // PARTS, 1)
    parts = [longer(pairs[i * size : (i + 1) * size]) for i in range(len(pairs) // size)]
    return {
        "iteration_seconds": statistics.median(plain for _, plain in pairs) / count,
        "iterations_in_a_block": count,
        "pairs": len(pairs),
        "longer": longer(pairs),
        "longer_in_parts": parts,
    }


def trial(name: str, options: argparse.Namespace, kind: str) -> dict[str, Any]:
    """Run a process of a loop, and return its summary."""
    library = options.library.absolute()
    with tempfile.TemporaryDirectory() as folder:
        out, watch = Path(folder) / "pairs.json", Path(folder) / "watch.json"
        own = [sys.executable, __file__, "--loop", name, str(library), str(out)]
        own += ["--seconds", str(options.seconds), "--block", str(options.block)]
        # before lanescope's library, so that it stands between that and the program
        each = "LANESCOPE_CALLS_EACH=1 " if kind == "each" else ""
        shell = f"{each}LD_PRELOAD={shlex.quote(str(library))}:$LD_PRELOAD exec {shlex.join(own)}"
        command = ["sh", "-c", shell]
        if kind != "check":
            watching = ["--source", "calls", "--json", str(watch), "--out", folder + "/run"]
            command = ["lanescope", "watch", "-q", *watching, "--", *command]
        subprocess.run(command, check=True, env=os.environ)
        found = summary(json.loads(out.read_text()))
        if kind != "check":
            copies = json.loads(watch.read_text())["copies"]
            found["recorded_copies"] = sum(one["count"] for one in copies)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--block", type=float, default=2e-3, help="seconds, at least")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--loops", nargs="+", default=["train", "launch", "tiny", "loader"])
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.loops:
        found[name] = {kind: [] for kind in KINDS}
        for _ in range(options.restarts):
            for kind in KINDS:
                one = trial(name, options, kind)
                found[name][kind].append(one)
                parts = [f"{share:+.2%}" for share in one["longer_in_parts"]]
                print(
                    f"{name}, {kind}: {one['iteration_seconds'] * 1e3:.3f} ms,",
                    f"{one['longer']:+.3%} ({' '.join(parts)}), {one['pairs']} pairs",
                    flush=True,
                )
                options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loop"]:
        _, _, loop_name, library_path, result, _, how_long, _, block_seconds = sys.argv
        loop(loop_name, library_path, float(how_long), float(block_seconds), Path(result))
    else:
        main()
