"""Channels over a pretended CUDA runtime, whose streams go on in any order that events allow."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CHANNEL = (
    "device_channel",
    "format",
    "host_channel",
    "host_codec",
    "host_strips",
    "host_strips_any_cpu",
    "host_strips_avx2",
    "host_strips_avx512",
    "in_flight",
    "parcel",
    "pinned_arena",
    "range_arena",
    "report",
    "room",
    "slabs",
    "ticket",
)
SOURCES = (
    "tests/channel_simulation.cpp",
    "tests/pretended_cuda.cpp",
    *(f"src/compress/{name}.cpp" for name in CHANNEL),
    "src/cuda/peer.cpp",
    "src/cuda/stream_values.cpp",
    "src/error.cpp",
    "src/host/parallel.cpp",
)


def cuda_headers():
    """The folder of the CUDA runtime's headers: the wheel's, or the system's."""
    try:
        import nvidia.cu13 as wheels

        folders = [Path(one) / "include" for one in wheels.__path__]
    except ImportError:
        folders = []
    for folder in (*folders, Path("/usr/local/cuda/include")):
        if (folder / "cuda_runtime_api.h").exists():
            return folder
    pytest.skip("no headers of the CUDA runtime")


@pytest.fixture(scope="module")
def simulation(tmp_path_factory):
    compiler, folder = shutil.which("g++"), tmp_path_factory.mktemp("simulation")
    if compiler is None:
        pytest.skip("no g++")
    native = ROOT / "native"
    command = [compiler, "-std=c++20", "-O1", "-pthread", f"-I{native}/include", *SANITIZERS]
    empty = folder / "empty.cpp"
    empty.write_text("int main() {}\n")
    try:
        subprocess.run([*command, empty, "-o", folder / "empty"], check=True, capture_output=True)
        subprocess.run([folder / "empty"], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("g++ has no sanitizers that work here")
    headers = ["-isystem", str(cuda_headers())]
    sources = [native / name for name in SOURCES]
    program = folder / "channels"
    subprocess.run([*command, *headers, *sources, "-o", program], check=True)
    return program


def test_all_arrays_come_out_as_they_went_in(simulation):
    done = subprocess.run([simulation, "200", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "200 rounds came out as they went in\n"
