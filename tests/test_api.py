"""What Python programs and notebooks use."""

import dataclasses
import importlib
import json
import subprocess
import sys
import threading
import time

import pytest

import lanescope
from lanescope import Copy, Engine, Experiment, InputError, Memory, Operation, Place, Plan, Timing
from lanescope.results import Source


@pytest.fixture(autouse=True)
def runs(monkeypatch, tmp_path):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))


def test_public_names():
    assert lanescope.__all__ == [
        *("Channel", "Copy", "Engine", "Experiment", "InputError", "LanescopeError", "Machine"),
        *("Memory", "NotMeasuredError", "Operation", "Place", "Plan", "Result", "Run", "Timing"),
        *(
            "__version__",
            "advise",
            "bench",
            "boost",
            "check",
            "compress",
            "copy",
            "decompress",
            "discover",
        ),
        *(
            "fit",
            "latency",
            "load_machine",
            "measure",
            "nccl",
            "node",
            "predict",
            "read_run",
            "small",
            "sms",
            "streams",
            "sweep",
            "taruc",
            "to_gpu",
            "to_host",
            "topo",
            "validate",
            "watch",
        ),
    ]
    for name in lanescope.__all__:
        assert getattr(lanescope, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        lanescope.nonsense  # noqa: B018


def test_the_module_of_studies_is_there_after_a_bare_import():
    program = "import lanescope; print(lanescope.api.compress.__module__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("lanescope.")


def test_measure_stays_a_function_when_its_package_is_imported():
    importlib.import_module("lanescope.engine.sampling")
    assert callable(lanescope.measure)


def test_measure_one_experiment_of_this_machine():
    node = lanescope.discover().nodes[0]
    place = Place("h0", Memory.PAGEABLE)
    cpus = (node.cores[0][0],)
    copy = Copy(place, place, 64 << 20, Engine.CPU, Operation.TRIAD, cpus)
    result = lanescope.measure(
        Experiment("mine", "my triad", (copy,), Timing.HOST), plan=Plan(0.1, 0.2)
    )
    assert result.source is Source.MEASURED
    assert result.copies[0].gbs > 0.5
    assert "my triad" in result._repr_html_()


def test_threads_measure_one_after_the_other(monkeypatch):
    from lanescope import api

    inside = threading.Semaphore(1)
    alone = []

    def measuring(experiment, backend, machine, plan, told):
        alone.append(inside.acquire(blocking=False))
        time.sleep(0.02)
        inside.release()
        told(experiment)

    monkeypatch.setattr(api, "measure_one", measuring)
    place = Place("h0", Memory.PAGEABLE)
    copy = Copy(place, place, 1 << 20, Engine.CPU, Operation.TRIAD, (0,))
    experiment = Experiment("mine", "my triad", (copy,), Timing.HOST)
    threads = [threading.Thread(target=lanescope.measure, args=(experiment,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert alone == [True] * 4


@pytest.mark.usefixtures("small_arrays")
def test_check_and_read_back():
    run = lanescope.check(cases=["host-copy/h0/1-core"], plan=Plan(0.5, 0.1))
    assert lanescope.read_run(run.folder) == run
    assert "memory h0" in run._repr_html_()


def test_progress_counts():
    seen = []
    lanescope.check("h200-x2", progress=lambda e, number, total: seen.append((number, total)))
    assert seen == [(i, len(seen)) for i in range(1, len(seen) + 1)]


def test_a_described_machine_is_predicted():
    run = lanescope.check("h200-x2", cases=["h2d/g0"])
    assert run.predicted
    assert run.results[0].copies[0].gbs == pytest.approx(58.4, abs=0.1)


def test_sweep_of_a_described_machine():
    run = lanescope.sweep("h200-x2", sizes=[64, 1 << 30], gpus=[1], memories=[Memory.PINNED])
    assert len(run.results) == 2 * 2 * 2
    assert {c.copy.path for r in run.results for c in r.copies} == {"h0 → g1", "g1 → h0"}


def test_bad_arguments():
    with pytest.raises(InputError, match="no GPU 7"):
        lanescope.sweep("h200-x2", gpus=[7])
    bare = lanescope.Machine("bare", nodes=lanescope.discover().nodes, described=True)
    with pytest.raises(InputError, match="no GPU to measure"):
        lanescope.sweep(bare)
    with pytest.raises(InputError, match="1 B or more"):
        Copy(Place("h0", Memory.PINNED), Place("g0", Memory.DEVICE), 0, Engine.CE)
    with pytest.raises(InputError, match="no copies"):
        Experiment("none", "none", ())


def test_what_is_named_twice_is_measured_once():
    memories = [Memory.PINNED, Memory.PINNED]
    run = lanescope.sweep("h200-x2", sizes=[64, 64, 128], gpus=[0, 0], memories=memories)
    names = [r.experiment.name for r in run.results]
    assert len(set(names)) == len(names) == 2 * 2 * 2
    assert lanescope.read_run(run.folder) == run


def test_parts_that_are_not_there():
    copy = Copy(Place("h0", Memory.PINNED), Place("g7", Memory.DEVICE), 64, Engine.CE)
    with pytest.raises(InputError, match="no g7 in machine"):
        lanescope.measure(Experiment("x", "x", (copy,)), "h200-x2")


def test_copies_that_nothing_can_do():
    host, pinned = Place("h0", Memory.PAGEABLE), Place("h0", Memory.PINNED)
    gpu = Place("g0", Memory.DEVICE)
    for part, memory in (("x", Memory.PINNED), ("g0", Memory.PINNED), ("h0", Memory.DEVICE)):
        with pytest.raises(InputError):
            Place(part, memory)
    for copy in (
        (host, gpu, 64, Engine.CPU),
        (host, host, 64, Engine.CPU, Operation.LAUNCH),
        (host, pinned, 64, Engine.CPU, Operation.GATHER),
        (pinned, gpu, 64, Engine.CE, Operation.ALLOCATE),
        (pinned, pinned, 64, Engine.CE),
        (pinned, gpu, 64, Engine.CE, Operation.TRIAD),
    ):
        with pytest.raises(InputError):
            Copy(*copy)


def test_experiments_that_no_clock_can_time():
    host, pinned = Place("h0", Memory.PAGEABLE), Place("h0", Memory.PINNED)
    gpu = Place("g0", Memory.DEVICE)
    down = Copy(pinned, gpu, 64, Engine.CE)
    with pytest.raises(InputError, match="mixes host threads and GPU"):
        Experiment("x", "x", (down, Copy(host, host, 64, Engine.CPU)))
    with pytest.raises(InputError, match="behind the gate"):
        Experiment("x", "x", (Copy(host, gpu, 64, Engine.CE),))


def test_a_run_has_a_repr_of_two_lines_and_gives_its_rows(tmp_path):
    run = lanescope.check("h200-x2", cases=["h2d/*"])
    first, second = repr(run).splitlines()
    assert first.startswith("<Run: check of h200-x2, complete, 2 results, in ")
    assert second.startswith("predicted (exit code 0)")
    assert json.loads(run.to_json())["verb"] == "check"
    table = run.to_arrow()
    assert table.num_rows == 2
    assert "gbs" in table.column_names
    assert ", 1 result, in " in repr(dataclasses.replace(run, results=run.results[:1]))
    page = run.report(tmp_path / "page.html")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert run.report() == run.folder / "report.html"
    assert lanescope.read_run("latest") == lanescope.read_run(run.folder.name) == run
    with pytest.raises(InputError, match="no run 'nosuch' here or under"):
        lanescope.read_run("nosuch")
    with pytest.raises(InputError, match="give a path"):
        dataclasses.replace(run, folder=None).report()
    with pytest.raises(InputError, match="name another place"):
        run.report(tmp_path / "missing" / "page.html")


@pytest.mark.parametrize(
    "imports", ["from lanescope import read_run", "from lanescope.store.store import read_run"]
)
def test_a_run_shows_itself_whatever_was_imported(tmp_path, imports):
    run = lanescope.check("h200-x2", cases=["h2d/*"], out=tmp_path / "run")
    code = f"{imports}\nrun = read_run({str(run.folder)!r})\nprint(run, *run.results, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n".join(map(repr, [run, *run.results])) + "\n"


def test_the_page_of_a_run_from_elsewhere_goes_into_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = lanescope.check("h200-x2", cases=["h2d/*"], out="here/mine")
    read = lanescope.read_run("here/mine")
    assert read == made
    assert read.report().resolve() == tmp_path / "mine.report.html"
    assert made.report() == made.folder / "report.html"


def test_rows_as_pandas_say_what_is_missing(monkeypatch):
    run = lanescope.check("h200-x2", cases=["h2d/*"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install pandas"):
        run.to_pandas()


def test_a_program_is_watched(tmp_path, monkeypatch):
    found = lanescope.watch(f"{sys.executable} -c 'raise SystemExit(3)'", out=tmp_path / "run")
    assert found.exit_code == 3
    assert repr(found).count("\n") == 1
    assert f"stored in {tmp_path / 'run'}" in repr(found)
    assert found.as_dict()["version"] == 1
    assert "class='lanescope'" in found._repr_html_().replace('"', "'")
    assert found.report(static=True) == tmp_path / "run" / "report.html"
    assert "Watch of" in found.report(tmp_path / "x.html").read_text()
    with pytest.raises(InputError, match="name one thing to watch"):
        lanescope.watch()
    with pytest.raises(InputError, match="there is no source 'nosuch'"):
        lanescope.watch(["true"], sources="nosuch")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("python it's.py", "No closing quotation"),
        ("python \\", "No escaped character"),
        ("python a\0b", "NUL"),
        ("python \ud800", "surrogates not allowed"),
    ],
)
def test_a_program_that_cannot_be_taken_apart_is_refused(program, why):
    with pytest.raises(InputError, match=f"program .* cannot be taken apart: .*{why}"):
        lanescope.watch(program)


def test_words_of_a_program_may_have_several_lines(tmp_path):
    program = [sys.executable, "-c", f"import sys\nopen({str(tmp_path / 'x')!r}, 'w')\nsys.exit(3)"]
    assert lanescope.watch(program, out=tmp_path / "run").run.manifest.exit_code == 3
    assert (tmp_path / "x").exists()
    for word in ("a\0b", "\ud800"):
        with pytest.raises(InputError, match=r"program\[1\] cannot be"):
            lanescope.watch([sys.executable, word])


def test_a_machine_is_shown():
    found = lanescope.topo("h200-x2")
    assert repr(found).startswith("described machine h200-x2")
    assert found.as_dict()["name"] == "h200-x2"
    assert "<svg" in found._repr_html_()
    assert repr(lanescope.topo()).startswith("machine ")


@pytest.mark.usefixtures("small_arrays")
def test_a_node_is_checked_by_a_process_of_its_own(tmp_path):
    report = lanescope.node(within="20s", out=tmp_path / "run")
    assert report.state in ("healthy", "not measured", "sick")
    assert str(report).startswith(f"{report.host}: ")
    assert lanescope.read_run(tmp_path / "run").manifest.verb == "node"
    with pytest.raises(lanescope.InputError, match="holds a run"):
        lanescope.node(out=tmp_path / "run")
    with pytest.raises(lanescope.InputError, match="leaves no time to measure"):
        lanescope.node(within=1)
    with pytest.raises(lanescope.InputError, match="no machine is named"):
        lanescope.node(expected="nosuch")
