"""The codecs against data of many kinds, damaged strips and damaged streams, with sanitizers."""

import subprocess

import pytest

from tests.native.host_cpus import KINDS, runs_here
from tests.native.programs import program

pytestmark = pytest.mark.native


@pytest.fixture(scope="module", params=KINDS)
def fuzz(request):
    if not runs_here(request.param):
        pytest.skip("this CPU does not have the instructions, or the compiler does not know them")
    return program(f"compress_fuzz_{request.param}")


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


def test_streams_whose_parts_are_elsewhere_are_refused():
    done = run(program("stream_fuzz"), "--inputs", "30000", "--seed", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" inputs, nothing wrong\n")


@pytest.mark.parametrize("options", [["--inputs", "0"], ["--seed"], ["--codec", "gfc64"]])
def test_a_wrong_option_of_streams_is_refused(options):
    done = run(program("stream_fuzz"), *options)
    assert done.returncode == 2
    assert "use: stream_fuzz" in done.stderr
