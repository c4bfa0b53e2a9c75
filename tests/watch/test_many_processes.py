"""Programs of many processes, each of which uses CUDA as the tests of the injection pretend."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.watch.sources.trace import injection_library
from tests.watch import test_trace_injection as injection

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or injection_library() is None,
    reason="needs g++ and an installed lanescope",
)

#: Loads what the driver would load, and copies. Python would take seconds of each start.
SHORT = r"""
#include <dlfcn.h>
#include <cstdint>
#include <cstdlib>
#include <unistd.h>
int main(int count, char**) {
    void* cupti = dlopen(getenv("LANESCOPE_CUPTI"), RTLD_NOW);
    void* inject = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    if (cupti == nullptr || inject == nullptr) return 2;
    if (reinterpret_cast<int (*)()>(dlsym(inject, "InitializeInjection"))() != 1) return 3;
    using Copies = void (*)(int, uint64_t, int, int, int);
    reinterpret_cast<Copies>(dlsym(cupti, "mock_copies"))(10, 4096, 1, 1, 7);
    if (count > 1) sleep(1);  // told to stay for a while
    return 0;
}
"""

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
from lanescope.report.page_watch import watch_page_html
from lanescope.watch.session import Watch, watch
from lanescope.watch.sources import trace
from lanescope.watch.told import tell
from lanescope.watch.waiting import Launched
from tests.watch.test_session import MACHINE
import pyarrow.parquet

def highest():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

trace._DRIVERS = (Path("/proc/self"),)
folder = Path(sys.argv[1])
before, open_before = highest(), len(os.listdir("/proc/self/fd"))
sources = lambda spool: [trace.TraceSource(spool)]
run = watch(Watch(MACHINE, Launched(tuple(sys.argv[2:])), "lanescope watch", sources, folder))
told = tell(run, folder / "none")
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
def short(tmp_path_factory):
    folder = tmp_path_factory.mktemp("short")
    (folder / "short.cpp").write_text(SHORT)
    command = ["g++", "-O1", str(folder / "short.cpp"), "-o", str(folder / "short"), "-ldl"]
    subprocess.run(command, check=True)
    return folder / "short"


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))


def watched(run: Path, cupti: Path, *program):
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(run), sys.executable, "-c", START, *map(str, program)],
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
    [(64, 64, ("stay",)), (2000, 8, ())],
    ids=["64 at the same time", "2000 in turn"],
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
