"""What reading Python's frames costs a copy, without a GPU.

Run as: python benchmarks/watch/python_cost.py [INTERPRETER...]. Needs what `make test` installs.
For each interpreter: microseconds for each stack that is read, by how many frames there are; what
the first reading of a stack takes; and what a thread spends that copies without a pause.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.native.programs import program

from lanescope.trace.side_tables import NoLine, PythonLines
from lanescope.trace.trace_spool import read_trace_spool
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import CallsSource

_PROGRAM = """
import ctypes, os, sys, time
cuda = ctypes.CDLL(os.environ["MOCK_CUDA"])
depth, copies, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
host = ctypes.create_string_buffer(64)
to, size = ctypes.c_uint64(1 << 46), ctypes.c_size_t(64)
def copy():
    begun = time.monotonic()
    for _ in range(copies):
        cuda.cuMemcpyHtoD_v2(to, host, size)
        if pause: time.sleep(pause)
    print(time.monotonic() - begun)
def nested(left):
    nested(left - 1) if left > 2 else copy()
nested(depth)
"""


def measured(interpreter: str, depth: int, copies: int, pause: float) -> tuple[PythonLines, float]:
    """Return the stacks of a program's copies, and how long all copies took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        injection._DRIVERS = (folder,)
        source = CallsSource(folder, python_bytes=1)
        source.start()
        done = subprocess.run(
            [interpreter, "-c", _PROGRAM, str(depth), str(copies), str(pause)],
            env={**os.environ, **source.environment(), "MOCK_CUDA": str(program("mock_cuda"))},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        source.stop()
        (path,) = folder.glob("trace.*.calls.bin")
        return read_trace_spool(path).python_lines, float(done.stdout)


def main() -> None:
    """Measure each interpreter."""
    for interpreter in sys.argv[1:] or [sys.executable]:
        print(subprocess.run([interpreter, "-V"], stdout=subprocess.PIPE, text=True).stdout.strip())
        for depth in (2, 8, 40):
            once, _ = measured(interpreter, depth, 1, 0)
            lines, _ = measured(interpreter, depth, 1000, 0.001)
            each = (lines.spent_ns - once.spent_ns) / (len(lines) - 1)
            print(f"  {depth} frames: {each / 1e3:.1f} us, the first {once.spent_ns / 1e3:.0f} us")
        lines, seconds = measured(interpreter, 8, 50_000, 1e-6)
        left_out, spent = (lines.stack == NoLine.OVER_BUDGET).sum(), lines.spent_ns * 1e-9
        print(
            f"  {len(lines) / seconds:.0f} copies a second: {spent:.3f} s of {seconds:.2f} s, "
            f"{left_out} of {len(lines)} copies left out"
        )


if __name__ == "__main__":
    main()
