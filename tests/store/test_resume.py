"""Runs that are cut off at every moment, and go on."""

import contextlib
import dataclasses
import os
import shutil

import numpy as np
import pytest

from lanescope.engine.sampling import Plan, measure_all
from lanescope.errors import InputError
from lanescope.results import Stop
from lanescope.store import folder as run_folder
from lanescope.store import store
from lanescope.store.folder import State
from lanescope.store.run import Manifest
from lanescope.store.store import RunWriter, read_run
from lanescope.studies.running import finished_names, run_to_resume
from lanescope.studies.taruc import Parameters
from lanescope.studies.taruc.parameters import parameters_text
from tests.conftest import experiment_of, host_to_gpu
from tests.fake_backend import FakeBackend

CASES = [experiment_of(host_to_gpu(), name=f"host/{i}") for i in range(6)]


class Killed(BaseException):
    """What no code catches, as with kill -9."""


@pytest.fixture
def manifest(two_gpus):
    text = parameters_text(Parameters())
    started = "2026-11-21T10:00:00+00:00"
    return Manifest("taruc", "lanescope bench", started, "0.2.0", two_gpus, parameters=text)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def measure(writer, cases, machine):
    measure_all(cases, FakeBackend(lambda *_: [0.01, 0.0101]), machine, Plan(), writer.add)


def begin(folder, manifest, count):
    writer = RunWriter(folder, manifest)
    measure(writer, CASES[:count], manifest.machine)
    return writer


def go_on(folder, manifest):
    stored = run_to_resume(folder, manifest)
    writer = RunWriter.resumed(stored) if stored else RunWriter(folder, manifest)
    kept = finished_names(stored) if stored else set()
    measure(writer, [e for e in CASES if e.name not in kept], manifest.machine)
    return writer.finish(State.COMPLETE)


def names(run):
    return [r.experiment.name for r in run.results]


def require_whole(folder, run):
    assert sorted(names(run)) == [e.name for e in CASES]
    again = read_run(folder)
    assert again == run
    for mine, theirs in zip(run.results, again.results, strict=True):
        assert np.array_equal(mine.copies[0].seconds, theirs.copies[0].seconds)
    assert sorted(p.name for p in folder.iterdir()) == [
        *("machine.toml", "manifest.json", "results.parquet", "samples.parquet"),
    ]


def test_a_killed_run_goes_on(folder, manifest):
    begin(folder, manifest, 2)  # without finish(), as after kill -9; the lock goes with it
    before = [(folder / "results" / f"000{i}.parquet").read_bytes() for i in (1, 2)]
    stored = run_to_resume(folder, manifest)
    writer = RunWriter.resumed(stored)
    measure(writer, CASES[2:3], manifest.machine)
    after = [(folder / "results" / f"000{i}.parquet").read_bytes() for i in (1, 2)]
    assert before == after
    del writer
    require_whole(folder, go_on(folder, manifest))


def test_an_interrupted_run_goes_on_and_is_cut_off_again(folder, manifest):
    begin(folder, manifest, 2).finish(State.INTERRUPTED)
    writer = RunWriter.resumed(run_to_resume(folder, manifest))
    assert read_run(folder).manifest.state is State.RUNNING
    measure(writer, CASES[2:4], manifest.machine)
    del writer  # killed: both what was put together and the parts since are there
    assert names(read_run(folder)) == [e.name for e in CASES[:4]]
    require_whole(folder, go_on(folder, manifest))


def test_what_was_cut_off_itself_is_measured_again_and_kept_until_then(folder, manifest):
    writer = begin(folder, manifest, 2)
    last = writer.run.results[-1]
    writer.add(dataclasses.replace(last, stop=Stop("interrupted", 0.01, 0.1, 1.0)))
    stored = writer.finish(State.INTERRUPTED)
    assert names(stored) == ["host/0", "host/1"]
    assert finished_names(stored) == {"host/0"}
    run = go_on(folder, manifest)
    require_whole(folder, run)
    assert all(r.stop.reason != "interrupted" for r in run.results)


