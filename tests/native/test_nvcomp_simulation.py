"""Streams by a library that stands in for nvCOMP, over a pretended CUDA: no GPU, sanitized."""

import os
import subprocess

import pytest

from lanescope._core import native
from tests.native.programs import program

pytestmark = pytest.mark.native


@pytest.mark.parametrize("seed", [1, 2])
def test_streams_come_back_and_damaged_chunks_do_not_get_to_nvcomp(seed):
    words = [program("nvcomp_simulation"), program("pretended_nvcomp"), "15", str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "all came back\n"


def test_versions_of_nvcomp_are_told_apart(monkeypatch):
    made = program("pretended_nvcomp_alone")
    assert native.Nvcomp(str(made)).version == 6000
    monkeypatch.setitem(os.environ, "PRETENDED_NVCOMP", "7010")
    with pytest.raises(native.NativeError, match="is version 7 of nvCOMP, and version 6 is"):
        native.Nvcomp(str(made))
