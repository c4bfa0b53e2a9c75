"""``lanescope node`` as a prolog calls it."""

import json
import os
import signal

import pytest

from lanescope.operators import SNIPPETS, snippet_text
from tests.patience import PATIENCE_S, until


@pytest.mark.usefixtures("small_arrays")
def test_a_node_without_the_gpus_that_it_should_have_is_missing_them(
    lanescope_here, tmp_path, no_gpus
):
    text, run = tmp_path / "report.json", tmp_path / "run"
    command = ("node", "--within", "20s", "--expect-gpus", "8", "--out", run)
    done = lanescope_here(*command, "--format", "json", "--to", text)
    assert done.returncode == 4, done.stderr
    assert done.stdout.count("\n") == 1
    assert "MISSING (exit code 4): GPUs that can be used: 0 found, 8 expected." in done.stdout
    report = json.loads(text.read_text())
    assert (report["state"], report["folder"]) == ("missing", str(run))
    assert report["rates"]
    assert lanescope_here("show", run).returncode == 4


@pytest.mark.usefixtures("small_arrays")
def test_what_was_measured_is_printed_though_the_disk_is_full(lanescope_here, no_gpus):
    command = ("node", "--within", "20s", "--no-store", "--format", "json", "--to", "/dev/full")
    done = lanescope_here(*command)
    assert done.returncode == 2
    assert "NOT MEASURED (exit code 3)" in done.stdout
    assert done.stderr.count("\n") == 1
    assert "cannot write /dev/full: No space left on device" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--within", "0.1s"),
        ("--format", "xml"),
        ("--to", "/nowhere/at/all.prom"),
        ("--no-store", "--out", "x"),
        ("--snippet", "pbs"),
        ("--snippet", "nhc", "--to", "nhc.sh"),
        ("--expect-gpus", "-1"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_sentence_and_no_verdict(lanescope_here, arguments):
    done = lanescope_here("node", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", SNIPPETS)
def test_the_command_line_prints_each(lanescope_here, name):
    done = lanescope_here("node", "--snippet", name)
    assert (done.returncode, done.stdout) == (0, snippet_text(name))
    assert "lanescope" in done.stdout


@pytest.mark.usefixtures("small_arrays")
def test_an_interrupted_run_that_is_not_stored_promises_none(lanescope, tmp_path):
    lanescope.environment["TMPDIR"] = str(tmp_path)
    process = lanescope.start("check", "host-*", "--no-store")
    until(lambda: list(tmp_path.glob("*/check/results/*.parquet")))
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, errors) == (130, "", "lanescope: interrupted\n")
    assert os.listdir(tmp_path) == []
