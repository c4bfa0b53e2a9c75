"""What the library for C++ adds to channels, over a pretended CUDA runtime."""

import subprocess

import pytest

from tests.native.programs import program

pytestmark = pytest.mark.native


def test_who_is_asked_and_told_and_what_is_refused():
    words = [program("library_simulation")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "all is as told\n"