#: Every step of the end of a run, each of which may be its last.
@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("earlier", [0, 2])
def test_a_run_that_is_killed_while_it_is_put_together_loses_nothing(
    folder, manifest, monkeypatch, step, earlier
):
    if earlier:
        writer = begin(folder, manifest, earlier)
        last = writer.run.results[-1]
        writer.add(dataclasses.replace(last, stop=Stop("interrupted", 0.01, 0.1, 1.0)))
        writer.finish(State.INTERRUPTED)
        writer = RunWriter.resumed(run_to_resume(folder, manifest))
        measure(writer, CASES[earlier - 1 : 4], manifest.machine)
    else:
        writer = begin(folder, manifest, 4)
    left = step

    def until(function):
        def wrapper(*arguments, **options):
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return function(*arguments, **options)

        return wrapper

    def remove(path):  # file by file, as it does
        for file in sorted(path.iterdir()):
            file.unlink()
            if len(list(path.iterdir())) == 2 and step == 6:
                raise Killed
        path.rmdir()

    for module, name in ((run_folder, "replace_when_written"), (store, "sync_folder")):
        monkeypatch.setattr(module, name, until(getattr(module, name)))
    monkeypatch.setattr(shutil, "rmtree", until(remove))
    with contextlib.suppress(Killed):  # the last numbers are more than there are steps
        writer.finish(State.COMPLETE)
    del writer
    monkeypatch.undo()
    assert sorted(names(read_run(folder))) == [e.name for e in CASES[:4]]
    require_whole(folder, go_on(folder, manifest))


def test_a_run_that_is_killed_at_its_very_start_begins_anew(folder, manifest, monkeypatch):
    def killed(path, write, inner):
        if path.name == "manifest.json":
            raise Killed
        with path.open("wb") as file:
            write(file)

    monkeypatch.setattr(run_folder, "replace_when_written", killed)
    with pytest.raises(Killed):
        RunWriter(folder, manifest)
    monkeypatch.undo()
    assert run_to_resume(folder, manifest) is None
    require_whole(folder, go_on(folder, manifest))


def test_a_folder_that_is_not_there_yet_is_begun(folder, manifest):
    require_whole(folder, go_on(folder, manifest))


def test_a_folder_has_one_writer(folder, manifest):
    writer = begin(folder, manifest, 1)
    with pytest.raises(InputError, match="another lanescope writes to"):
        RunWriter.resumed(read_run(folder))
    writer.finish(State.INTERRUPTED)
    require_whole(folder, go_on(folder, manifest))


def test_file_systems_without_locks(folder, manifest, monkeypatch):
    def none(*_):
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr("fcntl.flock", none)
    require_whole(folder, go_on(folder, manifest))


def test_parts_beyond_four_digits_stay_in_order(folder, manifest):
    writer = begin(folder, manifest, 1)
    writer._number = 9998
    measure(writer, CASES[1:4], manifest.machine)
    del writer
    assert names(read_run(folder)) == [e.name for e in CASES[:4]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verb": "check"}, "is a run of 'taruc', not of 'check'"),
        ({"parameters": parameters_text(Parameters(burst=True))}, r"other parameters \(burst\)"),
        ({"parameters": None}, "other parameters"),
    ],
)
def test_another_kind_of_run_is_refused(folder, manifest, change, words):
    begin(folder, manifest, 1).finish(State.INTERRUPTED)
    with pytest.raises(InputError, match=words) as caught:
        run_to_resume(folder, dataclasses.replace(manifest, **change))
    assert "\n" not in str(caught.value)


def test_another_machine_is_refused(folder, manifest):
    begin(folder, manifest, 1).finish(State.INTERRUPTED)
    machine = manifest.machine
    for change in (
        {"name": "other"},
        {"gpus": machine.gpus[:1]},
        {"driver": "999.1"},
        {"nodes": (dataclasses.replace(machine.nodes[0], cores=((0,),)),)},
    ):
        other = dataclasses.replace(machine, **change)
        with pytest.raises(InputError, match="a run of another machine"):
            run_to_resume(folder, dataclasses.replace(manifest, machine=other))


def test_comments_and_the_tag_may_change(folder, manifest):
    begin(folder, manifest, 1).finish(State.INTERRUPTED)
    text = "# mine\n" + parameters_text(Parameters(tag="other"))
    assert run_to_resume(folder, dataclasses.replace(manifest, parameters=text)) is not None


def test_other_folders_are_refused(tmp_path, manifest):
    with pytest.raises(InputError, match="name it with out"):
        run_to_resume(None, manifest)
    (tmp_path / "file").write_text("mine")
    assert run_to_resume(tmp_path, manifest) is None
    with pytest.raises(InputError, match="name a new or an empty folder"):
        RunWriter(tmp_path, manifest)
