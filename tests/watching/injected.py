"""Programs that the injection library is loaded into, beside a libcupti and an NVTX for tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.watching.sources.injection import injection_library

needs_injection = pytest.mark.skipif(
    injection_library() is None, reason="needs an installed lanescope"
)


#: Part of a test program: waits until something holds, or until what it did has been written.
WAITING = """
import time
def until(holds):
    while not holds(): time.sleep(.01)
def written():
    before = cupti.mock_flushes()  # one may be under way
    until(lambda: cupti.mock_flushes() > before + 2)
"""


def environment(cupti: Path, folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment in which it is traced into a folder."""
    return {
        **os.environ,
        "CUDA_INJECTION64_PATH": str(injection_library()),
        "NVTX_INJECTION64_PATH": str(injection_library()),
        "LANESCOPE_CUPTI": str(cupti),
        "LANESCOPE_TRACE_FOLDER": str(folder),
        **variables,
    }


def read_one(folder: Path) -> Trace:
    """Read the only trace in a folder."""
    (path,) = folder.glob("trace.*.bin")
    return read_trace_spool(path)
