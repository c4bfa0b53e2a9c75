"""Rows that are sorted on the disk, and what is worked out of them some at a time."""

import os

import numpy as np
import pytest

from lanescope.errors import InputError
from lanescope.findings.trace import evidence as medians
from lanescope.findings.trace.copies import BATCH_GAP_NS, batches
from lanescope.findings.trace.evidence import median
from lanescope.trace import rectangles as intervals
from lanescope.trace import stored_columns
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.trace.stored_columns import SortedRows, StoredColumn, search, search_all

TYPES = {"start_ns": np.int64, "end_ns": np.int64, "what": np.int8}


@pytest.fixture
def small(monkeypatch):
    """Have a hundred rows be too many."""
    monkeypatch.setattr(stored_columns, "MOST_ROWS", 100)
    monkeypatch.setattr(stored_columns, "SLICE", 32)
    monkeypatch.setattr(stored_columns, "_APART", 8)
    monkeypatch.setattr(intervals, "_CHUNK", 50)
    monkeypatch.setattr(medians, "_MOST_SORTED", 20)
    monkeypatch.setattr(stored_columns, "_SEARCHED", 40)


def made(random, count, keys):
    """Return columns: nearly in order, in any order, in order, or with many equal keys."""
    start = {
        "near": np.arange(count) * 10 + random.integers(0, 500, count),
        "any": random.integers(0, 10 * count, count),
        "order": np.arange(count),
        "equal": random.integers(0, 3, count),
    }[keys]
    end = start + random.integers(0, 40, count)
    return {"start_ns": start, "end_ns": end, "what": random.integers(0, 99, count)}


def in_parts(columns, random, folder, by="start_ns"):
    rows, at, count = SortedRows(TYPES, by, folder), 0, columns["start_ns"].size
    while at < count:
        until = at + int(random.integers(1, 70))
        rows.add({name: column[at:until] for name, column in columns.items()})
        at = until
    return rows.columns()


@pytest.mark.parametrize("keys", ["near", "any", "order", "equal"])
@pytest.mark.parametrize("count", [0, 1, 99, 101, 1000, 3456])
@pytest.mark.parametrize("by", ["start_ns", "end_ns"])
def test_rows_are_those_of_a_stable_sort(small, tmp_path, keys, count, by):
    random = np.random.default_rng(count)
    columns = made(random, count, keys)
    found = in_parts(columns, random, tmp_path, by)
    assert isinstance(found["what"], StoredColumn) == (count > 100)
    order = np.argsort(columns[by], kind="stable")
    for name, column in columns.items():
        assert found[name].dtype == TYPES[name]
        assert np.array_equal(np.asarray(found[name]), column[order])
    sorted_keys = columns[by][order]
    wanted = np.sort(random.integers(-50, 10 * count + 50, 200))
    for side in ("left", "right"):
        places = np.searchsorted(sorted_keys, wanted, side)
        assert np.array_equal(search_all(found[by], wanted, side), places)
        assert [search(found[by], int(w), side) for w in wanted[::9]] == places[::9].tolist()
    assert list(tmp_path.iterdir()) == []  # the file has no name


def test_the_file_is_in_the_folder_of_the_columns_if_that_can_be_written(tmp_path):
    with (
        stored_columns.scratch_file(tmp_path) as beside,
        stored_columns.scratch_file(None) as other,
    ):
        folders = [
            os.path.dirname(os.readlink(f"/proc/self/fd/{f.fileno()}")) for f in (beside, other)
        ]
    assert folders[0] == str(tmp_path) != folders[1]


def test_a_full_disk_is_one_sentence(small, monkeypatch, tmp_path):
    with open("/dev/full", "r+b", buffering=0) as full:
        monkeypatch.setattr(stored_columns, "scratch_file", lambda _: full)
        with pytest.raises(InputError, match=f"sorted in {tmp_path}: No space left on device"):
            in_parts(made(np.random.default_rng(1), 500, "any"), np.random.default_rng(1), tmp_path)


@pytest.mark.parametrize("count", [1, 2, 7, 500, 501, 3000])
def test_medians_are_those_of_all_values_at_once(small, count):
    random = np.random.default_rng(count)
    for values in (
        random.random(count) * 1e-3,
        random.integers(0, 3, count).astype(np.float64),
        np.full(count, 7.5),
        np.where(np.arange(count) < count // 2, 1.0, 2.0),
        np.exp(random.normal(0, 20, count)),
    ):
        assert median(count, lambda v=values: iter(np.array_split(v, 9))) == np.median(values)


@pytest.mark.parametrize("keys", ["near", "any", "equal"])
def test_stored_intervals_cover_what_arrays_do(small, tmp_path, keys):
    random = np.random.default_rng(1)
    columns = made(random, 2000, keys)
    found = in_parts(columns, random, tmp_path)
    assert isinstance(found["start_ns"], StoredColumn)
    whole = covered_ns(columns["start_ns"], columns["end_ns"])
    assert covered_ns(found["start_ns"], found["end_ns"]) == whole


def test_batches_do_not_end_with_a_piece(small, monkeypatch):
    random = np.random.default_rng(1)
    start = np.cumsum(random.integers(0, 2 * BATCH_GAP_NS // 3, 1000))
    rows = Operations.of(
        start_ns=start,
        end_ns=start + 10,
        stream=random.integers(0, 3, 1000),
        pid=random.integers(1, 3, 1000),
    )
    key = list(zip(rows.pid.tolist(), rows.stream.tolist(), strict=True))
    ended, left = {}, 0
    for one, begin, end in zip(key, rows.start_ns.tolist(), rows.end_ns.tolist(), strict=True):
        left += begin - ended.get(one, -(10**9)) > BATCH_GAP_NS
        ended[one] = end
    assert batches(rows) == left
    monkeypatch.setattr(Operations.pieces, "__defaults__", (13,))
    assert batches(rows) == left
