"""Programs of many processes, each of which uses CUDA as the tests of the injection pretend."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.programs import program
from tests.watching import test_trace_injection as injection
from tests.watching.injected import needs_injection

pytestmark = needs_injection

# Starts so many processes, so many at a time, and leaves nobody behind.
START = """
import subprocess, sys
program, count, most, *more = sys.argv[1:]
running = []
for _ in range(int(count)):
    if len(running) == int(most):
        assert running.pop(0).wait() == 0
    running.append(subprocess.Popen([program, *more]))
assert all(process.wait() == 0 for process in running)
"""

# Watches a program; tells growth of memory, and the descriptors that are left.
WATCH = """
import json, os, re, sys
from pathlib import Path
sys.path.insert(0, ".")
from tests.report.watch_factory import page as watch_page_html
from lanescope.watching.session import Watch, watch
from lanescope.watching.sources import injection, trace
from lanescope.findings.trace import evaluate_watch
from lanescope.watching.launcher import Launched
from tests.watching.test_session import MACHINE
import pyarrow.parquet

def highest():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

injection._DRIVERS = (Path("/proc/self"),)
folder = Path(sys.argv[1])
before, open_before = highest(), len(os.listdir("/proc/self/fd"))
sources = lambda spool: [trace.TraceSource(spool)]
run = watch(Watch(MACHINE, Launched(tuple(sys.argv[2:])), "lanescope watch", sources, folder))
told = evaluate_watch(run, folder / "none")
watch_page_html(run)
print(json.dumps({
    "grown_kib": highest() - before,
    "descriptors": len(os.listdir("/proc/self/fd")) - open_before,
    "copies": sum(group.count for group in told.summary.copies),
    "bytes": sum(s.total_bytes for s in told.summary.shares_by("process")),
    "processes": len(told.summary.shares_by("process")),
    "exit_code": run.manifest.exit_code,
}))
"""


cupti = injection.cupti  # a fixture


@pytest.fixture(scope="module")
def short():
    return program("traced_briefly")


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))


def watched(run: Path, cupti: Path, *words):
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(run), sys.executable, "-c", START, *map(str, words)],
        env={**os.environ, "LANESCOPE_CUPTI": str(cupti)},
        preexec_fn=few_descriptors,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads((run / "processes.json").read_text())


@pytest.mark.parametrize(
    ("count", "most", "more"),
    [
        pytest.param(64, 64, ("stay",), id="64 at the same time"),
        pytest.param(1000, 8, (), id="1000 in turn", marks=pytest.mark.native),  # ten seconds
    ],
)
def test_every_process_is_traced_and_its_bytes_counted(
    tmp_path,
    cupti,
    short,
    count,
    most,
    more,
):
    told, processes = watched(tmp_path / "run", cupti, short, count, most, *more)
    assert told["exit_code"] == 0
    assert told["copies"] == 10 * count
    assert told["bytes"] == 10 * 4096 * count
    assert told["processes"] == len({p["pid"] for p in processes}) == count
    assert all(p["complete"] and p["lost_records"] == 0 for p in processes)
    assert told["descriptors"] <= 2  # the two files of columns
    assert told["grown_kib"] < 200 << 10
