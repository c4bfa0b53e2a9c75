"""The index: what goes in comes out, once; and what is wrong with a file is one sentence."""

import itertools
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

import lanescope
from lanescope.errors import InputError
from lanescope.history import index as module
from lanescope.history.index import History
from lanescope.history.records import ObservationUnit, record_of_node, record_of_run
from lanescope.store.store import read_run
from tests.history.made_up import record, report

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def found_by(found, name):
    return next(points for points in found if points[0].observation.series == name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.sqlite"


def test_what_goes_in_comes_out_by_series_and_day(path):
    with History(path, create=True) as history:
        for day in (2, 0, 1):
            assert history.add(record(day))
        assert not history.add(record(1))
        assert len(history) == 3
    with History(path) as history:
        found = list(history.series())
        wanted = record(0)
        assert len(found) == len(wanted.observations)
        for points in found:
            assert [point.began[:10] for point in points] == [
                "2026-09-01",
                "2026-09-02",
                "2026-09-03",
            ]
        first = {points[0].observation.series: points[0] for points in found}
        assert {one.series: one for one in wanted.observations} == {
            name: point.observation for name, point in first.items()
        }
        name, point = next((n, p) for n, p in first.items() if p.devices)
        assert set(point.devices) <= set(wanted.devices)
        assert point.software == dict(wanted.software)
        before = history.values([name], record(2))
        assert list(before) == [name]
        assert before[name] == [
            (p.observation.unit, p.observation.value) for p in found_by(found, name)[:2]
        ]
        assert history.values(["nothing"] * 2000, record(2)) == {}


def test_a_gpu_takes_its_history_along_and_a_host_keeps_its_own():
    one, other = (record(0, host).observations for host in ("n1", "n2"))
    assert {o.series for o in one if o.devices} == {o.series for o in other if o.devices}
    host = [o.series for o in one if not o.devices]
    assert host
    assert not set(host) & {o.series for o in other}


def test_a_redacted_uuid_is_no_name():
    made = report(0)
    zeros = "GPU-00000000-0000-0000-0000-000000000000"
    parts = tuple(replace(part, uuid=zeros) for part in made.parts)
    keys = [d.key for d in record_of_node(replace(made, parts=parts), "").devices]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("n1/") for key in keys)


def test_a_stored_run_is_a_record_with_rates_and_times():
    run = read_run(RESULTS / "h200-x2" / "bench")
    found = record_of_run(run)
    units = {one.unit for one in found.observations}
    assert units == {ObservationUnit.GBS, ObservationUnit.SECONDS}
    assert len({one.series for one in found.observations}) == len(found.observations)
    assert found == record_of_run(run)


@pytest.mark.parametrize("name", ["h200-x2/sweep", "h200-x2/latency", "h100-x4/contention/copies"])
def test_series_of_a_run_have_different_labels(name):
    manifests = list((RESULTS / name).rglob("manifest.json"))
    assert manifests
    for manifest in manifests:
        found = record_of_run(read_run(manifest.parent)).observations
        assert len({one.series for one in found}) == len(found)
        assert len({(one.label, one.devices) for one in found}) == len(found)


def test_predictions_are_no_history(tmp_path):
    run = lanescope.check(machine="h200-x2", out=tmp_path / "run")
    with pytest.raises(InputError, match="holds predictions"):
        record_of_run(run)


def test_what_is_not_there_is_said(path):
    with pytest.raises(InputError, match="'lanescope history add' begins one"):
        History(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"garbage " * 100, "makes it again"), (b"", "")],
)
def test_a_damaged_file_is_one_sentence_and_an_empty_one_is_begun(path, content, words):
    path.write_bytes(content)
    if not words:
        with History(path) as history:
            assert len(history) == 0
        return
    with pytest.raises(InputError, match=words):
        History(path, create=True)
    assert path.read_bytes() == content


def test_a_file_that_is_cut_off_is_one_sentence(path):
    with History(path, create=True) as history:
        for day in range(20):
            history.add(record(day))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="makes it again"), History(path) as history:
        list(history.series())


def test_a_newer_file_and_one_of_another_program_are_left_alone(path, tmp_path):
    with History(path, create=True) as history:
        history.add(record(0))
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {module.VERSION + 1}")
    database.close()
    with pytest.raises(InputError, match="newer lanescope"):
        History(path)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    with pytest.raises(InputError, match="no history of lanescope"):
        History(other, create=True)


def test_a_file_that_another_process_writes_is_waited_for_and_then_said(path, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.05)
    with History(path, create=True) as history:
        history.add(record(0))
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="another process is writing to it"):
            history.add(record(1))
        writer.execute("ROLLBACK")
        writer.close()
        assert history.add(record(1))


def test_an_addition_that_fails_leaves_what_was_there(path):
    with History(path, create=True) as history:
        history.add(record(0))
        broken = record(0)
        twice = replace(broken, observations=broken.observations * 2)
        with pytest.raises(InputError):
            history.add(twice)
        (points, *_) = history.series()
        assert len(points) == 1


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for place, create in itertools.product((fifo, tmp_path), (True, False)):
        with pytest.raises(InputError, match="is no regular file; name another with --index"):
            History(place, create=create)
    assert [one.name for one in tmp_path.iterdir()] == ["fifo"]
