import dataclasses
import errno
import itertools
import json
import multiprocessing
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lanescope.copies import Timing
from lanescope.engine.base import ModelBackend
from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import InputError, NotMeasuredError
from lanescope.fleet.folder import folders_of
from lanescope.store import store
from lanescope.store.folder import (
    SCHEMA_VERSION,
    State,
    default_runs_folder,
    find_run,
    new_run_folder,
)
from lanescope.store.run import Manifest, rows_of
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.runs.export import run_csv, run_json
from tests.conftest import experiment_of, gpu_to_host, host_to_gpu
from tests.fake_backend import FakeBackend
from tests.patience import PATIENCE_S


def seconds(copy, batch):
    if copy.destination.part == "g1":
        raise NotMeasuredError("g1 is busy.", "Wait.")
    return [0.01, 0.0101]


def test_runs_are_not_below_a_relative_data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("LANESCOPE_RUNS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert default_runs_folder() == tmp_path / ".local" / "share" / "lanescope" / "runs"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_runs_folder() == tmp_path / "data" / "lanescope" / "runs"


@pytest.fixture
def manifest(two_gpus):
    return Manifest("check", "lanescope check", "2026-11-21T10:00:00+00:00", "0.1.0", two_gpus)


@pytest.fixture
def cases():
    return [
        experiment_of(host_to_gpu(), name="h2d/g0"),
        experiment_of(host_to_gpu(gpu=1), name="h2d/g1"),
        experiment_of(host_to_gpu(), gpu_to_host(), name="both"),
    ]


@pytest.fixture
def stored(tmp_path, two_gpus, manifest, cases):
    writer = RunWriter(tmp_path / "run", manifest)
    measure_all(cases, FakeBackend(seconds), two_gpus, Plan(), writer.add)
    return writer.finish(State.COMPLETE)


def test_what_is_written_reads_back(stored):
    again = read_run(stored.folder)
    assert again == stored
    for mine, theirs in zip(stored.results, again.results, strict=True):
        for a, b in zip(mine.copies, theirs.copies, strict=True):
            assert np.array_equal(a.seconds, b.seconds)


def test_a_killed_run_reads_back_as_far_as_it_came(tmp_path, two_gpus, manifest, cases):
    writer = RunWriter(tmp_path / "run", manifest)
    measure_all(cases[:2], FakeBackend(seconds), two_gpus, Plan(), writer.add)
    run = read_run(tmp_path / "run")  # without finish(), as after kill -9
    assert run.manifest.state is State.RUNNING
    assert [r.experiment.name for r in run.results] == ["h2d/g0", "h2d/g1"]
    (tmp_path / "run" / "samples" / "0001.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"samples/0001\.parquet is no Parquet file"):
        read_run(tmp_path / "run")


def test_columns_are_those_that_pyarrow_finds(stored):
    rows = [row.to_table() for row in rows_of(stored.results)]
    assert store._results_table(stored.results).equals(pa.Table.from_pylist(rows))
    values = [[None, None], [1, None], [1.5, None], [1, 2.5], [True, None], ["a", None]]
    values += [[Timing.GATE, "b"], [(0, 1), ()], [(), ()], [(0, 1), None], [[{"gpu": "g0"}], []]]
    for column in values:
        found = pa.Table.from_pylist([{"column": value} for value in column])
        assert pa.table({"column": store._column(column)}).equals(found), column
        assert pa.table({"column": store._column(column)}).schema.equals(found.schema), column


def test_types_are_not_looked_for_among_the_modules(stored, monkeypatch):
    sought = []

    class Finder:
        def find_spec(self, name, path=None, target=None):
            sought.append(name)

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "dateutil", raising=False)
    store._results_table([replace(result, links=()) for result in stored.results])
    assert sought == []


@pytest.mark.parametrize("verb", ["watch", "reproduce"])
def test_a_folder_that_holds_no_paths_is_refused_by_what_it_is(stored, verb):
    file = stored.folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "verb": verb, "program": []}))
    with pytest.raises(InputError, match=f"a run of '{verb}', which holds no paths"):
        read_run(stored.folder)


