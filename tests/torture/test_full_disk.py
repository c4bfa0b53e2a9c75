"""Small disks: what the program writes has its room, and what was stored is readable.

A disk is a tmpfs, which root alone can mount.
"""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.watching import test_trace_injection as injection
from tests.watching.injected import needs_injection

pytestmark = needs_injection
cupti = injection.cupti  # a fixture

MIB = 1 << 20
#: From less than a manifest takes to more than all records take.
SIZES = [*(kib << 10 for kib in (16, 32, 64, 128, 256, 512, 768))] + [
    mib * MIB for mib in (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64)
]

WATCH = """
import json, sys
from pathlib import Path
sys.path.insert(0, ".")
from lanescope.errors import InputError
from lanescope.watching.session import Watch, watch
from lanescope.watching.sources import injection, trace
from lanescope.watching.launcher import Launched
from tests.watching.test_session import MACHINE

injection._DRIVERS = (Path("/proc/self"),)
asked = Watch(MACHINE, Launched(tuple(sys.argv[2:])), "lanescope watch",
              lambda spool: [trace.TraceSource(spool)], Path(sys.argv[1]))
try:
    watch(asked)
except InputError as error:
    print(f"lanescope: {error}", file=sys.stderr)
"""

# Writes a checkpoint onto the same disk while it copies, and tells how it went.
PROGRAM = (
    injection.BEGIN
    + """
def write(path, size):
    try:
        with open(path, "wb", buffering=0) as file:
            for at in range(0, size, 1 << 14):
                if file.write(bytes(min(1 << 14, size - at))) == 0:
                    return False
    except OSError:
        return False
    return True
for _ in range(15):
    copies(2000, 1)
    time.sleep(.005)
written()
sys.stdout.write(str(write(sys.argv[1], int(sys.argv[2]))))
sys.stdout.flush()
copies(1000, 1)
"""
)


@contextlib.contextmanager
def disk(folder, size):
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs root, and a kernel that mounts a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_small_disk_is_left_to_the_program(cupti, tmp_path, trials, rng):
    for size in rng.sample(SIZES[:-2], 2) if trials(1, 0) else SIZES:
        with disk(tmp_path / str(size), size) as place:
            run, checkpoint = place / "run", place / "checkpoint"
            own = size // 3  # what stays free is half of what was free at the start
            program = [sys.executable, "-c", PROGRAM, checkpoint, str(own)]
            done = subprocess.run(
                [sys.executable, "-c", WATCH, run, *program],
                env={**os.environ, "LANESCOPE_CUPTI": str(cupti)},
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            where = f"{size} B: {done}"
            sentences = [x for x in done.stderr.splitlines() if x.startswith("lanescope: ")]
            assert len(sentences) <= 1, where
            assert done.stderr.splitlines() == sentences, where
            assert done.returncode == 0, where
            if done.stdout:  # else there was no room before it ran, as one sentence says
                assert done.stdout == "True", where
            else:
                assert sentences, where
            if (run / "manifest.json").is_file():
                require_readable(run, where)


def require_readable(run, where):
    read = "import sys; from pathlib import Path; from lanescope.trace.store import read_watch\n"
    read += "import json; from lanescope.trace.summarise import summarise\n"
    read += "found = read_watch(Path(sys.argv[1])).timeline; summarise(found)\n"
    read += "print(json.dumps([len(found.operations), sum(p.left_out for p in found.processes)]))"
    done = subprocess.run(
        [sys.executable, "-c", read, run],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{where}: {done.stderr}"
    operations, left_out = json.loads(done.stdout)
    assert operations + left_out >= 0
