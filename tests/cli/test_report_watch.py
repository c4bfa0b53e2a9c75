"""``lanescope report`` of watches and of captures of Nsight Systems, as a user meets it."""

import json
from pathlib import Path

import pytest

from lanescope.store.folder import State
from lanescope.store.store import RunWriter
from lanescope.trace.segments import segments_in
from tests.report import factory
from tests.trace.nsys_captures import TABLES, capture
from tests.watching.test_continuous import Simulated, quick, run_for, watch_of

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
    said = done.stderr.split("'")
    hows = ("--json", "--export csv")
    assert said[1::2] == [f"lanescope report {captured} {how}" for how in hows]
    printed = lanescope_here(*said[1].split()[1:])
    assert (printed.returncode, printed.stderr) == (0, "")
    assert json.loads(printed.stdout)["copies"]


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


@pytest.fixture
def continuous(tmp_path):
    """A run of a watch without an end, which has gone on for about a second."""
    folder = tmp_path / "runs" / "continuous"
    writer = quick(folder)
    run_for(watch_of(folder, Simulated), writer, lambda: len(segments_in(folder)) >= 2)
    return folder


def test_the_last_of_a_watch_without_an_end(lanescope_here, continuous, tmp_path):
    page = tmp_path / "page.html"
    for last in ("10m", "10min", "24h"):
        done = lanescope_here("report", continuous, "--last", last, "--out", page)
        assert (done.returncode, done.stdout) == (0, f"{page}\n")
        assert "note: only the last" in done.stderr
        assert "s are stored so far" in done.stderr
    done = lanescope_here("report", f"{continuous}/", "--out", page, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = lanescope_here("report", continuous, "--last", "10m", "--until", "1s", "--out", page)
    assert done.returncode in (0, 2)  # all that is stored may be newer
    assert "of that time are stored" in done.stderr or "nothing is stored of before" in done.stderr
    done = lanescope_here("report", continuous, "--until", "9999-01-01", "--out", page)
    assert (done.returncode, done.stdout) == (0, f"{page}\n")
    assert "note: the newest record before --until is of 2" in done.stderr
    done = lanescope_here("report", continuous, "--until", "2001-01-01", "--out", page)
    assert done.returncode == 2
    assert "nothing is stored of before 2001-01-01 00:00:00; the oldest record is of" in done.stderr
    summary = json.loads(lanescope_here("report", continuous, "--json").stdout)
    assert 0 < summary["seconds"] < 3600


def test_what_a_watch_without_an_end_shows_says_by_what_it_counted(lanescope_here, continuous):
    shown = lanescope_here("show", continuous).stdout
    assert "From pm, 1 ms" in shown
    assert "No counters work here" not in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--json", "out.json"), "--json and --csv print, and '> FILE' stores that"),
        (("--html",), "the page is HTML, and --out FILE.html says where"),
        (("--last", "0s"), "such as 30s, 10min or 24h, not '0s'"),
        (("--quiet", "--json"), "leave out"),
    ],
)
def test_what_is_written_otherwise_is_one_sentence(lanescope_here, continuous, options, words):
    done = lanescope_here("report", continuous, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_that_is_near_the_run_names_it(lanescope_here, continuous, tmp_path):
    done = lanescope_here("report", continuous / "segments", "--last", "1min")
    assert done.returncode == 2
    assert f"name {continuous}" in done.stderr
    done = lanescope_here("report", tmp_path / "empty", "--last", "1min")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