def test_predictions_share_files_and_read_back_after_a_kill(
    tmp_path, two_gpus, manifest, monkeypatch
):
    now = itertools.count(0.0, 0.005)  # the clock is read once or twice for each result
    monkeypatch.setattr(store.time, "monotonic", lambda: next(now))
    writer = RunWriter(tmp_path / "run", manifest)
    many = [experiment_of(host_to_gpu(64 << 20), name=f"h2d/{i}") for i in range(1000)]
    measure_all(many, ModelBackend(two_gpus), two_gpus, Plan(), writer.add)
    assert len(list((tmp_path / "run" / "results").iterdir())) < 20
    killed = [r.experiment.name for r in read_run(tmp_path / "run").results]
    assert killed == [e.name for e in many][: len(killed)]
    assert len(killed) > 700
    last = experiment_of(host_to_gpu(), name="measured")
    measure_all([last], FakeBackend(seconds), two_gpus, Plan(), writer.add)
    assert len(read_run(tmp_path / "run").results) == 1001  # what is measured takes all with it
    assert read_run(writer.finish(State.COMPLETE).folder).results[-1].experiment.name == "measured"


@pytest.mark.parametrize("backend", [ModelBackend, lambda _: FakeBackend(seconds)])
def test_an_end_that_is_cut_off_leaves_a_run_that_reads_back(
    tmp_path, two_gpus, manifest, monkeypatch, backend
):
    writer = RunWriter(tmp_path / "run", manifest)
    one = experiment_of(host_to_gpu(), name="one")
    measure_all([one], backend(two_gpus), two_gpus, Plan(), writer.add)
    stored = [r.experiment.name for r in read_run(tmp_path / "run").results]
    write = writer._opened.write

    def interrupted(name, content):
        if name == "results.parquet":
            raise KeyboardInterrupt
        write(name, content)

    monkeypatch.setattr(writer._opened, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.finish(State.COMPLETE)
    assert (tmp_path / "run" / "samples.parquet").exists()
    assert [r.experiment.name for r in read_run(tmp_path / "run").results] == stored


@pytest.mark.parametrize("name", ["results.parquet", "samples.parquet", "manifest.json"])
@pytest.mark.parametrize("kept", [0, 0.5])
def test_a_truncated_file_is_named(stored, name, kept):
    path = stored.folder / name
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(InputError) as caught:
        read_run(stored.folder)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["results.parquet", "samples.parquet"])
def test_a_missing_file_is_named(stored, name):
    (stored.folder / name).unlink()
    with pytest.raises(InputError, match=rf"cannot read .*/{name}: No such file"):
        read_run(stored.folder)


@pytest.mark.parametrize(("change", "word"), [(-SCHEMA_VERSION, "older"), (1, "newer")])
def test_another_schema_is_refused(stored, change, word):
    path = stored.folder / "manifest.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"schema_version": SCHEMA_VERSION + change}))
    with pytest.raises(InputError, match=word):
        read_run(stored.folder)


def test_a_run_of_schema_1_is_read():
    run = read_run(Path(__file__).parents[2] / "benchmarks/results/h200-x2/check")
    assert run.manifest.schema_version == 1
    copy = next(r for r in run.results if r.experiment.name == "h2d/g0").copies[0]
    assert (copy.copy.executor, copy.copy.pieces) == (None, 1)
    assert copy.statistics.mean_seconds == pytest.approx(copy.statistics.median_seconds, rel=0.01)


def test_a_folder_in_use_is_refused(tmp_path, manifest):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="name a new or an empty folder"):
        RunWriter(tmp_path, manifest)
    with pytest.raises(InputError, match="name a new or an empty folder"):
        RunWriter(tmp_path / "file", manifest)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_taken_folder_is_told_apart(tmp_path, manifest):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    RunWriter(tmp_path / "run", manifest).close()
    suite = dataclasses.replace(manifest, verb="taruc")
    for name, words in (("file", "is a file"), ("full", "holds files"), ("run", "holds a run")):
        with pytest.raises(InputError, match=words) as caught:
            RunWriter(tmp_path / name, manifest)
        assert "--resume" not in str(caught.value)
    with pytest.raises(InputError, match="or go on with this one by resume"):
        RunWriter(tmp_path / "run", suite, resumable=True)


