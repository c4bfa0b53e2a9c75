"""The command line as a user meets it: in a process of its own."""

import json
import os
import pty
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import lanescope as lanescope_package
from lanescope.store.store import read_run
from tests.cli.conftest import directions_to_end, wait_for_a_result
from tests.patience import PATIENCE_S, until
from tests.terminals import drawn_on

BROKEN = 'name = "x"\n[[nodes]]\nindex = 0\n[[links]]\na = "h0"\nb = "g7"\nkind = "pcie"\n'


@pytest.mark.parametrize(
    "arguments",
    [
        ("chekc",),
        ("check", "nonsense/case"),
        ("check", "--size", "0"),
        ("check", "--size", "-1"),
        ("check", "--size", "1QB"),
        ("check", "--machine", "h200-x2", "--size", "200GiB"),
        ("check", "--frobnicate"),
        ("check", "--target", "many"),
        ("check", "--budget", "0"),
        ("check", "--json", "--csv"),
        ("check", "--machine", "nonsense"),
        ("check", "--machine", "BROKEN.toml"),
        ("check", "--machine", "h200-x2", "--out", "/proc/run"),
        ("check", "--machine", "h200-x2", "--out", "USED"),
        ("bench", "nonsense"),
        ("bench", "sweep", "--machine", "h200-x2", "--max", "1PiB"),
        ("bench", "sweep", "--machine", "h200-x2", "--max", "100TiB"),
        ("bench", "sweep", "--machine", "h200-x2", "--min", "1MiB", "--max", "1KiB"),
        ("bench", "sweep", "--machine", "h200-x2", "--gpu", "9"),
        ("bench", "sweep", "--machine", "h200-x2", "--memory", "magnetic"),
        ("topo", "--machine", "h200-x2", "--save", "/proc/machine.toml"),
        ("topo", "--machine", "h200-x2", "--svg", "/proc/machine.svg"),
        ("topo", "--machine", "h200-x2", "--svg", ""),
        ("topo", "--machine", "h200-x2", "--svg", "/"),
        ("bench", "--machine", "h200-x2", "--format", "nvbandwidth", "--csv"),
        ("bench", "-t", "--machine", "h200-x2"),
        ("bench", "host_to_device_memcpy_ce"),
        ("report", "--csv", "--out", "page.html"),
        ("report", ""),
        ("report", "nonsense"),
        ("report", "."),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    lanescope_here, tmp_path, monkeypatch, arguments
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "BROKEN.toml").write_text(BROKEN)
    (tmp_path / "USED").mkdir()
    (tmp_path / "USED" / "file").write_text("mine")
    done = lanescope_here(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lanescope: ")
    assert "Traceback" not in done.stderr


def test_help_and_version(lanescope_here):
    text = lanescope_here("--help").stdout
    assert all(verb in text for verb in ("check", "bench", "topo", "report"))
    version = lanescope_package.__version__
    shown = lanescope_here("--version").stdout
    about = (
        rf"lanescope {re.escape(version)} \(commit .+, CUDA \d+\.\d+, code for .*(sm_|PTX ).+\)\n"
    )
    assert re.fullmatch(about, shown)


def test_no_verb_is_answered_with_what_to_do_first(lanescope_here):
    done = lanescope_here()
    assert (done.returncode, done.stderr) == (0, "")
    assert "lanescope check" in done.stdout


def test_a_reader_that_goes_away_loses_nothing(lanescope, tmp_path):
    with lanescope.start("check", "--machine", "h200-x2", "--out", tmp_path / "run") as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("arguments", [("check", "--list"), ("topo", "--json"), ("topo",)])
def test_output_that_nobody_takes(lanescope, arguments):
    arguments = (*arguments, "--machine", "h200-x2")
    with lanescope.start(*arguments) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lanescope", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr


@pytest.mark.usefixtures("small_arrays")
def test_progress_on_a_terminal_only(lanescope, tmp_path):
    def stderr_of(arguments):
        ours, theirs = pty.openpty()
        with lanescope.start(*arguments, stderr=theirs) as process:
            os.close(theirs)
            drawn = drawn_on(ours)
            process.communicate(timeout=PATIENCE_S)
        os.close(ours)
        return drawn

    check = ("check", "host-*/1-core", "--budget", "0.2")
    assert "measuring" in stderr_of(check)
    assert "measuring" not in lanescope(*check).stderr


def test_the_list_of_cases_can_be_narrowed(lanescope_here):
    done = lanescope_here("check", "h2d/*", "--list", "--machine", "h200-x2")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["h2d/g0", "h2d/g1"]


def test_help_joins_the_lines_of_a_docstring(lanescope_here):
    lines = lanescope_here("bench", "latency", "--help").stdout.splitlines()
    assert "in" not in map(str.strip, lines)  # the word that its third line began with


def test_help_is_quick(lanescope):
    def seconds():
        """Of a CPU: a process that has one to itself lasts as long."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lanescope("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    until(lambda: seconds() < 0.6)  # 0.3 s wanted; cores that share a cache get twice that


def test_import_is_light():
    code = "import sys, lanescope; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"numpy", "pyarrow", "scipy", "rich", "lanescope._native"} & set(loaded)


@pytest.mark.usefixtures("small_arrays")
def test_check_measures_this_machine(lanescope_here, tmp_path):
    out = tmp_path / "run"
    done = lanescope_here("check", "host-copy/h0/1-core", "--budget", "0.2", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "memory h0: copy, one core" in done.stdout
    assert str(out / "report.html") in done.stderr
    (result,) = read_run(out).results
    assert 0.5 < result.copies[0].gbs < 1000
    assert (out / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("small_arrays")
def test_json_is_json_and_nothing_else(lanescope_here):
    done = lanescope_here("check", "host-triad/h0/1-core", "--budget", "0.1", "--json")
    (row,) = json.loads(done.stdout)["results"]
    assert row["provenance"] == "measured"
    assert row["counted_bytes"] == 3 * row["bytes"]


def test_csv_and_report_of_a_stored_run(lanescope_here):
    done = lanescope_here("check", "h2d/*", "--machine", "h200-x2", "--csv")
    assert len(done.stdout.splitlines()) == 3
    assert "predicted" in done.stdout
    page = Path(lanescope_here("report", "latest").stdout.strip())
    assert "predicted" in page.read_text().lower()
    assert lanescope_here("report", "latest", "--csv").stdout == done.stdout


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)], ids=str)
@pytest.mark.parametrize("arguments", [("check",), ("bench", "sweep", "--max", "1MiB")], ids=str)
def test_every_output_of_a_described_machine_says_predicted(lanescope_here, arguments, form):
    done = lanescope_here(*arguments, "--machine", "p6000", *form)
    assert "predicted" in done.stdout.lower(), done.stderr


def test_strict(lanescope_here, tmp_path):
    text = 'name = "x"\n[[nodes]]\nindex = 0\ncores = [[0]]\n'
    (tmp_path / "m.toml").write_text(text)
    command = ("check", "--machine", tmp_path / "m.toml")
    assert lanescope_here(*command).returncode == 0  # nothing to predict from, and it says so
    assert lanescope_here(*command, "--strict").returncode == 3


def test_topo(lanescope_here, tmp_path):
    saved, picture = tmp_path / "m.toml", tmp_path / "m.svg"
    done = lanescope_here("topo", "--machine", "h200-x2", "--save", saved, "--svg", picture)
    assert "PCIe 5.0 x16" in done.stdout
    assert picture.read_text().startswith("<svg")
    again = lanescope_here("topo", "--machine", saved, "--json")
    assert [g["name"] for g in json.loads(again.stdout)["gpus"]] == ["NVIDIA H200"] * 2
    assert "h0" in lanescope_here("topo").stdout  # this machine


@pytest.mark.usefixtures("small_arrays")
@directions_to_end
def test_what_was_measured_survives(lanescope, lanescope_here, tmp_path, sent, code, state):
    arguments = ("check", "host-*", "--budget", "1", "--target", "0.000001%")
    process = lanescope.start(*arguments, "--out", tmp_path / "run")
    wait_for_a_result(tmp_path / "run")
    process.send_signal(sent)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    promised = f"is stored, and 'lanescope report {tmp_path / 'run'}' shows it"
    assert (promised in errors) is (state == "interrupted")
    run = read_run(tmp_path / "run")
    assert run.manifest.state is state
    assert run.results[0].copies[0].statistics.n >= 6
    assert lanescope_here("report", tmp_path / "run", cwd=tmp_path).returncode == 0
    assert (tmp_path / "run.report.html").is_file()


def test_a_place_that_cannot_be_looked_at_is_named_with_what_to_do(lanescope_here):
    done = lanescope_here("fleet", "report", "a" * 256)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("/fleet.json: File name too long; name another place\n")
