"""Clocks that are set while a program is watched: everything has its time, nothing is lost."""

import json
import os
import subprocess
import sys

import pytest

from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.watching import test_trace_injection as injection
from tests.watching.injected import needs_injection

pytestmark = needs_injection
cupti = injection.cupti  # a fixture

SECOND, DAY = 1, 86_400
SIZES = (SECOND, 60, 3600, DAY, 30 * DAY, 400 * DAY)
COPIES = 40

# Watches a program, reads what was stored, and tells of it.
WATCH = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, ".")
from lanescope.watching.session import Watch, watch
from lanescope.watching.sources import injection, trace
from lanescope.trace.store import read_watch
from lanescope.findings.trace import evaluate_watch
from lanescope.watching.launcher import Launched
from tests.watching.test_session import MACHINE

injection._DRIVERS = (Path("/proc/self"),)
folder = Path(sys.argv[1])
sources = lambda spool: [trace.TraceSource(spool)]
began = time.monotonic_ns()
watch(Watch(MACHINE, Launched(tuple(sys.argv[2:])), "lanescope watch", sources, folder))
lasted = time.monotonic_ns() - began
run = read_watch(folder)
told = evaluate_watch(run, folder / "none")
operations = run.timeline.operations
print(json.dumps({
    "lasted_ns": lasted,
    "span_ns": run.timeline.end_ns - run.timeline.start_ns,
    "copies": len(operations),
    "inside": bool((operations.start_ns >= run.timeline.start_ns).all()
                   and (operations.end_ns <= run.timeline.end_ns).all()),
    "in_calls": bool((operations.call_start_ns <= operations.start_ns).all()),
    "impossible": run.timeline.impossible,
    "process_ends": [p.end_ns - p.start_ns for p in run.timeline.processes],
}))
"""

# Half of the copies before the clock is set and half of them after that.
PROGRAM = f"""
{injection.BEGIN}
copies({COPIES // 2}, 1 << 20)
open(os.environ["STEPPED_CLOCK"], "w").write(sys.argv[1])
copies({COPIES // 2}, 1 << 20)
"""


@pytest.mark.parametrize("sign", [1, -1], ids=["ahead", "back"])
def test_a_clock_that_is_set_moves_nothing(sign, trials, rng, tmp_path, cupti):
    library = program("stepped_clock")
    sizes = [*SIZES, *(rng.uniform(SECOND, 400 * DAY) for _ in range(trials(0, 60)))]
    for seconds in sizes if trials(0, 1) else rng.sample(sizes, 2):
        step_ns = sign * int(seconds * 10**9)
        run = tmp_path / str(step_ns)
        done = subprocess.run(
            [sys.executable, "-c", WATCH, run, sys.executable, "-c", PROGRAM, str(step_ns)],
            env={
                **os.environ,
                "LANESCOPE_CUPTI": str(cupti),
                "LD_PRELOAD": str(library),
                "STEPPED_CLOCK": f"{run}.step",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        where = f"{step_ns} ns: {told}"
        assert told["copies"] == COPIES, where
        assert told["inside"], where
        assert told["in_calls"], where
        assert told["impossible"] == 0, where
        assert 0 < told["span_ns"] <= told["lasted_ns"], where
        assert all(0 < lasted <= told["span_ns"] for lasted in told["process_ends"]), where
