"""``lanescope reproduce``, and ``report`` of what it stores."""

import json

import pytest

from tests.native.test_gpu import GPUS
from tests.watch.reproductions import reproduction


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x",), "there is no study 'x'; use pcie-thesis"),
        (("pcie-thesis", "--programs", "x"), "there is no program 'x' to run"),
        (("pcie-thesis", "--programs", ","), "no program is named"),
        (("pcie-thesis", "--sizes", "1q"), "'1q' is not a size"),
        (("pcie-thesis", "--sizes", "1MB", "--programs", "matmul"), "--sizes are vector-add's"),
        (("pcie-thesis", "--repetitions", "0"), "is too few"),
        (("pcie-thesis", "--gpu", "99"), "there is no GPU 99"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_sentence(lanescope, tmp_path, arguments, words):
    out = tmp_path / "out"
    done = lanescope("reproduce", *arguments, "--out", out)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert words in done.stderr
    assert not out.exists()


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_a_gpu_it_is_one_sentence(lanescope):
    done = lanescope("reproduce", "pcie-thesis")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert "there is no GPU 0 to run the programs on" in done.stderr


def test_report_writes_the_page_and_the_numbers_again(lanescope, tmp_path):
    folder = reproduction(tmp_path / "run")
    done = lanescope("report", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(folder / "report.html")
    assert "Chapter 5" in (folder / "report.html").read_text()
    assert json.loads((folder / "chapters.json").read_text())["state"] == "complete"
    single = lanescope("report", folder / "matmul/sources-1")
    assert (single.returncode, single.stderr) == (0, "")


@pytest.mark.parametrize("option", [("--json",), ("--csv",), ("--plots", "p")])
def test_other_outputs_of_a_reproduction_are_refused(lanescope, tmp_path, option):
    folder = reproduction(tmp_path / "run", most=1)
    done = lanescope("report", folder, *option)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "chapters.json" in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
def test_a_quick_reproduction_agrees_with_the_programs(lanescope, tmp_path):
    folder = tmp_path / "run"
    names = "vector-add,concurrent-copies,load-with-copies"
    options = ("--quick", "--programs", names, "--sizes", "25MB", "--out", folder)
    done = lanescope("reproduce", "pcie-thesis", *options)
    assert done.returncode == 0, done.stderr
    assert "vector-add, 25 MB" in done.stdout
    told = json.loads((folder / "chapters.json").read_text())
    assert (told["state"], told["notes"]) == ("complete", [])
    assert len(told["programs"]) == 3
    vectors = told["programs"][0]
    assert vectors["truth"]["bytes"] == {"h2d": 50_000_000, "d2h": 50_000_000}
    assert set(vectors["slowdown"]) == {"sources", "probe"}
    for program in told["programs"]:
        sources = {source["source"]: source for source in program["sources"]}
        assert set(sources) == {"pm", "counters", "throughput", "trace"}
        if sources["trace"]["used"]:
            for way in ("h2d", "d2h"):
                assert sources["trace"]["deviation"][way]["value"] == 0
    assert (folder / "report.html").stat().st_size > 1000
