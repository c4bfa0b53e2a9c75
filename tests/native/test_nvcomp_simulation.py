"""Streams by a library that stands in for nvCOMP, over a pretended CUDA: no GPU, sanitized."""

import os
import shutil
import subprocess

import pytest

from lanescope._core import native
from tests.native.test_channel_simulation import ROOT, SANITIZERS, cuda_headers

NATIVE = ROOT / "native"
COMPRESS = (
    *("device_codec", "format", "host_codec", "nvcomp", "nvcomp_blocks"),
    *("host_strips", "host_strips_any_cpu", "host_strips_avx2", "host_strips_avx512"),
)
SOURCES = (
    "tests/nvcomp_simulation.cpp",
    "tests/pretended_cuda.cpp",
    *(f"src/compress/{name}.cpp" for name in COMPRESS),
    "src/error.cpp",
    "src/host/parallel.cpp",
    "src/watch/library.cpp",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nvcomp")


@pytest.fixture(scope="module")
def command():
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    flags = ["-std=c++20", "-O1", "-g", "-w", f"-I{NATIVE}/include", f"-I{NATIVE}/tests"]
    return [compiler, *flags, "-isystem", str(cuda_headers())]


def library(command, folder, *flags):
    made = folder / "libnvcomp.so.6"
    source = NATIVE / "tests/pretended_nvcomp.cpp"
    subprocess.run([*command, *flags, "-shared", "-fPIC", source, "-o", made], check=True)
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_streams_come_back_and_damaged_chunks_do_not_get_to_nvcomp(command, folder, seed):
    program = folder / "simulation"
    if not program.exists():
        sources = [NATIVE / one for one in SOURCES]
        build = [*command, *SANITIZERS, "-rdynamic", "-pthread", *sources, "-ldl", "-o", program]
        subprocess.run(build, check=True)
        library(command, folder, *SANITIZERS)
    run = [program, folder / "libnvcomp.so.6", "15", str(seed)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "all came back\n"


def test_versions_of_nvcomp_are_told_apart(command, tmp_path, monkeypatch):
    put = tmp_path / "put.cpp"  # what the library has of the pretended CUDA
    put.write_text(
        '#include "pretended_cuda.hpp"\n'
        "void pretended::put(cudaStream_t, std::function<void()>) {}\n"
    )
    made = library(command, tmp_path, put)
    assert native.Nvcomp(str(made)).version == 6000
    monkeypatch.setitem(os.environ, "PRETENDED_NVCOMP", "7010")
    with pytest.raises(native.NativeError, match="is version 7 of nvCOMP, and version 6 is"):
        native.Nvcomp(str(made))
