"""``lanescope report`` of watches and of captures of Nsight Systems, as a user meets it."""

import json
from pathlib import Path

import pytest

from lanescope.store.folder import State
from lanescope.store.store import RunWriter
from tests.report import factory
from tests.trace.nsys_captures import TABLES, capture

WATCH = Path(__file__).parents[2] / "benchmarks" / "results" / "h200-x1" / "watch" / "vector-add"


@pytest.fixture
def captured(tmp_path):
    return capture(tmp_path / "capture.sqlite")


def test_a_watch_as_csv_in_a_folder(lanescope_here, tmp_path):
    done = lanescope_here("report", WATCH, "--export", "csv", "--out", tmp_path / "tables")
    assert (done.returncode, done.stderr) == (0, "")
    paths = [tmp_path / "tables" / name for name in ("copies.csv", "counters.csv")]
    assert done.stdout.splitlines() == [str(path) for path in paths]
    assert len(paths[0].read_text().splitlines()) == 1 + 4
    assert ",400000000," in paths[0].read_text()


def test_a_watch_as_a_trace_of_perfetto(lanescope_here, tmp_path):
    pytest.importorskip("perfetto.trace_builder")
    trace = tmp_path / "trace.pftrace"
    done = lanescope_here("report", WATCH, "--export", "perfetto", "--out", trace)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{trace}\n", "")
    assert b"g0 to GPU, wire (GB/s), pm" in trace.read_bytes()


def test_a_capture_has_a_page_here_a_summary_and_exports(lanescope_here, captured, tmp_path):
    (tmp_path / "here").mkdir()
    for here, words in ((tmp_path / "here", "goes to capture.report.html\n"), (tmp_path, "")):
        done = lanescope_here("report", captured, cwd=here)
        page = here / "capture.report.html"
        assert (done.returncode, done.stdout) == (0, f"{page.name}\n")
        assert done.stderr.endswith(words)
        assert bool(done.stderr) == bool(words)
        assert page.exists()
        assert (tmp_path / page.name).exists() == (here == tmp_path)
    assert "Read from capture.sqlite" in page.read_text()
    elsewhere = tmp_path / "page.html"
    assert lanescope_here("report", captured, "--out", elsewhere).stdout == f"{elsewhere}\n"
    summary = json.loads(lanescope_here("report", captured, "--json").stdout)
    assert "400000000" in json.dumps(summary)
    done = lanescope_here("report", captured, "--export", "csv", "--out", tmp_path)
    assert done.returncode == 0
    assert "cudaMemcpyAsync" in (tmp_path / "copies.csv").read_text()


def test_a_capture_is_shown_as_text(lanescope_here, captured):
    done = lanescope_here("show", captured)
    assert (done.returncode, done.stderr) == (0, "")
    assert "synchronous" in done.stdout
    done = lanescope_here("show", captured, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has the exports of a watch" in done.stderr


def test_one_sentence_says_what_is_wrong(lanescope_here, captured, tmp_path):
    writer = RunWriter(tmp_path / "check", factory.check_run().manifest)
    writer.finish(State.COMPLETE)
    report = tmp_path / "capture.nsys-rep"
    report.write_bytes(b"not SQLite")
    other = capture(
        tmp_path / "cpu.sqlite", without=tuple(t for t in TABLES if t.startswith("CUPTI"))
    )
    taken = tmp_path / "file"
    taken.write_text("mine")
    nowhere = tmp_path / "none" / "trace.pftrace"
    for arguments, words in (
        ((WATCH, "--export", "excel", "--out", taken), "takes perfetto or csv"),
        ((WATCH, "--export", "csv"), "give --out, too"),
        ((WATCH, "--export", "perfetto"), "give --out, too"),
        ((WATCH, "--export", "csv", "--out", tmp_path, "--json"), "leave out --json"),
        ((WATCH, "--export", "csv", "--out", taken), "cannot write to"),
        ((WATCH, "--csv"), "--export"),
        ((captured, "--csv"), "--export"),
        ((tmp_path / "check", "--export", "csv", "--out", tmp_path), "--export is for watches"),
        ((report,), "nsys export --type sqlite"),
        ((other,), "no table CUPTI_ACTIVITY_KIND_MEMCPY"),
        ((taken,), "no run"),
    ):
        done = lanescope_here("report", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    pytest.importorskip("perfetto.trace_builder")
    done = lanescope_here("report", WATCH, "--export", "perfetto", "--out", nowhere)
    assert done.returncode == 2
    assert "cannot write" in done.stderr


def test_show_prints_the_report_again_and_a_static_page_has_no_script(lanescope_here, tmp_path):
    done = lanescope_here("show", WATCH)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("Watched 1.59 s", "g0 h2d", "Predicted gain: at most", "trace: watched"):
        assert words in done.stdout
    page = tmp_path / "page.html"
    assert lanescope_here("report", WATCH, "--static", "--out", page).returncode == 0
    source = page.read_text()
    assert "<script" not in source
    assert "<h1>Watch of" in source
    assert source.index("Predicted gain") < source.index("Rates by GPU and direction")
