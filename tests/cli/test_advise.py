"""``lanescope advise`` as a user meets it, with parameters and a predictor made up for tests."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lanescope.cli.analyses import print_result
from lanescope.findings.advice import phases_of
from lanescope.findings.advice.what_if import parse_edits, what_if
from lanescope.prediction.stored_parameters import save
from lanescope.store.folder import State
from lanescope.store.store import RunWriter
from lanescope.studies import advise
from lanescope.studies.what_if import WhatIf
from lanescope.trace.store import read_watch
from tests.findings.advice.made_up import LINK, Simple
from tests.native.test_gpu import GPUS
from tests.patience import PATIENCE_S
from tests.report import factory
from tests.trace.nsys_captures import capture

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "advise.md").read_text()
WATCHES = ROOT / "benchmarks" / "results" / "h200-x1" / "watch"
no_gpu = pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")

#: Runs the command line with what the tests have made up in place of a machine's fit.
_WITH_MADE_UP = """
import sys
from lanescope.cli import main
from lanescope.studies import advise
from tests.findings.advice.made_up import LINK, Simple
advise.link_parameters = lambda name: LINK
advise.predictor_named = lambda name: Simple()
main()
"""


@pytest.fixture
def run_advise(lanescope_here, monkeypatch):
    """Run `advise` in this process, with made-up parameters."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(advise, "link_parameters", lambda name: LINK)
    monkeypatch.setattr(advise, "predictor_named", lambda name: Simple())
    return lambda *words: lanescope_here("advise", *words)


@pytest.fixture
def advise_program(tmp_path):
    """Run it in a process of its own, whose output is the watched program's, too."""

    def run(*words):
        environment = os.environ | {"LANESCOPE_RUNS": str(tmp_path / "runs"), "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "-c", _WITH_MADE_UP, "advise", *map(str, words)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=ROOT,
            timeout=PATIENCE_S,
        )

    return run


def test_a_stored_watch_is_reported_in_words_and_a_table(run_advise):
    done = run_advise(WATCHES / "vector-add")
    assert (done.returncode, done.stderr) == (0, "")
    assert "lanescope.examples vector-add" in done.stdout
    assert "Measured: 1 round of 157 ms" in done.stdout
    assert "That is Pageable" in done.stdout
    assert "Predicted as it is" in done.stdout
    table = done.stdout[done.stdout.index("gain of a round") :]
    assert "pin+async+streams" in table
    assert "a round takes" in table
    assert "cudaMallocHost" in table
    assert "Only if:" in table


def test_a_stored_watch_as_json_with_the_option_before_or_behind(run_advise):
    for words in (("--json", WATCHES / "matmul"), (WATCHES / "matmul", "--json")):
        done = run_advise(*words)
        assert (done.returncode, done.stderr) == (0, "")
        (phase,) = json.loads(done.stdout)["phases"]
        assert phase["described"]
        assert not any(change["worth"] for change in phase["changes"])


LOOP = (
    ROOT / "benchmarks" / "results" / "h100-x1" / "advise" / "first" / "watches" / "train-pageable"
)


def test_what_if_replays_a_watch_and_writes_both_schedules(run_advise, tmp_path):
    page, trace = tmp_path / "what-if.html", tmp_path / "what-if.pftrace"
    done = run_advise(LOOP, "--what-if", "pin,prefetch", "--page", page, "--perfetto", trace)
    assert (done.returncode, done.stderr) == (0, f"page: {page}\ntrace: {trace}\n")
    assert "critical path" in done.stdout
    text = page.read_text()
    assert "before, as measured" in text
    assert "critical path: copies h2d" in text
    assert b"critical path" in trace.read_bytes()


def test_what_if_as_json_has_both_critical_paths(run_advise):
    done = run_advise(LOOP, "--what-if", "pin", "--json")
    phase, *_ = json.loads(done.stdout)["phases"]
    before, after = phase["critical_path_before"], phase["critical_path_after"]
    assert sum(after.values()) < sum(before.values())
    assert phase["predicted"]["seconds"] < phase["measured_seconds"]


def test_what_if_says_where_nobody_read_what_copies_carry(run_advise):
    assert "what copies carry was not read" in run_advise(LOOP, "--what-if", "keep").stdout
    (note,) = json.loads(run_advise(LOOP, "--what-if", "keep", "--json").stdout)["notes"]
    assert note.startswith("keep finds nothing")
    read = LOOP.parents[2] / "eighth-contents" / "watches" / "match"
    assert "not read" not in run_advise(read, "--what-if", "keep").stdout


