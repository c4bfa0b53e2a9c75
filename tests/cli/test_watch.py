"""``lanescope watch`` on a machine without a GPU: the program is all that counts."""

import json
import signal

import pytest

from tests.native.test_gpu import GPUS

no_gpu = pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")


def test_the_program_keeps_its_output_and_its_exit_code(lanescope, tmp_path):
    out = tmp_path / "run"
    done = lanescope("watch", "--out", out, "--", "sh", "-c", "echo mine; echo too >&2; exit 9")
    assert (done.returncode, done.stdout) == (9, "mine\n")
    assert done.stderr.startswith("too\n")
    assert "Watched" in done.stderr
    assert (out / "report.html").is_file()
    assert not (out / "spool").exists()


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
def test_what_cannot_be_done_is_one_sentence(lanescope, arguments, code, part):
    done = lanescope("watch", *arguments)
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


@pytest.mark.parametrize(("own", "code"), [(0, 2), (9, 9)])
def test_what_cannot_be_written_leaves_the_programs_exit_code(lanescope, tmp_path, own, code):
    folder = tmp_path / "gone"
    folder.mkdir()
    program = ("sh", "-c", f"rmdir {folder}; exit {own}")
    done = lanescope("watch", "-q", "--json", folder / "told.json", "--", *program)
    assert done.returncode == code
    assert done.stderr.startswith("lanescope: cannot write")
    assert len(done.stderr.splitlines()) == 1


@no_gpu
def test_doctor_says_what_stands_in_the_way(lanescope):
    done = lanescope("doctor")
    assert done.returncode == 4
    assert "trace" in done.stdout
    assert "does not work." in done.stdout
    (trace,) = (s for s in json.loads(lanescope("doctor", "--json").stdout) if s["name"] == "trace")
    assert not trace["works"]
    assert trace["remedy"]


def test_a_stored_watch_makes_its_page_again(lanescope, tmp_path):
    out = tmp_path / "run"
    lanescope("watch", "-q", "--out", out, "--", "true")
    (out / "report.html").unlink()
    assert lanescope("report", out).stdout.strip() == str(out / "report.html")
    assert json.loads(lanescope("report", out, "--json").stdout)["version"] == 1
    assert "a watch has a page, --json and --export" in lanescope("report", out, "--csv").stderr


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
