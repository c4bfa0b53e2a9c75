"""Programs that the injection library is loaded into, beside a libcupti and an NVTX for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from lanescope.watch.sources.trace import injection_library
from lanescope.watch.trace_spool import Trace, read_trace_spool

needs_injection = pytest.mark.skipif(
    shutil.which("g++") is None or injection_library() is None,
    reason="needs g++ and an installed lanescope",
)


def compiled(name: str, folder: Path, *options: str) -> Path:
    """Compile one of the libraries for tests, such as ``mock_cupti``."""
    library, source = folder / f"lib{name}.so", Path(__file__).with_name(f"{name}.cpp")
    command = ["g++", "-O1", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", str(source)]
    subprocess.run([*command, *options, "-ldl", "-o", str(library)], check=True)
    return library


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