def test_a_file_is_no_run(tmp_path):
    for name, words in (
        ("machine.toml", "is a file and no run; name a run's folder"),
        ("compress.json", "'lanescope bench compress --from .*compress.json' reads it"),
    ):
        (tmp_path / name).write_text("x")
        with pytest.raises(InputError, match=words):
            find_run(str(tmp_path / name))


def test_an_unwritable_folder_is_one_sentence(manifest):
    with pytest.raises(InputError, match="cannot write to /proc/lanescope: "):
        RunWriter(Path("/proc/lanescope"), manifest)


def test_a_full_disk_loses_nothing_that_was_stored(
    stored, manifest, monkeypatch, tmp_path, two_gpus, cases
):
    writer = RunWriter(tmp_path / "full", manifest)
    measure_all(cases[:1], FakeBackend(seconds), two_gpus, Plan(), writer.add)

    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(InputError, match="No space left on device"):
        measure_all(cases[1:2], FakeBackend(seconds), two_gpus, Plan(), writer.add)
    assert len(read_run(tmp_path / "full").results) == 1
    assert not list((tmp_path / "full").rglob("*.part"))


def test_find_run(stored, monkeypatch, tmp_path):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path))
    assert find_run("run") == stored.folder
    assert find_run("latest") == stored.folder
    assert find_run(str(stored.folder)) == stored.folder
    with pytest.raises(InputError, match="no run 'nonsense'"):
        find_run("nonsense")
    with pytest.raises(InputError, match="did you mean 'run'"):
        find_run("runn")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="not a run folder"):
        find_run(str(tmp_path / "empty"))


@pytest.mark.parametrize("find", [find_run, lambda name: folders_of([name])])
def test_an_empty_name_is_not_the_current_folder(stored, monkeypatch, find):
    monkeypatch.chdir(stored.folder)  # as of a variable that is not set: show "$RUN"
    with pytest.raises(InputError, match="the run's name is empty; name a run's folder"):
        find("")


def test_a_folder_without_rights_is_no_folder_of_another_kind(monkeypatch, tmp_path):
    monkeypatch.setattr("lanescope.store.folder.os.access", lambda *_: False)
    with pytest.raises(InputError, match=r"cannot read .*: Permission denied; name another run"):
        find_run(str(tmp_path))


def test_run_folders_do_not_collide(tmp_path):
    assert new_run_folder("check", tmp_path) != new_run_folder("check", tmp_path)


def test_64_processes_at_once_get_a_folder_each(tmp_path):
    # as those of `mpirun -n 64 lanescope watch`
    context = multiprocessing.get_context("fork")
    begin, folders = context.Barrier(64), context.SimpleQueue()

    def make():
        begin.wait(PATIENCE_S)
        folders.put(new_run_folder("watch", tmp_path / "runs"))

    processes = [context.Process(target=make) for _ in range(64)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0
    assert len({folders.get() for _ in processes}) == 64


def test_json_and_csv(stored):
    content = json.loads(run_json(stored))
    assert content["predicted"] is False
    assert len(content["results"]) == 4
    fast, busy = content["results"][:2]
    assert fast["gbs"] == pytest.approx(512 * 2**20 / 0.01005 / 1e9)
    assert busy["gbs"] is None
    assert busy["verdict"] == "not measured"
    header, *lines = run_csv(stored).splitlines()
    assert len(lines) == 4
    assert header.split(",")[0] == "experiment"


def test_a_described_machine_stays_described(tmp_path, manifest):
    machine = dataclasses.replace(manifest.machine, described=True)
    RunWriter(tmp_path / "run", dataclasses.replace(manifest, machine=machine))
    assert read_run(tmp_path / "run").manifest.machine.described


@pytest.mark.parametrize(
    ("file", "remedy"),
    [
        ("validation.json", "lanescope.validate(run='{}')"),
        ("link-parameters.json", "lanescope.predict(parameters='{}')"),
    ],
)
def test_runs_that_another_verb_shows_are_named(tmp_path, file, remedy):
    (tmp_path / file).write_text("{}")
    with pytest.raises(InputError, match=re.escape(remedy.format(tmp_path))):
        find_run(str(tmp_path))
