"""``lanescope watch`` on a machine without a GPU: the program is all that counts."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lanescope.trace.store import read_watch
from lanescope.watching.sources.injection import has_driver
from tests.native.test_gpu import GPUS

no_gpu = pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")


def test_the_program_keeps_its_output_and_its_exit_code(lanescope, tmp_path):
    out = tmp_path / "run"
    words = ("sh", "-c", "echo mine; echo too >&2; exit 9")
    done = lanescope("watch", "--out", out, "--json", tmp_path / "told.json", "--", *words)
    assert (done.returncode, done.stdout) == (9, "mine\n")
    assert done.stderr.startswith("too\n")
    assert "Watched" in done.stderr
    assert (out / "report.html").is_file()
    assert not (out / "spool").exists()


def test_a_program_that_is_over_at_once_is_not_waited_for(lanescope, lanescope_here, tmp_path):
    out = tmp_path / "run"
    done = lanescope("watch", "--out", out, "--", "sh", "-c", "echo mine; exit 9")
    assert (done.returncode, done.stdout) == (9, "mine\n")
    if has_driver():
        assert "ended before counters were ready" in done.stderr
    else:
        assert "calls: did not watch. There is no NVIDIA driver." in done.stderr
        assert "counters" not in done.stderr
    assert (
        "Made by lanescope"
        in Path(
            lanescope_here("report", out, "--out", tmp_path / "page.html").stdout.strip()
        ).read_text()
    )
    records = [s for s in read_watch(out).manifest.sources if s.name == "counters"]
    assert [record.used for record in records] == [False] * has_driver()


@pytest.mark.parametrize("locale", ["C", "de_DE.ISO-8859-1", None])
def test_the_program_has_the_environment_of_its_user(lanescope, tmp_path, locale):
    # what is no UTF-8, and what Python and CUDA's users would have otherwise, too
    mine = {b"ODD": b"a\xff", b"EMPTY": b"", b"TWO": b"1\n2"}
    mine |= {} if locale is None else {b"LC_ALL" if "." in locale else b"LANG": locale.encode()}
    kept = {k: v for k, v in os.environb.items() if not k.startswith((b"LC_", b"LANG", b"CUDA"))}
    program = [sys.executable, "-I", "-S", "-c", "print(open('/proc/self/environ','rb').read())"]
    plain = subprocess.run(program, env=kept | mine, capture_output=True, check=True)
    watched = lanescope("watch", "-q", "--out", tmp_path / "run", "--", *program, env=kept | mine)
    assert watched.returncode == 0
    before, after = (
        set(ast.literal_eval(words).split(b"\0"))
        for words in (plain.stdout.decode(), watched.stdout)
    )
    injected = after - before
    assert before <= after
    assert {word.split(b"_")[0] for word in injected} <= {b"LANESCOPE", b"CUDA", b"NVTX"}
    assert not any(word.startswith(b"CUDA_DEVICE_ORDER") for word in injected)


def test_an_argument_and_a_folder_may_be_any_bytes(lanescope, lanescope_here, tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    program = [sys.executable, "-c", "import os, sys; sys.exit(os.fsencode(sys.argv[1])[-1] - 250)"]
    done = lanescope("watch", "--out", folder, "--", *program, os.fsdecode(b"a\xff"))
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr
    again = lanescope_here("report", folder, "--json")
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(
    ("broken_by", "words"),
    [("[][0]", "a fault of lanescope's own (IndexError"), ("bytes(1 << 62)", "enough memory")],
)
def test_a_summary_that_fails_is_one_sentence_and_the_exit_code_stays(
    lanescope, lanescope_here, tmp_path, broken_by, words
):
    # the module that makes the summary is replaced by one that has a fault
    broken = tmp_path / "sitecustomize.py"
    broken.write_text(
        "import sys, types\n"
        "told = types.ModuleType('lanescope.findings.trace')\n"
        f"told.evaluate_watch = told.Evaluation = lambda run: {broken_by}\n"
        "sys.modules['lanescope.findings.trace'] = told\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    paths = f"{tmp_path}{os.pathsep}{before}" if before else str(tmp_path)
    environment = os.environ | {"PYTHONPATH": paths, "XDG_DATA_HOME": str(tmp_path)}
    for code in (0, 6):
        out = tmp_path / f"run-{code}"
        program = ("sh", "-c", f"exit {code}")
        told = ("--json", tmp_path / "told.json")
        done = lanescope("watch", "--out", out, *told, "--", *program, env=environment)
        assert done.returncode == code
        assert words in done.stderr
        assert f"stored in {out}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert lanescope_here("report", out, "--out", tmp_path / f"{code}.html").returncode == 0


@pytest.mark.parametrize(("name", "code"), [("KILL", 137), ("INT", 130), ("TERM", 143)])
def test_a_signal_that_ends_it_is_told_as_shells_do(lanescope, name, code):
    done = lanescope(
        *("watch", "-q", "--", "sh", "-c", f"kill -{name} $$"),
        # a shell that started the tests in the background has Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.returncode == code
    assert done.stderr == ""


@no_gpu
@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("--", "nosuch"), 127, "there is no program nosuch in PATH"),
        (("--", "/"), 126, "is a folder"),
        (("--source", "tea", "--", "true"), 2, "--source takes pm, counters"),
        (("--interval", "3", "--", "true"), 2, "--interval takes a time"),
        (("--assert", "h2d.p51 > 1GB/s", "--", "true"), 2, "'p51'"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(lanescope_here, arguments, code, part):
    done = lanescope_here("watch", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1


@no_gpu
def test_a_condition_that_is_not_known_does_not_hold(lanescope, tmp_path):
    told = tmp_path / "told.json"
    wish = ("watch", "-q", "--json", told, "--assert", "h2d.p50 > 40GB/s", "--")
    done = lanescope(*wish, "true")
    assert done.returncode == 1
    assert "is not known" in done.stderr
    assert json.loads(told.read_text())["ways"] == []
    assert lanescope(*wish, "sh", "-c", "exit 5").returncode == 5


@pytest.mark.parametrize(("own", "code"), [(0, 0), (9, 9)])
def test_what_cannot_be_written_leaves_the_programs_exit_code(lanescope, tmp_path, own, code):
    folder = tmp_path / "gone"
    folder.mkdir()
    program = ("sh", "-c", f"rmdir {folder}; exit {own}")
    done = lanescope("watch", "-q", "--json", folder / "told.json", "--", *program)
    assert done.returncode == code
    assert done.stderr.startswith("lanescope: cannot write")
    assert len(done.stderr.splitlines()) == 1


@no_gpu
def test_doctor_says_what_stands_in_the_direction(lanescope_here):
    done = lanescope_here("doctor")
    assert done.returncode == 4
    assert "works, 4 otherwise." in lanescope_here("doctor", "--help").stdout
    assert "trace" in done.stdout
    assert "does not work." in done.stdout
    (trace,) = (
        s for s in json.loads(lanescope_here("doctor", "--json").stdout) if s["name"] == "trace"
    )
    assert not trace["works"]
    assert trace["remedy"]


@pytest.mark.native  # six seconds
def test_a_stored_watch_makes_its_page_again(lanescope, lanescope_here, tmp_path):
    out = tmp_path / "run"
    lanescope("watch", "-q", "--json", tmp_path / "told.json", "--out", out, "--", "true")
    (out / "report.html").unlink()
    page = tmp_path / "again.html"
    assert lanescope_here("report", out, "--out", page).stdout.strip() == str(page)
    assert "Made by lanescope" in page.read_text()
    assert json.loads(lanescope_here("report", out, "--json").stdout)["version"] == 1
    assert (
        "a watch has a page, --json and --export" in lanescope_here("report", out, "--csv").stderr
    )


def test_a_home_that_cannot_be_written_costs_no_watch(lanescope, lanescope_here, tmp_path):
    home = tmp_path / "home"
    home.write_text("no folder")
    done = lanescope("watch", "--", "true", env={"HOME": str(home), "TMPDIR": str(tmp_path)})
    assert done.returncode == 0
    (folder,) = tmp_path.glob("lanescope-watch-*")
    assert f"The run is stored in {folder}: cannot write" in lanescope_here("show", folder).stdout


def test_turns_tell_what_watching_costs(lanescope, tmp_path):
    told = tmp_path / "told.json"
    done = lanescope("watch", "--turns", 2, "--json", told, "--", "sh", "-c", "echo once")
    assert (done.returncode, done.stdout) == (0, "once\n")
    assert "Slowdown by watching, measured" in done.stderr
    assert len(json.loads(told.read_text())["turns"]["plain"]) == 2


def test_turns_take_a_program(lanescope):
    done = lanescope("watch", "--turns", 2, "--all", "--seconds", 1)
    assert done.returncode == 2
    assert "--turns runs a program again and again" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_program_that_does_not_run_twice_is_told_and_keeps_its_exit_code(lanescope, tmp_path):
    script = f"test -e {tmp_path}/x && exit 4; touch {tmp_path}/x"
    done = lanescope("watch", "--turns", 2, "--", "sh", "-c", script)
    assert done.returncode == 0
    assert "sh ended with 4 when it was run again for --turns" in done.stderr
    assert "Watched" in done.stderr


def test_turns_before_one_that_fails_are_told(lanescope, tmp_path):
    told, seen = tmp_path / "told.json", tmp_path / "seen"
    script = f"echo >> {seen}; test $(wc -l < {seen}) -lt 4"  # the watch and one whole turn
    done = lanescope("watch", "--turns", 2, "--json", told, "--", "sh", "-c", script)
    assert "ended with 1 when it was run again for --turns" in done.stderr
    assert len(json.loads(told.read_text())["turns"]["plain"]) == 1


@pytest.mark.native  # four seconds
def test_a_watch_compares_with_a_watch_alone(lanescope_here, results_folder):
    watches = results_folder / "h100-x1/advise"
    first, second = (watches / name / "watches/train-pageable" for name in ("first", "second"))
    assert lanescope_here("compare", first, first).returncode == 0
    back = lanescope_here("compare", second, first, "--json")
    assert back.returncode == 1
    assert any(change["slower"] for change in json.loads(back.stdout)["changes"])
    check = results_folder / "h200-x1/check"
    done = lanescope_here("compare", first, check)
    assert done.returncode == 2
    assert "name two runs of one kind" in done.stderr
