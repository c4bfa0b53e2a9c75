"""Channels over a pretended CUDA runtime, whose streams go on in any order that events allow."""

import subprocess

import pytest

from tests.native.programs import program

pytestmark = pytest.mark.native


@pytest.mark.parametrize("seed", [1, 51, 101, 151])
def test_all_arrays_come_out_as_they_went_in(seed):
    """In 50 rounds, which have a seed each."""
    words = [program("channel_simulation"), "50", str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "50 rounds came out as they went in\n"
