"""``lanescope bench compress`` as a user meets it."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from lanescope.studies.compress.on_gpus import gpus_here
from tests.patience import PATIENCE_S, until

QUICK = ("bench", "compress", "--budget", "0.001", "--threads", "1")


OLD = Path(__file__).parents[2] / "benchmarks/results/epyc-2core/compress/examples.json"
no_gpu = pytest.mark.skipif(bool(gpus_here()), reason="there is a GPU")


def sentence(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def array(tmp_path):
    path = tmp_path / "heat.npy"
    np.save(path, np.full((100, 300), 2.5, np.float32))
    return path


def test_a_file_of_the_users(lanescope_here, array, tmp_path):
    done = lanescope_here(*QUICK, array, "--out", tmp_path / "run", "--link-speed", "0.001")
    assert done.returncode == 0, done.stderr
    assert "float32 100×300, 120 kB" in done.stdout
    assert "→ use " in done.stdout  # constant blocks, or another codec: they do the same here
    assert "made up" not in done.stdout
    assert f"run:  {tmp_path / 'run'}\n" in done.stderr
    assert f"page: {tmp_path / 'run' / 'report.html'}\n" in done.stderr
    stored = json.loads((tmp_path / "run" / "compress.json").read_text())
    assert stored["complete"] is True
    (told,) = stored["arrays"]
    assert told["codecs"][0]["ratio"] > 100
    assert told["codecs"][0]["predicted"]["pays"] is True


def test_json_is_what_is_stored(lanescope_here, array, tmp_path):
    done = lanescope_here(
        *QUICK, array, "--json", "--parameters", "h200", "--out", tmp_path / "run"
    )
    assert done.stdout == (tmp_path / "run" / "compress.json").read_text()
    assert json.loads(done.stdout)["link"]["gbs"] == pytest.approx(55, abs=2)


def test_examples_are_labelled_as_made_up(lanescope_here):
    done = lanescope_here(*QUICK, "--size", "64KiB", "--dimensionality", "1", "--json")
    told = json.loads(done.stdout)["arrays"]
    assert len(told) >= 6
    assert all(one["made_up"] for one in told)
    assert {one["dtype"] for one in told} == {"float32", "float64", "bfloat16", "int32"}


def test_the_picture(lanescope_here, tmp_path):
    (tmp_path / "a.f64").write_bytes(np.linspace(0, 1, 9000).tobytes())
    picture = tmp_path / "a.svg"
    done = lanescope_here(*QUICK, tmp_path / "a.f64", "--dimensionality", "1-3", "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert "Compression ratio by GFC" in picture.read_text()
    assert "gfc by dimensionality: 1: " in done.stdout
    (tmp_path / "a.i16").write_bytes(bytes(100))
    assert "note: --plot FILE is now --plots DIR" in done.stderr
    both = lanescope_here("bench", "compress", "--from", OLD, "--plots", tmp_path / "drawn")
    assert both.returncode == 0, both.stderr
    assert sorted(one.suffix for one in (tmp_path / "drawn").iterdir()) == [".png", ".svg"]
    none = lanescope_here(*QUICK, tmp_path / "a.i16", "--plots", tmp_path / "none")
    assert none.returncode == 2
    assert "this run has nothing to plot" in none.stderr


def test_several_files_are_summed_up_by_type(lanescope_here, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.bf16").write_bytes(bytes(5000))
    done = lanescope_here(*QUICK, tmp_path / "a.bf16", tmp_path / "b.bf16", "--json")
    sums = json.loads(done.stdout)["by_dtype"]
    assert sums[0]["dtype"] == "bfloat16"
    assert (sums[0]["arrays"], sums[0]["bytes"]) == (2, 10_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.npy",), "cannot read nowhere.npy: No such file"),
        (("--dimensionality", "0"), "numbers from 1 to 32"),
        (("--dimensionality", "1-33"), "numbers from 1 to 32"),
        (("--dimensionality", "5-1"), "numbers from 1 to 32"),
        (("--dimensionality", "x"), "numbers from 1 to 32"),
        (("--link-speed", "0"), "takes GB/s above 0"),
        (("--link-speed", "nan"), "takes GB/s above 0"),
        (("--link-speed", "5", "--parameters", "h200"), "say the same"),
        (("--parameters", "h2000"), "did you mean h200"),
        (("--slab", "none"), "takes a size"),
        (("--size", "none"), "takes a size"),
        (("--dtype", "float32"), "--dtype is that of files"),
        (("--plot", "x.pdf"), "ends in .svg or .png"),
        (("--plot-rate", "x.pdf"), "--plot-rate takes a file"),
        (("--device", "cpu", "--sms", "16"), "--sms is of GPUs"),
        (("--device", "cpu", "--plot-rate", "x.svg"), "--link-sizes is of GPUs"),
        (("--device", "gpu"), "--budget is of CPUs"),
        (("--device", "cpu", "--codec", "ans"), "--codec ans is of GPUs"),
        (("--codec", "delta,zip"), "raw, gfc, exponent, delta, ans, bitcomp"),
        (("--link-sizes", "none"), "takes a size"),
        (("--sms", "x"), "whole numbers from 0"),
        (("--link-sizes", "2MiB-1MiB"), "1MiB,256MiB or 1MiB-256MiB"),
        (("x.npy", "--from", "y.json"), "leave out FILES, or --from"),
        (("--plot", "nowhere/x.svg"), "there is no folder 'nowhere'"),
    ],
)
def test_bad_input_is_one_sentence(lanescope_here, arguments, words):
    assert words in sentence(lanescope_here(*QUICK, *arguments))


def test_a_file_that_is_not_there_cannot_be_shown(lanescope_here):
    done = lanescope_here("bench", "compress", "--from", "nowhere.json")
    assert "cannot read nowhere.json" in sentence(done)


def test_codecs_that_are_asked_for_are_measured_besides_raw(lanescope_here, array):
    done = lanescope_here(*QUICK, array, "--codec", "delta", "--json")
    (found,) = json.loads(done.stdout)["arrays"]
    assert [one["codec"] for one in found["codecs"]] == ["raw", "delta"]


def test_budget_and_size_with_files(lanescope_here, array):
    assert "above 0 and up to 3600" in sentence(
        lanescope_here("bench", "compress", "--budget", "0")
    )
    assert "--size is that of made-up examples" in sentence(
        lanescope_here(*QUICK, array, "--size", "1MiB")
    )


def test_a_bad_file_is_told_before_any_is_measured(lanescope_here, array, tmp_path):
    (tmp_path / "bad.npy").write_bytes(b"123")
    told = sentence(lanescope_here(*QUICK, array, tmp_path / "bad.npy", "--out", tmp_path / "run"))
    assert "bad.npy is no array of NumPy" in told
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_is_kept(lanescope_here, array, tmp_path):
    assert "holds files; name a new or an empty folder" in sentence(
        lanescope_here(*QUICK, array, "--out", tmp_path)
    )


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_measured_before_the_end_is_there(lanescope_here, tmp_path, sent, code):
    run = tmp_path / "run"
    process = lanescope_here.start(
        "bench", "compress", "--budget", "0.5", "--size", "8MiB", "--out", run
    )
    file = run / "compress.json"
    until(lambda: file.is_file() and "constant fp32" in file.read_text())
    process.send_signal(sent)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    stored = json.loads(file.read_text())
    assert stored["complete"] is False
    assert stored["arrays"][0]["name"] == "constant fp32"


@no_gpu
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sms", "16"), "--sms needs a GPU"),
        (("--plot-rate", "x.svg"), "--link-sizes needs a GPU"),
        (("--link-sizes", "1MiB"), "--link-sizes needs a GPU"),
        (("--codec", "delta,ans"), "--codec ans needs a GPU"),
    ],
)
def test_what_needs_a_gpu_says_so(lanescope_here, array, arguments, words):
    assert words in sentence(lanescope_here(*QUICK, array, *arguments), 4)


@no_gpu
def test_the_gpu_alone_needs_one(lanescope_here, array):
    done = lanescope_here("bench", "compress", array, "--device", "gpu")
    assert "--device gpu needs a GPU" in sentence(done, 4)


@no_gpu
def test_all_devices_are_those_that_there_are(lanescope_here, array):
    done = lanescope_here(*QUICK, array, "--device", "all", "--json")
    told = json.loads(done.stdout)
    assert told["gpus"] == []
    assert told["arrays"][0]["recommendation_from"] == "predicted"


def test_what_is_stored_is_shown_again_and_nothing_measured(lanescope_here, tmp_path):
    done = lanescope_here("bench", "compress", "--from", OLD, "--plot", tmp_path / "x.svg")
    assert done.returncode == 0, done.stderr
    assert "random walk int32" in done.stdout
    assert (tmp_path / "x.svg").is_file()
    assert "run:" not in done.stderr
    other = lanescope_here("bench", "compress", "--from", OLD, "--link-speed", "0.5", "--json")
    told = json.loads(other.stdout)
    assert told["link"]["gbs"] == 0.5
    assert told["schema"] == 2
    assert any(one["recommendation"].startswith("use ") for one in told["arrays"])
    refused = lanescope_here("bench", "compress", "--from", OLD, "--plot-rate", tmp_path / "y.svg")
    assert "nothing did" in sentence(refused)


def test_a_run_is_listed_shown_again_and_has_a_page(lanescope_here, array, tmp_path):
    done = lanescope_here(*QUICK, array, "--link-speed", "0.001")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(lanescope_here("runs", "--json").stdout)
    assert (run["verb"], run["state"]) == ("compress", "complete")
    again = lanescope_here("show", "latest")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    as_json = lanescope_here("show", "latest", "--json")
    assert as_json.stdout == lanescope_here("report", "latest", "--json").stdout
    assert json.loads(as_json.stdout)["arrays"][0]["name"].endswith("heat.npy")
    page = tmp_path / "x.html"
    assert lanescope_here("report", "latest", "--out", page, "--static").returncode == 0
    assert "Compressing pays for 1 of 1 arrays (predicted)" in page.read_text()
    assert page.stat().st_size < 300_000
    assert "has no CSV" in sentence(lanescope_here("show", "latest", "--csv"))


def test_nothing_is_stored_and_no_page_made_if_so_wanted(lanescope_here, array, tmp_path):
    for options in (["--no-store"], ["--no-store", "--no-page"]):
        done = lanescope_here(*QUICK, array, *options)
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(lanescope_here("runs", "--json").stdout or "[]") == []
    done = lanescope_here(*QUICK, array, "--no-page", "--out", tmp_path / "run")
    assert done.stderr == f"run:  {tmp_path / 'run'}\n"
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_program_calls_it(array, tmp_path):
    from lanescope import api

    found = api.compress(files=array, budget_seconds=0.001, threads=1, out=tmp_path / "run")
    assert found.arrays[0].name.endswith("heat.npy")
    assert found.complete
    assert "heat.npy" in found._repr_html_()