def test_what_if_says_of_how_many_rounds_the_critical_path_is(run_advise):
    phase, *_ = json.loads(run_advise(LOOP, "--what-if", "pin", "--json").stdout)["phases"]
    assert f"critical path   {phase['rounds']} rounds" in re.sub(
        " {3,}", "   ", run_advise(LOOP, "--what-if", "pin").stdout
    )


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_tables_of_what_if_fit_80_columns(run_advise, monkeypatch, encoding):
    """Also where a process, a phase and a run are large, and the run loses."""
    shown = WhatIf(read_watch(LOOP), ("kernels=0.01",), None, ())
    phases = phases_of(shown.run)
    found = what_if(phases, parse_edits("kernels=0.01"), LINK)
    many = {"pid": 4194304, "gpu": 7, "number": 12, "rounds_in_run": 100_000}
    large = [replace(one, rounds=64, phase=replace(one.phase, **many)) for one in found]
    file = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr("sys.stdout", file)
    print_result(replace(shown, phases=tuple(large)), json=False)
    file.flush()
    lines = file.buffer.getvalue().decode(encoding).splitlines()
    rules = [line for line in lines if re.fullmatch(r" ─+ *|[+|][-+]+[+|]", line)]
    assert len(rules) == (1 if encoding == "utf-8" else 3) * (1 + len(large))
    assert max(len(line.rstrip()) for line in rules) <= 80
    assert "4194304" in "\n".join(lines)


def test_what_if_words_a_loss_as_one(run_advise):
    said = run_advise(LOOP, "--what-if", "kernels=0.01").stdout
    assert re.search(r"becomes slower: the run loses \d+(\.\d+)? (µs|ms|s) by these edits", said)
    assert re.search(r" -\d+(\.\d+)? (µs|ms|s) ", said)
    assert re.search(r"-\d{4,} ns", said) is None
    assert "loses" not in run_advise(LOOP, "--what-if", "kernels=2").stdout


