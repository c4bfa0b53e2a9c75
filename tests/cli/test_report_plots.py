"""``lanescope report --plots`` as a user meets it."""

import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.store.folder import State
from lanescope.store.store import RunWriter
from lanescope.studies.taruc.charts import taruc_charts
from tests.report import factory
from tests.taruc_plan import contention, paper_machine
from tests.taruc_suite import PLANTED, suite_run


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lanescope", "report", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def stored(run, folder: Path) -> str:
    writer = RunWriter(folder, run.manifest)
    for result in run.results:
        writer.add(result)
    writer.finish(State.COMPLETE)
    return str(folder)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    run = suite_run(paper_machine(1, 0), PLANTED, (contention,))
    return run, stored(run, tmp_path_factory.mktemp("runs") / "suite")


def test_every_chart_becomes_two_files(suite, tmp_path: Path):
    pytest.importorskip("vl_convert")
    run, folder = suite
    plots = tmp_path / "plots"
    done = report(folder, "--plots", str(plots))
    keys = [c.key for c in taruc_charts(run)]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{2 * len(keys)} files in {plots}\n"
    assert sorted(p.name for p in plots.iterdir()) == sorted(
        f"{key}.{kind}" for key in keys for kind in ("png", "svg")
    )


def test_one_sentence_says_what_is_wrong(suite, tmp_path: Path):
    _, folder = suite
    taken = tmp_path / "file"
    taken.write_text("mine")
    check = stored(factory.check_run(), tmp_path / "check")
    nothing = stored(factory.run_of([], factory.eight_gpus()), tmp_path / "nothing")
    for arguments, words in (
        ((folder, "--plots", str(taken)), "is not a folder"),
        ((folder, "--plots", str(tmp_path), "--json"), "--plots writes pictures alone"),
        ((nothing, "--plots", str(tmp_path / "none")), "nothing to plot"),
        ((check, "--static", "--json"), "--static is for the page"),
    ):
        done = report(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "none").exists()
