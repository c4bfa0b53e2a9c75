"""``lanescope model validate`` of a stored run, as a user types it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lanescope.cli.app import app
from lanescope.errors import InputError
from lanescope.machine.discovery import discover
from lanescope.prediction.predictor import Method
from lanescope.prediction.stored_parameters import save as save_parameters
from lanescope.studies.analysis import analysis_folder
from lanescope.studies.ocean.measured import save
from tests.studies.link_parameters import fitted
from tests.studies.ocean.stored import FOLDER, case, check, h200, saved, timed, validation

DOCUMENT = (Path(__file__).parents[2] / "docs" / "model.md").read_text()
VALIDATE = DOCUMENT.split("## `validate`")[1].split("\n## ")[0]


@pytest.fixture
def parameters(tmp_path):
    save_parameters(fitted(), tmp_path / "fit.json")
    return tmp_path / "fit.json"


@pytest.fixture
def shown(capsys, parameters):
    """Returns what is printed, and the exit code."""

    def show(*arguments, machine=parameters):
        named = () if machine is None else ("--parameters", str(machine))
        code = app(["model", "validate", *map(str, arguments), *named], standalone_mode=False)
        return capsys.readouterr().out, code

    return show


def test_the_document_has_every_option(capsys):
    app(["model", "validate", "--help"], standalone_mode=False)
    options = set(re.findall(r"--[a-z][a-z0-9-]+", capsys.readouterr().out)) - {"--help"}
    assert len(options) >= 7
    assert options <= set(re.findall(r"--[a-z][a-z0-9-]+", VALIDATE))


def test_every_case_has_a_table_of_measured_and_predicted_times(shown):
    text, code = shown(FOLDER)
    assert code == 0
    stored = h200()
    for one in stored.cases:
        assert f"\n{one.name}: kernel alone " in text
    row = r"^ (\w+) +(\d+|–) {3,}(.+?) {3,}(.+?) {3,}(.+?) {3,}(.+?) {3,}([+-]\d+\.\d\d %) "
    rows = re.findall(row, text, re.M)
    assert len(rows) == len(stored.cases) * len(Method)
    for method, streams, _, measured, _, predicted, _ in rows:
        assert (streams == "–") == (method not in ("Streams", "Hybrid"))
        assert " to " in measured
        assert " to " in predicted
    assert text.count("is predicted to be the fastest: ") == len(stored.cases)
    assert "predicted, replay" in text
    assert "Largest error of each method" in text
    for published in ("9.73 %", "3.85 %", "6.46 %", "10.75 %"):
        assert published in text
    assert "By replay, of " in text
    assert "By equations, of " in text
    assert "Held out: every time of a method" in text


def test_one_predictor_may_be_asked_for(shown):
    text, _ = shown(FOLDER, "--predictor", "equations")
    assert "predicted, equations" in text
    assert "replay" not in text


def test_json_has_every_row_of_every_predictor(shown):
    text, code = shown(FOLDER, "--json")
    told = json.loads(text)
    assert code == 0
    assert [each["predictor"] for each in told["predicted"]] == ["replay", "equations"]
    stored = h200()
    for each in told["predicted"]:
        assert [one["name"] for one in each["cases"]] == [one.name for one in stored.cases]
        for one, measured in zip(each["cases"], stored.cases, strict=True):
            assert len(one["rows"]) == len(measured.timed)
            assert one["choice"] in ("right", "tie", "wrong")
            for row in one["rows"]:
                predicted, seconds = row["predicted"], row["measured"]["seconds"]
                assert predicted["low_seconds"] < predicted["high_seconds"]
                assert row["error"] == pytest.approx(predicted["seconds"] / seconds - 1)
        largest = each["largest_errors"]["Streams"]
        errors = [r["error"] for c in each["cases"] for r in c["rows"] if r["method"] == "Streams"]
        assert abs(largest["error"]) == max(map(abs, errors))
        assert largest["paper"] == 0.0646
    assert told["wrong_outputs"] == 0


def test_bars_are_drawn_for_every_case(shown, tmp_path):
    shown(FOLDER, "--plot", tmp_path / "bars.svg")
    picture = (tmp_path / "bars.svg").read_text()
    for one in h200().cases:
        assert one.name in picture
    assert "Pageable is not drawn" in picture
    assert "Measured on NVIDIA H200" in picture
    shown(FOLDER, "--plot", tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"ends in \.svg or \.png"):
        shown(FOLDER, "--plot", tmp_path / "bars.pdf")
    with pytest.raises(InputError, match="there is no folder"):
        shown(FOLDER, "--plot", tmp_path / "nowhere" / "bars.svg")


def test_a_run_brings_the_parameters_that_it_was_predicted_from(shown, tmp_path):
    saved(replace(h200(), parameters=replace(fitted(), name="its-own")), tmp_path / "run")
    assert "Predicted by replay for its-own" in shown(tmp_path / "run", machine=None)[0]
    assert "Predicted by replay for fitted" in shown(tmp_path / "run")[0]


def test_published_parameters_are_not_called_fitted(shown):
    text, _ = shown(FOLDER, machine="gtx-titan")
    assert "The parameters are published" in text
    assert "Fitted:" not in text
    assert "Pageable is left out" in text


def test_a_gpu_by_name_is_predicted_for_by_either_option(shown, capsys):
    text, code = shown(FOLDER, machine="a100-sxm")
    assert code == 0
    assert "Predicted by replay for a100-sxm" in text
    app(["model", "validate", str(FOLDER), "--machine", "a100-sxm"], standalone_mode=False)
    again = capsys.readouterr()
    assert again.out == text
    assert "--machine is now --parameters" in again.err
    with pytest.raises(InputError, match=r"^--parameters: no link .*'a100-smx'; did you mean a100"):
        app(["model", "validate", str(FOLDER), "--machine", "a100-smx"], standalone_mode=False)


def test_a_wrong_output_ends_with_1(shown, tmp_path):
    for largest, words in ((3e-13, "off by 3.0e-13"), (None, "no number")):
        whole = validation(case(timed(Method.EXPLICIT, 1, 1.0), checks=[check(largest)]))
        saved(whole, tmp_path / str(largest))
        text, code = shown(tmp_path / str(largest))
        assert code == 1
        assert f"\nWRONG: sum of axpy by Explicit is {words}; allowed are 1.0e-13\n" in text


def test_what_is_missing_or_of_another_machine_is_said(shown, tmp_path):
    half = case(timed(Method.EXPLICIT, 1, 1.0), timed(Method.STREAMS, 2, 0.8))
    saved(validation(half, finished=False, machine_key="a GPU; b; c"), tmp_path / "run")
    text, code = shown(tmp_path / "run")
    assert code == 0
    assert "interrupted" in text
    assert "The parameters are of another machine" in text
    saved(validation(finished=False), tmp_path / "none")
    with pytest.raises(InputError, match="before the first case"):
        shown(tmp_path / "none")


@pytest.mark.parametrize("option", [("--gpu", "0"), ("--grid", "64x48x10"), ("--out", "x")])
def test_a_stored_run_is_not_measured_again(shown, option):
    with pytest.raises(InputError, match="was measured already"):
        shown(FOLDER, *option)


def test_an_unknown_predictor_is_named_before_anything_else(shown):
    with pytest.raises(InputError, match="did you mean replay"):
        shown("nowhere", "--predictor", "reply")


@pytest.mark.skipif(bool(discover().gpus), reason="there is a GPU")
def test_without_a_gpu_a_stored_run_is_named(lanescope_here):
    done = lanescope_here("model", "validate")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1
    assert "'lanescope model validate RUN'" in done.stderr


def measured_on_the_host(monkeypatch, two_gpus):
    """Let the verb find two GPUs whose runs are computed by the host."""
    from lanescope.studies.ocean import measuring
    from tests.studies.ocean.test_recording import HostMemory

    def run_case(memory, one, method, streams, budget, *, spoil=True):
        memory.made = one.on_host(memory.grid)
        return type("Times", (), {"seconds": _seconds(6, 1e-3 * streams)})

    class Memory:
        @staticmethod
        def made(machine, gpu, grid, *, pageable=False):
            return HostMemory(grid, pageable)

    monkeypatch.setattr(measuring, "GridMemory", Memory)
    monkeypatch.setattr(measuring, "run_case", run_case)
    monkeypatch.setattr(measuring, "kernel_seconds", lambda *_: _seconds(3, 1e-4))
    monkeypatch.setattr("lanescope.studies.ocean.validate.discover", lambda: two_gpus)


def _seconds(count, value):
    import numpy as np

    return np.full(count, value)


def test_a_measured_run_is_stored_and_shown_again(
    monkeypatch, two_gpus, tmp_path, parameters, capsys
):
    measured_on_the_host(monkeypatch, two_gpus)
    run = tmp_path / "run"
    arguments = ["model", "validate", "--grid", "16x12x5", "--gpu", "1", "--out", str(run)]
    code = app([*arguments, "--parameters", str(parameters)], standalone_mode=False)
    first = capsys.readouterr()
    assert code == 0
    assert str(run) in first.err
    assert "grids of 16 × 12 × 5 points" in first.out
    assert "outputs compared agree with NumPy's" in first.out
    app(["model", "validate", str(run)], standalone_mode=False)
    assert capsys.readouterr().out == first.out
    with pytest.raises(InputError, match="an empty folder"):
        app([*arguments, "--parameters", str(parameters)], standalone_mode=False)


@pytest.mark.parametrize("grid", ["10x10", "axbxc", "10x0x10"])
def test_a_grid_that_is_none_is_refused(monkeypatch, two_gpus, shown, grid):
    measured_on_the_host(monkeypatch, two_gpus)
    with pytest.raises(InputError, match=r"--grid .* is no grid"):
        shown("--grid", grid)


def test_a_validation_is_a_run_that_is_shown_and_has_a_page(lanescope_here, tmp_path):
    whole = replace(h200(), parameters=fitted())
    with analysis_folder("validate", tmp_path / "run") as run:
        save(whole, run)
    done = lanescope_here("show", tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Predicted by replay for fitted" in done.stdout
    page = tmp_path / "x.html"
    assert lanescope_here("report", tmp_path / "run", "--out", page).returncode == 0
    assert "Predicted by replay for fitted" in page.read_text()
    plots = lanescope_here("report", tmp_path / "run", "--plots", tmp_path / "plots")
    assert f"files in {tmp_path / 'plots'}" in plots.stdout
