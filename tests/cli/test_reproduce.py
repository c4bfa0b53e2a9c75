"""``lanescope reproduce``, and ``report`` of what it stores."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S, until
from tests.studies.pcie_thesis.reproductions import reproduction


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x",), "there is no study 'x'; use pcie-thesis"),
        (("pcie-thesis", "--programs", "x"), "--programs takes vector-add, matmul"),
        (("pcie-thesis", "--programs", ","), "--programs takes vector-add, matmul"),
        (("pcie-thesis", "--sizes", "1q"), "--sizes takes a size"),
        (("pcie-thesis", "--sizes", "1MB", "--programs", "matmul"), "--sizes are vector-add's"),
        (("pcie-thesis", "--repetitions", "0"), "takes a whole number from 1 to 1000"),
        (("pcie-thesis", "--gpu", "99"), "there is no GPU 99"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_sentence(lanescope_here, tmp_path, arguments, words):
    out = tmp_path / "out"
    done = lanescope_here("reproduce", *arguments, "--out", out)
    code = 4 if "99" in arguments else 2
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert words in done.stderr
    assert not out.exists()


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_without_a_gpu_it_is_one_sentence(lanescope_here):
    done = lanescope_here("reproduce", "pcie-thesis")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1), done.stderr
    assert "there is no GPU 0 to run the programs on" in done.stderr


def test_report_writes_the_page_and_numbers_that_are_missing(lanescope_here, tmp_path):
    folder = reproduction(tmp_path / "runs/run")
    done = lanescope_here("report", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(folder / "report.html")
    assert "Chapter 5" in (folder / "report.html").read_text()
    assert json.loads((folder / "chapters.json").read_text())["state"] == "complete"
    (folder / "chapters.json").write_text("kept")  # numbers that are there are not changed
    assert lanescope_here("report", folder).returncode == 0
    assert (folder / "chapters.json").read_text() == "kept"
    single = lanescope_here("report", folder / "matmul/sources-1")
    assert (single.returncode, single.stderr) == (0, "")


def test_show_prints_the_table_again(lanescope_here, tmp_path):
    done = lanescope_here("show", reproduction(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "vector-add, 400 MB" in done.stdout
    assert "+2.00 %" in done.stdout


@pytest.mark.parametrize("option", [("--json",), ("--csv",), ("--plots", "p")])
def test_other_outputs_of_a_reproduction_are_refused(lanescope_here, tmp_path, option):
    folder = reproduction(tmp_path / "run", most=1)
    done = lanescope_here("report", folder, *option)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "chapters.json" in done.stderr


#: The command with programs that sleep, nothing that watches, and a machine with a GPU.
PRETENDED = """
import json, sys
import lanescope.machine, lanescope.studies.pcie_thesis.carry_out as carrying
from lanescope.cli.app import main
from tests.studies.pcie_thesis.reproductions import MACHINE
STEP = "dict(name='copy', begin_ns=1, end_ns=10**9, h2d_bytes=1, d2h_bytes=0, copies=1)"
TELLS = f"import json, time; time.sleep({sys.argv.pop(1)}); print(json.dumps(dict(steps=[{STEP}])))"
lanescope.machine.discover = lambda: MACHINE
carrying.command_of = lambda program, gpu: (sys.executable, "-c", TELLS)
carrying.sources_of = lambda way, gpu, folder: ()
carrying.IDLE_SECONDS = 0.01
main()
"""


def pretended(seconds, out):
    options = ("--quick", "--programs", "matmul", "--out", str(out))
    return subprocess.Popen(
        [sys.executable, "-c", PRETENDED, str(seconds), "reproduce", "pcie-thesis", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        # a shell that started the tests in the background has Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env=os.environ | {"COLUMNS": "200"},
    )


def test_the_table_and_the_places_are_told(tmp_path):
    out = tmp_path / "run"
    with pretended(0, out) as running:
        stdout, stderr = running.communicate(timeout=PATIENCE_S)
    assert "matmul" in stdout
    assert stderr == f"page: {out / 'report.html'}\nrun:  {out}\n"
    assert (out / "report.html").is_file()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_a_page_of_what_was_done(tmp_path, sent, code):
    out = tmp_path / "run"
    with pretended(2 * PATIENCE_S, out) as running:
        until((out / "idle/probe-1/steps.json").is_file)
        time.sleep(0.5)
        running.send_signal(sent)
        stdout, stderr = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, stdout) == (code, ""), stderr
    assert stderr.count("interrupted") == 1
    assert stderr.count("\n") == 3
    assert "it was interrupted" in (out / "report.html").read_text()


@pytest.mark.gpu
@pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")
def test_a_quick_reproduction_agrees_with_the_programs(lanescope_here, tmp_path):
    folder = tmp_path / "run"
    names = "vector-add,concurrent-copies,load-with-copies"
    options = ("--quick", "--programs", names, "--sizes", "25MB", "--out", folder)
    done = lanescope_here("reproduce", "pcie-thesis", *options)
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
            for direction in ("h2d", "d2h"):
                assert sources["trace"]["deviation"][direction]["value"] == 0
    assert (folder / "report.html").stat().st_size > 1000
