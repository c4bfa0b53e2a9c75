"""Programs whose main thread ends before the process, or is confined by seccomp, while traced."""

import platform
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.watching import test_trace_injection as injection
from tests.watching.injected import environment, needs_injection, read_one

pytestmark = needs_injection
cupti = injection.cupti  # a fixture

_LIBC = """
import struct, time
libc = ctypes.CDLL(None)
copies(100, 1); written()
call, leave, control = libc.syscall, libc.exit, libc.prctl
"""
_STRICT = "control(22, 1, 0, 0, 0)\n"  # read, write, exit and sigreturn; others kill the thread
#: A filter that kills the process but for read, write, mprotect, exit and exit_group.
_FILTERED = """
allowed = [0, 1, 10, 60, 231]
code = struct.pack("<HBBI", 0x20, 0, 0, 0)
for place, number in enumerate(allowed):
    code += struct.pack("<HBBI", 0x15, len(allowed) - place, 0, number)
code += struct.pack("<HBBIHBBI", 6, 0, 0, 0x80000000, 6, 0, 0, 0x7FFF0000)
kept = ctypes.create_string_buffer(code)
told = struct.pack("<HxxxxxxQ", len(allowed) + 3, ctypes.addressof(kept))
control(38, 1, 0, 0, 0)
control(22, 2, ctypes.create_string_buffer(told), 0, 0)
until = time.monotonic() + 1
while time.monotonic() < until: pass
leave(5)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of its system calls")
@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("libc.pthread_exit(None)", 0),
        ("call(60, 7)", 7),
        (f"{_STRICT}call(60, 7)", 7),
        (f"{_STRICT}call(231, 7)", -9),
        (_FILTERED, 5),
    ],
    ids=["pthread_exit", "exit of a thread", "strict", "strict and killed", "filtered"],
)
def test_a_program_ends_as_it_does_untraced(cupti, tmp_path, ends, code):
    done = subprocess.run(
        [sys.executable, "-c", injection.BEGIN + _LIBC + ends],
        env=environment(cupti, tmp_path, {"LANESCOPE_TRACE_FLUSH_MS": "20"}),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, b"")
    trace = read_one(tmp_path)
    assert len(trace.operations) == 100
    assert trace.process.complete
