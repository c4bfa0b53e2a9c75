"""``lanescope copy`` as a user types it."""

import json

import pytest

from lanescope.cli.app import app
from lanescope.errors import InputError
from tests.native.test_gpu import GPUS


def refused(done, code=2):
    """The message of bad input: nothing on standard output, no traceback."""
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("lanescope: ")
    return done.stderr


def test_the_pointer_is_under_the_wrong_character(lanescope_here):
    text = "h0 -> g0, g0 -> h0.magnetic 64MiB"
    message = refused(lanescope_here("copy", text, "--machine", "h200-x2"))
    first, shown, pointer = message.splitlines()
    assert first.startswith(f"lanescope: column {text.index('magnetic') + 1}: ")
    assert "'magnetic' is not a kind of memory; there are pageable, pinned," in first
    assert shown.index("magnetic") == pointer.index("^") == len(pointer) - 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("h0 -> g0 @sm:500",), "g0 has 132 SMs, the copies take 500 at once"),
        (("h0 -> g0", "--size", "1TiB"), "give smaller sizes"),
        (("h0 -> g0", "--size", "big"), "--size takes a size from 1 B"),
        (("h0 -> g0", "--json", "--csv"), "exclude each other"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_sentence(arguments, words):
    with pytest.raises(InputError) as caught:
        app(["copy", *arguments, "--machine", "h200-x2"], standalone_mode=False)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_a_gpu_it_says_so(lanescope_here):
    message = refused(lanescope_here("copy", "h0 -> g0"), code=4)
    assert "this machine has no g0, nor another GPU; see 'lanescope topo'" in message


def test_host_threads_need_no_gpu(lanescope_here):
    done = lanescope_here("copy", "h0 -> h0 @cpu:1 16MiB", "--samples", "6", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["results"]
    assert (row["n"], row["bytes"], row["provenance"]) == (6, 16 << 20, "measured")
    assert len(row["cpus"]) == 1


def test_a_described_machine_is_predicted(lanescope_here):
    done = lanescope_here(
        "copy", "h0 <-> g0, g0 -> g1 @sm:16 by g1", "--machine", "h200-x2", "--json"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["path"] for row in rows] == ["h0 → g0", "g0 → h0", "g0 → g1"]
    assert {row["verdict"] for row in rows} == {"predicted"}
    assert all(0.99 < row["share_of_limit"] <= 1 for row in rows)


def test_a_blank_word_is_refused(lanescope_here):
    done = lanescope_here("copy", "h0 -> g0", " ", "--machine", "h200-x2")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "is blank" in done.stderr
