"""The strip codecs against data of many kinds and damaged strips, with sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(compiler, source, program):
    command = [compiler, "-std=c++20", "-O1", *SANITIZERS, f"-I{ROOT / 'native/include'}"]
    subprocess.run([*command, source, "-o", program], check=True, capture_output=True)


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory):
    compiler, folder = shutil.which("g++"), tmp_path_factory.mktemp("fuzz")
    if compiler is None:
        pytest.skip("no g++")
    empty = folder / "empty.cpp"
    empty.write_text("int main() {}\n")
    try:
        build(compiler, empty, folder / "empty")
        subprocess.run([folder / "empty"], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("g++ has no sanitizers that work here")
    build(compiler, ROOT / "native/tests/compress_fuzz.cpp", folder / "fuzz")
    return folder / "fuzz"


def run(fuzz, *options):
    return subprocess.run([fuzz, *options], capture_output=True, text=True, check=False)


def test_nothing_goes_wrong(fuzz):
    done = run(fuzz, "--inputs", "20000", "--seed", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" inputs, nothing wrong\n")
    assert int(done.stdout.splitlines()[-1].split()[0]) >= 20000


@pytest.mark.parametrize(
    "options", [["--inputs", "many"], ["--seed"], ["--codec", "none"], ["-x", "1"]]
)
def test_a_wrong_option_is_refused(fuzz, options):
    done = run(fuzz, *options)
    assert done.returncode == 2
    assert "use: compress_fuzz" in done.stderr
