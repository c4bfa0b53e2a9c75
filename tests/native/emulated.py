"""Builds and runs programs that do on the host what a group of a GPU's warps does, sanitized."""

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"


def cuda_headers():
    nvidia = pytest.importorskip("nvidia.cu13", reason="no headers of CUDA")
    return Path(next(iter(nvidia.__path__))) / "include"


def built(name, folder):
    """A function that runs a program of native/tests: words, and bytes in; bytes out."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    program = folder / name
    command = [compiler, "-std=c++20", "-O1", "-w", "-fsanitize=address,undefined"]
    command += ["-fno-sanitize-recover", f"-I{NATIVE}/include", "-isystem", str(cuda_headers())]
    subprocess.run([*command, NATIVE / f"tests/{name}.cpp", "-o", program], check=True)

    def run(*words, data):
        done = subprocess.run([program, *map(str, words)], input=data, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout

    return run
