"""How long building and testing take, from a fresh clone: python benchmarks/build_time.py.

Clones HEAD into a temporary folder and runs the README's commands there, one after another, as a
newcomer would: without pip's cache and without a compiler cache. `make time` runs it. What was run,
printed and measured goes to --out as well, and each command's output with it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Step:
    name: str
    command: str
    most_s: float  # what it may take, on two cores
    edited: str | None = None  # a file that gets one more comment before


STEPS = (
    Step("make, from nothing to the table", "make", 90),
    Step("make, one kernel changed", "make", 25, "native/src/cuda/task_kernels.cu"),
    Step("make, one Python file changed", "make", 3, "src/lanescope/errors.py"),
    Step("make library", "make library", 180),
    Step("make test", "make test", 300),
    Step("make test-native", "make test-native", 900),
)


@dataclass(frozen=True)
class Timed:
    name: str
    command: str
    seconds: float
    most_s: float
    exit_code: int
    said: str  # the lines of the output that tell parts and counts


def run(step: Step, clone: Path, logs: Path) -> Timed:
    if step.edited:
        path = clone / step.edited
        comment = "# changed\n" if path.suffix == ".py" else "// changed\n"
        path.write_text(path.read_text() + comment)
    else:  # Tests look at the style of files, too.
        subprocess.run(["git", "-C", clone, "checkout", "--quiet", "."], check=True)
    variables = os.environ | {"PIP_NO_CACHE_DIR": "1", "CCACHE_DISABLE": "1"}
    variables["LANESCOPE_RUNS"] = str(logs / "runs")
    begin = time.monotonic()
    done = subprocess.run(
        step.command.split(), cwd=clone, env=variables, capture_output=True, text=True, check=False
    )
    took = time.monotonic() - begin
    output = done.stdout + done.stderr
    (logs / f"{re.sub(r'[^a-z]+', '-', step.name)}.txt").write_text(output)
    told = re.findall(r"^(?:built: .*|=* ?\d+ passed.*)$", output, re.MULTILINE)
    return Timed(step.name, step.command, took, step.most_s, done.returncode, "; ".join(told))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a folder for the results")
    parser.add_argument("--steps", type=int, default=len(STEPS), help="how many of the steps")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lanescope-") as folder:
        clone, logs = Path(folder) / "lanescope", asked.out or Path(folder) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        commit = subprocess.run(
            ["git", "-C", str(clone), "rev-parse", "HEAD"], capture_output=True, text=True
        ).stdout.strip()
        results = []
        for step in STEPS[: asked.steps]:
            timed = run(step, clone, logs)
            results.append(timed)
            verdict = "" if timed.seconds <= timed.most_s else "  (slower than it may be)"
            verdict += "" if timed.exit_code == 0 else f"  (failed: {timed.exit_code})"
            print(
                f"{timed.seconds:7.1f} s of {timed.most_s:.0f}  {timed.name}{verdict}", flush=True
            )
            if timed.said:
                print(f"            {timed.said}", flush=True)
    about = {
        "commit": commit,
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "steps": [asdict(timed) for timed in results],
    }
    if asked.out:
        (asked.out / "build-time.json").write_text(json.dumps(about, indent=2) + "\n")
    good = all(one.exit_code == 0 and one.seconds <= one.most_s for one in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
