"""``lanescope node`` as a prolog calls it."""

import json

import pytest

from lanescope.operators import SNIPPETS, snippet_text


def test_json_of_a_real_check_says_what_was_measured(lanescope, tmp_path, no_gpus):
    done = lanescope("node", "--within", "20s", "--format", "json", "--out", tmp_path / "run")
    report = json.loads(done.stdout)
    assert done.returncode == report["exit_code"] == 3  # no GPU is there: not shown to be sound
    assert report["folder"] == str(tmp_path / "run")
    assert "no NVIDIA GPU" in report["sentence"]
    assert lanescope("show", tmp_path / "run").returncode in (0, 3)


def test_a_node_without_the_gpus_that_it_should_have_is_missing_them(lanescope, tmp_path, no_gpus):
    text = tmp_path / "lanescope.prom"
    command = ("node", "--within", "20s", "--expect-gpus", "8", "--no-store")
    done = lanescope(*command, "--format", "prometheus", "--to", text)
    assert done.returncode == 4, done.stderr
    assert done.stdout.count("\n") == 1
    assert "MISSING (exit code 4): GPUs that can be used: 0 found, 8 expected." in done.stdout
    assert 'lanescope_node_state{state="missing"} 1\n' in text.read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--within", "0.1s"),
        ("--format", "xml"),
        ("--to", "/nowhere/at/all.prom"),
        ("--no-store", "--out", "x"),
        ("--snippet", "pbs"),
        ("--expect-gpus", "-1"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_sentence_and_no_verdict(lanescope, arguments):
    done = lanescope("node", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", SNIPPETS)
def test_the_command_line_prints_each(lanescope, name):
    done = lanescope("node", "--snippet", name)
    assert (done.returncode, done.stdout) == (0, snippet_text(name))
    assert "lanescope" in done.stdout
