"""``--within``: the time that a whole command may take."""

from __future__ import annotations

import json

import pytest
import typer

from lanescope.cli.app import app
from lanescope.cli.options import WITHIN
from lanescope.errors import InputError
from lanescope.results import Status
from lanescope.store.store import read_run
from lanescope.studies.running import finished_names

HERE = ("check", "host-*")


def test_cases_without_time_are_reported_stored_and_measured_by_resume(lanescope_here, tmp_path):
    done = lanescope_here(*HERE, "--within", "1ms", "--strict", "--out", tmp_path / "run")
    assert done.returncode == 3, done.stderr
    # as wide as the table leaves it
    told = " ".join(done.stdout.replace("│", " ").split())
    assert "not measured: The time given by --within was over." in told
    run = read_run(tmp_path / "run")
    assert run.results
    for result in run.results:
        assert result.not_measured.status is Status.NOT_MEASURED
        assert result.stop.reason == "time"
    assert finished_names(run) == set()
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.usefixtures("small_arrays")
def test_much_time_changes_nothing(lanescope_here):
    arguments = ("check", "host-copy/h0/1-core", "--budget", "0.1", "--json")
    (row,) = json.loads(lanescope_here(*arguments, "--within", "1h").stdout)["results"]
    assert row["provenance"] == "measured"
    assert row["n"] >= 1


@pytest.mark.parametrize("text", ["15", "0s", "-1s", "soon", "1000h", ""])
def test_no_times(text):
    with pytest.raises(InputError, match="--within"):
        WITHIN(text)


def test_a_wrong_time_is_one_sentence(lanescope_here):
    done = lanescope_here("check", "--within", "15")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--within" in done.stderr


def test_every_verb_with_a_budget_has_it():
    """But those that time what is no set of cases."""
    alone = {"compress", "fit"}

    def verbs(command, name):
        yield name, {option for one in command.params for option in one.opts}
        for inner, further in getattr(command, "commands", {}).items():
            yield from verbs(further, f"fleet {inner}" if name == "fleet" else inner)

    found = dict(verbs(typer.main.get_command(app), "lanescope"))
    budgeted = {name for name, options in found.items() if "--budget" in options} - alone
    assert {"check", "copy", "bench", "host", "sweep", "latency", "small", "sms"} <= budgeted
    timed = {name for name, options in found.items() if "--within" in options}
    assert budgeted == timed - {"node", "fleet check"}, "whose time is their budget"


@pytest.mark.native  # eight seconds
def test_a_suite_has_it_and_leaves_the_plots_out(lanescope_here, tmp_path):
    arguments = ("bench", "nurma", "--max", "1KB", "--within", "1min", "--out", tmp_path / "run")
    done = lanescope_here(*arguments)
    assert done.returncode == 0, done.stderr
    assert "no plots: --within" in done.stderr
    assert not (tmp_path / "run" / "plots").exists()