def test_what_if_says_that_parameters_are_of_another_machine(lanescope_here):
    done = lanescope_here("advise", LOOP, "--what-if", "pin", "--parameters", "h200")
    assert "The run is of NVIDIA H100 80GB HBM3" in done.stdout
    assert "the parameters (h200) are of NVIDIA H200" in done.stdout
    done = lanescope_here("advise", LOOP, "--what-if", "")
    assert "--what-if names no edit; name one or several of pin, async" in done.stderr
    done = lanescope_here("advise", LOOP, "--what-if", "kernels=2", "--parameters", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no link parameters are named 'nope'" in done.stderr


def test_advice_is_a_page_too_and_traces_are_of_what_if_alone(run_advise, tmp_path):
    page = tmp_path / "page.html"
    done = run_advise(LOOP, "--page", page)
    assert (done.returncode, done.stderr) == (0, f"page: {page}\n")
    text = page.read_text()
    assert "What would make its transfers faster" in text
    assert '<pre class="listing">' in text
    assert "torch.cuda.Stream()" in text
    done = run_advise(LOOP, "--perfetto", tmp_path / "trace.pftrace")
    assert done.returncode == 2
    assert "--what-if" in done.stderr


def test_a_capture_of_nsys_is_a_watch_too(run_advise, tmp_path):
    done = run_advise(capture(tmp_path / "capture.sqlite"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "phase 1" in done.stdout


@no_gpu
def test_a_program_keeps_its_output_and_its_exit_code(advise_program, tmp_path):
    out = tmp_path / "run"
    done = advise_program("--out", out, "--", "sh", "-c", "echo mine; echo too >&2; exit 9")
    assert (done.returncode, done.stdout) == (9, "mine\n")
    assert done.stderr.startswith("too\n")
    assert "holds no copies: nothing was traced" in done.stderr
    assert (out / "manifest.json").is_file()
    # a program that ended well does not hide that there is no advice
    assert advise_program("--", "true").returncode == 2
    # its own options are its own
    assert advise_program("--", "sh", "-c", 'test "$1" = --json', "sh", "--json").returncode == 2


def test_bad_input_is_one_sentence(run_advise, tmp_path):
    writer = RunWriter(tmp_path / "check", factory.check_run().manifest)
    writer.finish(State.COMPLETE)
    for words, part in (
        ((tmp_path / "nowhere",), "'lanescope advise -- PROGRAM' makes one"),
        ((tmp_path / "check",), "and no watch"),
        ((WATCHES / "matmul", WATCHES / "vector-add"), "advise takes one run, not 2"),
        (("--",), "no program after --"),
        ((WATCHES / "matmul", "--", "true"), "not both"),
        ((WATCHES / "matmul", "--out", tmp_path / "x"), "--out is where a program's watch goes"),
    ):
        done = run_advise(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert part in done.stderr
        assert len(done.stderr.splitlines()) == 1


@no_gpu
def test_a_program_that_is_not_there_is_reported_as_by_watch(advise_program):
    done = advise_program("--", "nosuch")
    assert (done.returncode, done.stdout) == (127, "")
    assert "there is no program nosuch in PATH" in done.stderr


@pytest.mark.parametrize("predictor", ["replay", "equations", "equations-shared"])
def test_each_predictor_advises_the_vector_addition_to_pin(lanescope_here, tmp_path, predictor):
    save(LINK, tmp_path / "link.json")
    done = lanescope_here(
        *("advise", WATCHES / "vector-add", "--parameters", tmp_path / "link.json"),
        *("--predictor", predictor, "--json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert (answer["predictor"], answer["parameters"]) == (predictor, "made-up")
    (phase,) = answer["phases"]
    assert phase["described"]
    assert phase["changes"][0]["steps"] == ["pin"]
    assert ["pin", "async", "streams"] in [one["steps"] for one in phase["changes"]]
    (pin,) = (c for c in phase["changes"] if c["kind"] == "pin")
    assert pin["worth"]
    # 800 MB each way at 55.5 GB/s, of 157 ms
    assert pin["predicted_seconds"]["value"] == pytest.approx(29e-3, rel=0.05)


def test_parameters_that_are_not_there_and_of_another_machine(lanescope_here, tmp_path):
    marker = tmp_path / "ran"
    for words, part in (
        ((WATCHES / "matmul",), "no fit of this machine"),
        (("--", "touch", marker), "no fit of this machine"),
        ((WATCHES / "matmul", "--parameters", tmp_path / "none.json"), "none.json"),
        (
            (WATCHES / "matmul", "--parameters", "k20", "--predictor", "tea"),
            "no predictor is named",
        ),
        (
            (WATCHES / "matmul", "--what-if", "async", "--predictor", "equations"),
            "--what-if replays measured rounds",
        ),
    ):
        done = lanescope_here("advise", *words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert part in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not marker.exists()  # a program is not run for nothing
    done = lanescope_here("advise", WATCHES / "matmul", "--parameters", "k20")
    assert done.returncode == 0
    assert "The run is of NVIDIA H200, the parameters (k20) are of" in done.stdout
    assert "The model does not describe this phase" in done.stdout
    assert "pageable" in done.stdout
    assert ".." not in done.stdout.replace("...", "")


def test_a_gpu_by_name_is_advised_for_by_either_option(lanescope_here):
    by_name = lanescope_here("advise", WATCHES / "matmul", "--parameters", "a100-sxm")
    assert (by_name.returncode, by_name.stderr) == (0, "")
    assert "with the parameters of a100-sxm" in by_name.stdout
    assert "are of NVIDIA A100-SXM4-80GB" in by_name.stdout
    old = lanescope_here("advise", WATCHES / "matmul", "--machine", "a100-sxm")
    assert (old.returncode, old.stdout) == (0, by_name.stdout)
    assert "--machine is now --parameters" in old.stderr
    wrong = lanescope_here("advise", WATCHES / "matmul", "--machine", "tea")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--parameters: no link parameters are named 'tea'; there are gtx-titan, " in wrong.stderr
    assert "a100-sxm" in wrong.stderr


EXAMPLES = re.findall(r"^```\n\$ lanescope (.+?)\n(.+?)\n```$", DOCUMENT, re.M | re.S)


@pytest.mark.parametrize(("command", "answer"), EXAMPLES, ids=["advise", "what-if"])
def test_the_document_shows_what_is_printed(lanescope_here, command, answer):
    done = lanescope_here(*shlex.split(command), cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rstrip() for line in done.stdout.splitlines()] == answer.splitlines()


def test_the_document_has_every_option(lanescope_here):
    text = lanescope_here("advise", "--help").stdout
    options = set(re.findall(r"--[a-z-]+", text)) - {"--help", "--kernels"}  # the latter of watch
    assert options == {
        *("--parameters", "--predictor", "--json", "--out", "--what-if", "--page", "--perfetto"),
    }
    assert options <= set(re.findall(r"--[a-z-]+", DOCUMENT))
