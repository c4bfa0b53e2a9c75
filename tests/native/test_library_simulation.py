"""What the library for C++ adds to channels, over a pretended CUDA runtime."""

import shutil
import subprocess

import pytest

from tests.native.test_channel_simulation import ROOT, SANITIZERS, SOURCES, cuda_headers

ADDED = (
    "always", "channels", "choosing", "deciding", "gpu_memory", "log", "rule", "rule_costs", "seam"
)  # fmt: skip


def test_who_is_asked_and_told_and_what_is_refused(tmp_path):
    compiler, native = shutil.which("g++"), ROOT / "native"
    if compiler is None:
        pytest.skip("no g++")
    command = [compiler, "-std=c++20", "-pthread", f"-I{native}/include", *SANITIZERS]
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}\n")
    try:
        subprocess.run([*command, empty, "-o", tmp_path / "empty"], check=True, capture_output=True)
        subprocess.run([tmp_path / "empty"], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("g++ has no sanitizers that work here")
    sources = [native / name for name in SOURCES if name != "tests/channel_simulation.cpp"]
    sources += [native / f"src/library/{name}.cpp" for name in ADDED]
    sources += [native / "tests/library_simulation.cpp"]
    headers = ["-isystem", cuda_headers()]
    program = tmp_path / "library"
    subprocess.run([*command, *headers, *sources, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all is as told\n"
