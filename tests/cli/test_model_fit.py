"""``lanescope model fit``, on stored samples and where it cannot run."""

import json
import re
import shutil
from dataclasses import asdict, replace

import pytest

from lanescope.errors import InputError
from lanescope.prediction.contention import NotTogether
from lanescope.prediction.points import read_measured
from lanescope.prediction.stored_parameters import FILE, load, newest_fit, save
from lanescope.report.document_page import document_page
from lanescope.studies import fit_run
from lanescope.studies.analysis import analysis_document, analysis_folder
from lanescope.studies.fit import Fit
from lanescope.studies.fit_run import CONTENTION, Sets, facts_of, store_samples
from tests.prediction.made_up_points import measured
from tests.prediction.test_contention import MEMORY, sets_of
from tests.prediction.test_fit import RECORDED, TRUE


@pytest.fixture
def stored(tmp_path):
    """A copy of the recorded fit in the runs folder."""
    return shutil.copytree(RECORDED, tmp_path / "runs/fit")


def test_a_stored_fit_needs_no_gpu(lanescope_here, stored):
    done = lanescope_here("model", "fit", str(stored))
    assert done.returncode == 0
    assert "L + o, the smallest copy" in done.stdout
    assert re.search(r"5[56]\.\d GB/s", done.stdout)
    assert "predicted within" in done.stdout
    assert (stored / "link-parameters.json").is_file()


def test_a_fit_from_elsewhere_stays_as_it_is(lanescope_here, stored, tmp_path):
    folder, here = stored.rename(tmp_path / "unpacked"), tmp_path / "here"
    here.mkdir()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = lanescope_here("model", "fit", folder, cwd=here)
    assert done.returncode == 0
    assert "goes to unpacked.link-parameters.json" in done.stderr
    assert lanescope_here("model", "fit", folder, "--out", tmp_path / "out").returncode == 0
    written = here / "unpacked.link-parameters.json"
    assert written.read_bytes() == (tmp_path / "out/link-parameters.json").read_bytes()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_json_is_a_file_of_parameters(lanescope_here, stored, tmp_path):
    done = lanescope_here("model", "fit", str(stored), "--json")
    file = tmp_path / "mine.json"
    file.write_text(done.stdout)
    told = lanescope_here(
        *["model", "predict", "--h2d", "1GB", "--kernel", "1ms", "--json", "--parameters"],
        str(file),
    )
    assert json.loads(told.stdout)["predicted"] is True


def test_plots_show_what_was_not_fitted(lanescope_here, stored, tmp_path):
    assert (
        lanescope_here("model", "fit", str(stored), "--plots", str(tmp_path / "p")).returncode == 0
    )
    for direction, where in (("h2d", "to the GPU"), ("d2h", "from the GPU")):
        text = (tmp_path / "p" / f"fit-{direction}.svg").read_text()
        assert f"Transfers {where} that were not fitted" in text
        assert "predicted" in text


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere"], 2, "no run 'nowhere' here or under "),
        (["."], 2, ". holds no fit: it has no transfers.parquet and fit.json; name a run of"),
        (["--budget", "0"], 2, "--budget takes seconds above 0 and up to 60"),
        (["--budget", "2min"], 2, "--budget takes seconds above 0 and up to 60"),
        (["--gpu", "77"], 4, "there is no GPU 77 here to be measured"),
    ],
)
def test_bad_input_is_one_sentence(lanescope_here, arguments, code, words):
    done = lanescope_here("model", "fit", *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_sets_of_several_gpus_are_fitted_and_shown(lanescope_here, stored):
    busy = NotTogether("h0 → g1", "g1 is in use")
    sets = Sets(tuple(sets_of([MEMORY])), (busy,))
    (stored / CONTENTION).write_text(json.dumps(sets, default=asdict))
    done = lanescope_here("model", "fit", stored)
    assert done.returncode == 0, done.stderr
    assert (
        "together: read 190, write 160, read and write 190 GB/s at most (89% of it" in done.stdout
    )
    assert "1 sets have no numbers" not in done.stdout
    assert "One set has no numbers" in done.stdout
    assert "g1 is in use" in done.stdout
    rows = [line for line in done.stdout.splitlines() if re.match(r" g0, g1, g2, g3 +both", line)]
    assert len(rows) == 1
    assert load(stored / FILE).host_bandwidth[0].gpus == (0, 1, 2, 3)
    (stored / CONTENTION).write_text('{"sets": [{"node": 0, "rates": 7}]}')
    broken = lanescope_here("model", "fit", stored)
    assert broken.returncode == 2
    assert "'rates'" in broken.stderr
    assert "Traceback" not in broken.stderr


def test_what_was_timed_before_a_kill_is_there(tmp_path, two_gpus, monkeypatch):
    monkeypatch.setattr(fit_run, "_POINTS_A_WRITE", 1)
    machine = two_gpus

    def points():
        yield from measured(TRUE)[:3]
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        analysis_folder("fit", tmp_path / "run", machine) as run,
    ):
        store_samples(run, facts_of(machine, 0, "a test"), points())
    assert len(read_measured(tmp_path / "run" / "transfers.parquet")) == 3


