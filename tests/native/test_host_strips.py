"""The host's codecs for CPUs of several kinds: all make the same, and none is taken for another."""

import shutil
import subprocess

import pytest

from tests.native.host_cpus import KINDS, runs_here
from tests.native.programs import program

pytestmark = pytest.mark.native
as_compiled = pytest.mark.parametrize("level", ["O3", "O0"])


@as_compiled
@pytest.mark.parametrize("kind", KINDS)
def test_no_function_of_one_kind_can_take_the_place_of_another(kind, level):
    """A linker keeps one of all functions of a name: what is for newer CPUs must have its own."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    listed = subprocess.run(
        [nm, "--defined-only", "--extern-only", program(f"strips_{kind}_{level}")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    names = [line.split()[-1] for line in listed if line]
    assert any("host_strips" in name for name in names)
    assert [name for name in names if kind not in name] == []


def ran(name, rounds, seed):
    """Compares what kinds make, and returns those that this CPU could run."""
    words = [program(name), str(rounds), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@as_compiled
@pytest.mark.parametrize("seed", [7, 8, 9, 10])
def test_all_kinds_make_the_same(level, seed):
    kinds = [kind.replace("any_cpu", "any CPU") for kind in KINDS if runs_here(kind)]
    assert ran(f"host_strips_{level}", 25, seed) == kinds


@pytest.mark.parametrize("seed", [7, 8])
def test_no_kind_reads_or_writes_beyond(seed):
    """Of blocks, and of coded blocks that are damaged."""
    assert ran("host_strips_sanitized", 20, seed)[0] == "any CPU"
