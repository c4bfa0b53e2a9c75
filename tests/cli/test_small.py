"""``lanescope bench small`` as a user without a GPU meets it."""

import pytest

from tests.native.test_gpu import GPUS


def sentence(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_a_gpu_it_says_so(lanescope_here):
    assert "has no GPU here to copy to and from" in sentence(lanescope_here("bench", "small"), 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--counts", "many"), "whole numbers from 1 to 4096"),
        (("--method", "magic"), "single, batch, graph, kernel or mapped"),
        (("--min", "1MiB", "--max", "4B"), "swap them"),
        (("--budget", "0"), "above 0 and up to 3600"),
        (("--json", "--csv"), "exclude each other"),
        (("--max", "nonsense"), "takes a size from 1 B to 4 MiB"),
    ],
)
def test_bad_options_are_one_sentence(lanescope_here, arguments, words):
    assert words in sentence(lanescope_here("bench", "small", *arguments))


def test_help_names_every_option(lanescope_here):
    text = lanescope_here("bench", "small", "--help").stdout
    for option in ("--min", "--max", "--counts", "--method", "--gpu", "--budget", "--target"):
        assert option in text
