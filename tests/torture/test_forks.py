"""Children made beside fork's handlers, while a traced program's extra thread does what it does."""

import ctypes
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.watching import test_trace_injection as injection
from tests.watching.injected import environment, needs_injection, read_one

pytestmark = needs_injection
cupti = injection.cupti  # a fixture
_COPIES = 100


@pytest.mark.parametrize("direction", ["syscall(57)", "syscall(56, 17, 0, 0, 0, 0)", "_Fork()"])
def test_no_child_hangs_or_writes(cupti, tmp_path, trials, direction):
    if direction.startswith("_Fork") and not hasattr(ctypes.CDLL(None), "_Fork"):
        pytest.skip("this C library has no _Fork")
    count = trials(25, 4000)
    text = f"""
c = ctypes.PyDLL(None)
for number in range({count}):
    copies({_COPIES}, 8)
    child = c.{direction}
    if child == 0:
        ctypes.CDLL(None).getpid  # takes the loader's lock
        copies({_COPIES}, 8)
        cupti.cuptiActivityFlushAll(1)
        (sys.exit if number % 2 else os._exit)(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
"""
    done = subprocess.run(
        [sys.executable, "-c", injection.BEGIN + text],
        env=environment(cupti, tmp_path, {"LANESCOPE_TRACE_FLUSH_MS": "1"}),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    trace = read_one(tmp_path)
    assert trace.process.complete
    assert len(trace.operations) == count * _COPIES
