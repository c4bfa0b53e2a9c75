"""Run folders that somebody else packed: nothing outside of them is read or written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lanescope.codec.files import write_atomically
from lanescope.prediction.stored_parameters import named_parameters, save
from lanescope.store.folder import State
from lanescope.store.store import RunWriter
from tests.report import factory
from tests.studies.pcie_thesis.reproductions import reproduction

RESULTS = Path(__file__).parents[2] / "benchmarks/results/h200-x1"
MINE = "ssh-ed25519 mine\n"


@pytest.fixture
def strange(tmp_path):
    """Return the folder of a finished run that lies outside of the runs folder."""
    run = factory.check_run(missing="g1")
    writer = RunWriter(tmp_path / "unpacked/run", run.manifest)
    for result in run.results:
        writer.add(result)
    return writer.finish(State.COMPLETE).folder


@pytest.fixture
def key(tmp_path):
    """Return a file of the user's that nobody may touch."""
    path = tmp_path / "authorized_keys"
    path.write_text(MINE)
    return path


def test_no_link_of_a_folder_leads_a_page_elsewhere(lanescope_here, strange, key, tmp_path):
    for name in (".report.html.part", "report.html"):
        (strange / name).symlink_to(key)
    before = sorted(os.listdir(strange))
    done = lanescope_here("report", strange, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "run.report.html\n")
    assert done.stderr.count("\n") == 1
    assert "run.report.html" in done.stderr
    assert key.read_text() == MINE
    assert sorted(os.listdir(strange)) == before


def test_a_page_goes_into_a_run_of_the_runs_folder_and_follows_no_link(
    lanescope_here, strange, key, tmp_path
):
    kept = tmp_path / "runs/kept"
    shutil.copytree(strange, kept)
    for name in (".report.html.part", "report.html"):
        (kept / name).symlink_to(key)
    done = lanescope_here("report", "kept", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{kept}/report.html\n")
    assert key.read_text() == MINE
    assert not (kept / "report.html").is_symlink()


def test_a_reproduction_from_elsewhere_stays_as_it_is(lanescope_here, tmp_path):
    folder = reproduction(tmp_path / "unpacked", most=1)
    before = sorted(os.listdir(folder))
    done = lanescope_here("report", folder, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "unpacked.report.html\n")
    assert sorted(os.listdir(folder)) == before


def test_check_writes_through_no_link_of_its_folder(lanescope_here, key, tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "results").symlink_to(elsewhere)
    (out / ".manifest.json.part").symlink_to(key)
    done = lanescope_here("check", "--machine", "h200-x2", "--out", out)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert key.read_text() == MINE
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", ["manifest.json", "machine.toml", "results.parquet"])
@pytest.mark.parametrize("kind", ["link", "FIFO"])
def test_what_is_no_file_is_refused_in_one_sentence(lanescope_here, strange, tmp_path, name, kind):
    path = strange / name
    moved = path.rename(tmp_path / f"moved-{name}")
    if kind == "link":
        path.symlink_to(moved)
    else:
        os.mkfifo(path)
    done = lanescope_here("report", strange, "--json")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert str(strange) in done.stderr


def test_a_folder_of_results_that_is_a_link_is_refused(lanescope_here, tmp_path):
    run = factory.check_run(missing="g1")
    writer = RunWriter(tmp_path / "run", run.manifest)
    writer.add_all(run.results)
    writer.close()
    (tmp_path / "run/results").rename(tmp_path / "elsewhere")
    (tmp_path / "run/results").symlink_to(tmp_path / "elsewhere")
    done = lanescope_here("report", tmp_path / "run", "--json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "results is a symbolic link" in done.stderr


@pytest.mark.parametrize(
    ("results", "command"),
    [
        ("link-parameters.json", ("model", "predict", "--h2d=1MB", "--kernel=0", "--parameters")),
        ("model/validate/validation.json", ("model", "validate")),
        ("compress/bench/compress.json", ("bench", "compress", "--from")),
    ],
)
def test_results_that_are_links_are_not_followed(lanescope_here, tmp_path, results, command):
    folder = tmp_path / "strange"
    folder.mkdir()
    file = RESULTS / results
    if not file.exists():
        file = tmp_path / results
        save(named_parameters("h200"), file)
    (folder / file.name).symlink_to(file)
    for name in (folder, folder / file.name):
        done = lanescope_here(*command, name)
        assert done.returncode == 2, done.stdout
        assert f"{file.name} is a symbolic link" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_fifos_and_devices_are_no_machine_files(lanescope_here, tmp_path):
    os.mkfifo(tmp_path / "machine.toml")
    for path in (tmp_path / "machine.toml", "/dev/zero"):
        done = lanescope_here("topo", "--machine", path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert "no regular file" in done.stderr


def test_a_file_keeps_the_rights_that_new_files_get(tmp_path):
    write_atomically(tmp_path / "mine", b"text")
    (tmp_path / "like").touch()
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "like").stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["like", "mine"]
