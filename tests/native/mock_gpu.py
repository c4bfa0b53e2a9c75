"""A GPU that a small library pretends to have, for samplers of counters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("mock_gpu.cpp")


def headers_of_cuda() -> list[Path]:
    """Folders that hold the headers of CUDA and CUPTI; empty when there are none."""
    packages = [Path(entry) / "nvidia/cu13/include" for entry in sys.path if entry]
    system = Path("/usr/local/cuda")
    system_folders = [system / "include", system / "extras/CUPTI/include"]
    folders = [f for f in (*packages, *system_folders) if f.is_dir()]
    has = {name: any((f / name).exists() for f in folders) for name in ("cuda.h", "cupti.h")}
    return folders if all(has.values()) else []


def build_mock(folder: Path) -> Path:
    """Compile the pretending library, or skip the test where that cannot be done."""
    compiler, folders = shutil.which("g++"), headers_of_cuda()
    if compiler is None or not folders:
        pytest.skip("no g++, or no headers of CUPTI")
    library = folder / "libmock_gpu.so"
    includes = [f"-I{include}" for include in folders]
    subprocess.run(
        [compiler, "-std=c++20", "-shared", "-fPIC", "-w", *includes, str(_SOURCE), "-o", library],
        check=True,
    )
    return library


def use_mock(monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
    """Let CUDA, CUPTI and NVML be the pretending library."""
    for name in ("LANESCOPE_LIBCUDA", "LANESCOPE_CUPTI", "LANESCOPE_NVML"):
        monkeypatch.setenv(name, str(library))
    for name in ("MOCK_PM", "MOCK_REFUSES", "MOCK_NVLINK"):
        monkeypatch.delenv(name, raising=False)
