"""Files of stored watches that were swapped or emptied are refused, with file and field."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.trace.columns import read_counter_file, write_counter_file
from lanescope.trace.store import read_watch

WATCHES = Path(__file__).parents[2] / "benchmarks/results/h200-x1/watch"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copied = shutil.copytree(WATCHES / "matmul", tmp_path / "watch")
    assert read_watch(copied).timeline.counters  # all is well
    return copied


def test_counters_of_another_time_are_refused(folder: Path) -> None:
    path = folder / "counters.parquet"
    others = [dataclasses.replace(c, end_ns=c.end_ns + 10**13) for c in read_counter_file(path)]
    write_counter_file(path, others)
    with pytest.raises(InputError, match=r"counters\.parquet: no record is of the time of this"):
        read_watch(folder)


def test_counters_without_what_was_counted_are_refused(folder: Path) -> None:
    write_counter_file(folder / "counters.parquet", [])
    with pytest.raises(InputError, match=r"counters\.parquet: 'series' lacks pm\.g0, which took"):
        read_watch(folder)


def test_copies_of_no_process_are_refused(folder: Path) -> None:
    (folder / "processes.json").write_text("[]")
    with pytest.raises(InputError, match=r"operations\.parquet: column 'pid' holds \d+, and .*"):
        read_watch(folder)


def test_operations_of_another_time_are_refused(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {name: manifest[name] - 10**14 for name in ("start_ns", "end_ns")}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_counter_file(folder / "counters.parquet", [])
    with pytest.raises(InputError, match=r"operations\.parquet: no record is of the time of this"):
        read_watch(folder)
