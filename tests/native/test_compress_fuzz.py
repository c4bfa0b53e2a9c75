"""The strip codecs against data of many kinds and damaged strips, with sanitizers."""

import shutil
import subprocess

import pytest

from tests.native.host_cpus import KINDS, ROOT, flags_of, runs_here

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build(compiler, source, program, kind="any_cpu"):
    command = [compiler, "-std=c++20", "-O1", *SANITIZERS, f"-I{ROOT / 'native/include'}"]
    subprocess.run(
        [*command, *flags_of(kind), source, "-o", program], check=True, capture_output=True
    )


@pytest.fixture(scope="module", params=KINDS)
def fuzz(request, tmp_path_factory):
    if not runs_here(request.param):
        pytest.skip("this CPU does not have the instructions")
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
    source = ROOT / "native/tests/compress_fuzz.cpp"
    try:
        build(compiler, source, folder / "fuzz", request.param)
    except subprocess.CalledProcessError as error:
        if b"unrecognized command-line option" not in error.stderr:
            raise
        pytest.skip("g++ does not compile for such CPUs")
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