def test_a_fit_is_found_by_its_machine(tmp_path, two_gpus):
    machine = two_gpus
    folder = tmp_path / "20261121-fit"
    with analysis_folder("fit", folder, machine) as run:
        store_samples(run, facts_of(machine, 0, "a test"), measured(TRUE))
    save(fit_run.fit_folder(folder)[0], folder / FILE)
    assert newest_fit(machine, tmp_path).source.startswith("a test on ")


def test_a_fit_is_a_run_that_is_listed_shown_and_has_a_page(lanescope_here, tmp_path, two_gpus):
    folder = tmp_path / "20261123-fit"
    with analysis_folder("fit", folder, two_gpus) as run:
        store_samples(run, facts_of(two_gpus, 0, "a test"), measured(TRUE))
    shown = lanescope_here("show", folder)
    assert shown.returncode == 0, shown.stderr
    assert "L + o, the smallest copy" in shown.stdout
    as_json = json.loads(lanescope_here("report", folder, "--json").stdout)
    assert as_json["source"].startswith("a test on ")
    page = tmp_path / "fit.html"
    assert lanescope_here("report", folder, "--out", page, "--static").returncode == 0
    assert "L + o, the smallest copy" in page.read_text()
    assert lanescope_here("compare", folder, folder).returncode == 3  # no paths


def test_a_stored_fit_has_a_picture_of_both_directions(lanescope_here, tmp_path):
    pytest.importorskip("vl_convert")
    out = ("--out", tmp_path / "again", "--plot", tmp_path / "x.svg")
    done = lanescope_here("model", "fit", RECORDED, *out)
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "x.svg").read_text()
    for where in ("to", "from"):
        assert f"Transfers {where} the GPU" in picture


def test_what_is_of_new_runs_is_refused_with_a_stored_one(lanescope_here):
    for verb, option in (("fit", "--no-store"), ("fit", "--no-page"), ("validate", "--no-page")):
        done = lanescope_here("model", verb, RECORDED, option)
        assert done.returncode == 2
        assert "was measured already" in done.stderr


def test_a_fit_of_which_nothing_was_held_out_has_a_page_without_charts(tmp_path, two_gpus):
    with analysis_folder("fit", tmp_path / "run", two_gpus) as run:
        store_samples(run, facts_of(two_gpus, 0, "a test"), measured(TRUE))
    found = Fit.read(tmp_path / "run")
    fitted = replace(found, measured=tuple(m for m in found.measured if not m.point.held_out))
    assert fitted.charts() == []
    page = document_page(analysis_document(Fit, tmp_path / "run", fitted), static=True)
    assert "L + o, the smallest copy" in page
    with pytest.raises(InputError, match="nothing to plot"):
        fitted.picture()
