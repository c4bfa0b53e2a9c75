"""Long watches stay on the disk: what is told of them is what is told of arrays."""

import dataclasses
import os
import threading

import numpy as np
import pyarrow as pa
import pytest

from lanescope.errors import InputError
from lanescope.findings.trace import evidence as finding
from lanescope.findings.trace import find
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.report.perfetto_tracks import counter_track, unknown_spans
from lanescope.report.timeline_html import _Bins
from lanescope.report.timeline_lanes import lanes_of
from lanescope.trace import (
    columns,
    counter_spool,
    operations,
    rectangles,
    store,
    stored_columns,
)
from lanescope.trace import rectangles as intervals
from lanescope.trace import trace_stream as stream
from lanescope.trace import wire_fit as fit
from lanescope.trace.columns import read_columns, write_columns
from lanescope.trace.counter_spool import RECORD, counter_header
from lanescope.trace.operations import COLUMNS, Operations
from lanescope.trace.store import read_spools
from lanescope.trace.stored_columns import (
    MOST_AT_ONCE,
    MOST_IN_MEMORY,
    ParquetRecords,
    StoredColumn,
    each_in_a_thread,
    in_memory,
    search,
)
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Counters, Timeline
from lanescope.trace.windows import WINDOWS_NS
from tests.trace.test_trace_spool import call, header, operation, text
from tests.trace.timelines import MS, copies, even_counters, timeline

MACHINE = Machine(name="one", nodes=(NumaNode(0, cores=((0,),)),), gpus=(Gpu(0, "one"),))


class Numbers:
    """A file of one column, which remembers how much was read at once."""

    def __init__(self, values):
        self.values, self.most = values, 0

    def read(self, name, begin, end):
        self.most = max(self.most, end - begin)
        return self.values[begin:end]


def test_a_stored_column_is_sliced_and_searched_as_an_array():
    values = np.sort(np.random.default_rng(1).integers(0, 5000, 1234))
    numbers = Numbers(values)
    column = StoredColumn(numbers, "n", 34, 1234, np.int64, 100)
    values = values[34:]
    for side in ("left", "right"):
        wanted = [*range(-1, 5002, 7), *values[::50].tolist()]
        assert [search(column, w, side) for w in wanted] == [
            int(np.searchsorted(values, w, side)) for w in wanted
        ]
    assert numbers.most <= 100
    assert column[5:9].tolist() == values[5:9].tolist()
    assert (column[0], column[-1], len(column)) == (values[0], values[-1], 1200)
    assert np.array_equal(np.asarray(column), values)
    with pytest.raises(IndexError):
        column[1200]
    with pytest.raises(TypeError):
        column + 1  # nobody shall take all of it into memory unawares


@pytest.fixture
def all_on_disk(monkeypatch):
    """Have even short watches stay on the disk, and be worked on in small pieces."""
    monkeypatch.setattr(columns, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(counter_spool, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(store, "MOST_BYTES_IN_MEMORY", 0)
    monkeypatch.setattr(fit, "_BLOCK", 7)
    monkeypatch.setattr(fit, "_CHUNK", 999)
    monkeypatch.setattr(rectangles, "_CHUNK", 50)
    monkeypatch.setattr(stored_columns, "MOST_AT_ONCE", 0)
    monkeypatch.setattr(stored_columns, "MOST_ROWS", 64)
    monkeypatch.setattr(stored_columns, "SLICE", 16)
    monkeypatch.setattr(stored_columns, "_APART", 4)
    monkeypatch.setattr(intervals, "_CHUNK", 30)
    monkeypatch.setattr(finding, "_MOST_SORTED", 10)
    monkeypatch.setattr(stored_columns, "_SEARCHED", 20)
    monkeypatch.setattr(stream, "_BLOCK", 1 << 14)
    monkeypatch.setattr(Operations.pieces, "__defaults__", (100,))
    monkeypatch.setattr(Counters.pieces, "__defaults__", (1000,))


def busy():
    """A second of copies of many kinds, and of counters that have seen other traffic, too."""
    counters = even_counters(20.0)
    lost = np.arange(len(counters)) % 5000 == 17
    counters = dataclasses.replace(counters, known=counters.known & ~lost)
    kinds = (
        copies(400, 40 << 20, every_ns=2 * MS, lasts_ns=MS),
        copies(300, 512, start_ns=7, every_ns=MS, lasts_ns=900, host=1, asynchronous=False),
        copies(250, 70_000, every_ns=3 * MS, lasts_ns=MS, down=False, host=1, pid=8, thread=3),
        copies(90, 0, every_ns=10 * MS, lasts_ns=5 * MS, what=2),
    )
    return timeline(*kinds, counters=(counters,))


def close(one, other):
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and all(
            close(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one)
        )
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        # what is unexplained is a small difference of large sums
        return one == pytest.approx(other, rel=1e-5, abs=1e-9)
    return one == other


def test_the_summary_from_the_disk_is_that_from_memory(tmp_path, request):
    seen = busy()
    summary = summarise(seen, MACHINE)
    findings = find(seen, summary, MACHINE)
    assert {f.kind for f in findings} >= {"pageable-async"}
    write_columns(tmp_path, seen)
    request.getfixturevalue("all_on_disk")
    back = read_columns(tmp_path, seen.start_ns, seen.end_ns)
    assert isinstance(back.counters[0].end_ns, StoredColumn)
    assert isinstance(back.operations.start_ns, StoredColumn)
    again = summarise(back, MACHINE)
    for field in dataclasses.fields(summary):
        assert close(getattr(summary, field.name), getattr(again, field.name)), field.name
    assert len(summary.directions[0].rates.windows) == len(WINDOWS_NS)
    assert close(findings, find(back, again, MACHINE))


def test_gpus_at_once_are_summed_up_as_one_after_the_other(tmp_path, monkeypatch):
    seen = busy()
    more = tuple(dataclasses.replace(seen.counters[0], gpu=gpu) for gpu in (1, 2))
    seen = dataclasses.replace(seen, counters=(*seen.counters, *more))
    write_columns(tmp_path, seen)
    for module in (columns, stored_columns):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", 0)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        back = read_columns(tmp_path, seen.start_ns, seen.end_ns)
        assert isinstance(back.counters[0].end_ns, StoredColumn)
        found.append(summarise(dataclasses.replace(back, operations=seen.operations), MACHINE))
    one, several = found
    assert len(several.directions) == 6
    for field in dataclasses.fields(one):
        assert getattr(one, field.name) == getattr(several, field.name), field.name


@pytest.mark.parametrize("cores", [1, 2])
def test_threads_work_on_many_records_and_not_on_very_many(cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    own = threading.get_ident()
    for records in (MOST_IN_MEMORY, MOST_IN_MEMORY + 1, MOST_AT_ONCE, MOST_AT_ONCE + 1):
        found = each_in_a_thread(lambda one: (one, threading.get_ident()), "abc", records)
        assert [one for one, _ in found] == [*"abc"]
        alone = cores == 1 or records in (MOST_IN_MEMORY, MOST_AT_ONCE + 1)
        assert (own in {thread for _, thread in found}) == alone


def test_what_a_thread_raises_is_raised(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(ZeroDivisionError):
        each_in_a_thread(lambda one: 1 // one, (1, 0, 2), MOST_AT_ONCE)


def test_exports_and_lanes_from_the_disk_are_those_from_memory(tmp_path, request):
    seen = busy()  # each process tells its operations in order
    order = np.argsort(seen.operations.start_ns, kind="stable")
    seen = dataclasses.replace(seen, operations=seen.operations.rows(order))
    whole = seen.counters[0]
    track, spans = counter_track(whole, whole.rx_bytes, 500), unknown_spans(whole)
    few, many = lanes_of(seen.operations, 200), lanes_of(seen.operations, 20_000)
    write_columns(tmp_path, seen)
    request.getfixturevalue("all_on_disk")
    back = read_columns(tmp_path, seen.start_ns, seen.end_ns)
    again = back.counters[0]
    found = counter_track(again, again.rx_bytes, 500)
    assert np.array_equal(found.mean.at_ns, track.mean.at_ns)
    assert np.allclose(found.mean.gbs, track.mean.gbs)
    assert np.array_equal(found.peak.gbs, track.peak.gbs)
    assert unknown_spans(again) == spans
    assert len(spans) >= 20
    for before, most in ((few, 200), (many, 20_000)):
        lanes = lanes_of(back.operations, most)
        assert lanes.lanes == before.lanes
        assert np.array_equal(lanes.merged, before.merged)
        assert np.array_equal(lanes.operations.bytes, before.operations.bytes)
        assert np.array_equal(lanes.busy_ns, before.busy_ns)


def test_what_comes_next_is_decoded_ahead(tmp_path):
    path, whole = tmp_path / "counters.parquet", even_counters(5.0)
    wide = _schema()
    parts = [whole.rows(slice(begin, begin + 1000)) for begin in range(0, 5000, 1000)]
    columns.write_tables(path, wide, (columns._series_table(0, one, wide) for one in parts))
    records = ParquetRecords(path, columns._OF_COUNTERS.records, inner=0, ahead=True)
    assert records.groups == 5
    for begin, end in ((0, 1), (0, 1500), (1500, 4000), (3990, 5000), (20, 30), (4999, 5000)):
        for name in ("end_ns", "rx_bytes"):
            assert np.array_equal(records.read(name, begin, end), getattr(whole, name)[begin:end])


def test_damage_that_is_met_ahead_is_one_sentence(tmp_path):
    path, whole = tmp_path / "counters.parquet", even_counters(5.0)
    parts = [whole.rows(slice(begin, begin + 1000)) for begin in range(0, 5000, 1000)]
    wide = _schema()
    columns.write_tables(path, wide, (columns._series_table(0, one, wide) for one in parts))
    span = {**columns._OF_COUNTERS.records, "end_ns": (0, int(whole.end_ns[2500]))}
    records = ParquetRecords(path, span, inner=0, ahead=True)
    assert records.read("end_ns", 0, 1000).size == 1000
    assert records.read("end_ns", 1000, 2000).size == 1000
    for _ in range(2):
        with pytest.raises(InputError, match="the column 'end_ns' holds what is not from"):
            records.read("end_ns", 2000, 3000)


def _schema():
    types = {name: pa.int64() for name in ("end_ns", "rx_bytes", "tx_bytes")}
    types |= {"series": pa.int16(), "known": pa.bool_(), "own": pa.bool_()}
    names = ("series", "end_ns", "rx_bytes", "tx_bytes", "known", "own")
    return pa.schema([pa.field(name, types[name], nullable=False) for name in names])


def test_bins_do_not_depend_on_the_pieces_they_come_in():
    random = np.random.default_rng(3)
    end = np.cumsum(random.integers(1, 50, 5000))
    start = np.append(end[:1], end[:-1])
    known = random.random(5000) > 0.01
    rx, tx = random.integers(0, 1 << 20, (2, 5000))

    def bins(cuts):
        made = _Bins(37)
        for part in np.split(np.arange(5000), cuts):
            made.add(start[part], end[part], known[part], rx[part], tx[part])
        return made.columns()

    whole = bins([])
    assert whole[1][0].sum() == rx[known & (end > start)].sum()
    for size in (1, 36, 37, 1000):
        for one, other in zip(whole, bins(np.arange(size, 5000, size)), strict=True):
            assert np.array_equal(one, other)


def test_spools_are_read_piece_by_piece_as_whole(tmp_path, request):
    random = np.random.default_rng(5)
    records = np.zeros(3000, RECORD)
    records["end_ns"] = 10**9 + np.arange(3000) * 10_000
    records["rx_bytes"] = random.integers(0, 1 << 20, 3000)
    records["rx_bytes"][::97] = records["tx_bytes"][::97] = 0xFFFFFFFF
    content = counter_header("pm", 0, 10_000).encode() + records.tobytes() + b"part"
    (tmp_path / "pm.g0.bin").write_bytes(content)
    for pid in (12, 13):
        parts = [header(pid=pid), text(2, 1, "cudaMemcpyAsync"), text(6, 0, "a note")]
        for number in range(1, 2001):
            parts += [call(10 * number, number, name=1), operation(10 * number + 5, number)]
        parts += [operation(1, 0, flags=1), text(2, 2, f"kernel of {pid}")]
        parts += [operation(30_000, 0, name=2), operation(40_000, 0)[:30]]
        (tmp_path / f"trace.{pid}.bin").write_bytes(b"".join(parts))
    whole = read_spools(tmp_path, MACHINE, 0, None)
    request.getfixturevalue("all_on_disk")
    back = read_spools(tmp_path, MACHINE, 0, None)
    assert isinstance(back.counters[0].end_ns, StoredColumn)
    assert isinstance(back.operations.start_ns, StoredColumn)
    assert (back.end_ns, back.processes) == (whole.end_ns, whole.processes)
    assert [p.unfinished for p in back.processes] == [1, 1]
    one, other = whole.counters[0], in_memory(back.counters[0])
    for name in ("end_ns", "rx_bytes", "tx_bytes", "known"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert len(back.operations) == len(whole.operations) == 4002
    assert back.operations.names == whole.operations.names
    for name in COLUMNS:
        column = np.asarray(getattr(back.operations, name))
        assert np.array_equal(getattr(whole.operations, name), column), name
    assert {p.name for p in tmp_path.iterdir()} == {"pm.g0.bin", "trace.12.bin", "trace.13.bin"}


def test_rows_that_a_mask_chooses_have_what_was_asked_for():
    seen = busy().operations
    found = seen.where(lambda o: o.is_kernel, "pid", device=0)
    assert len(found) == 90
    assert found.pid.tolist() == [7] * 90
    assert found.bytes.size == 0  # not asked for
    assert len(seen.where(lambda o: o.is_kernel, device=3)) == 0
    assert len(Timeline(0, 1).operations.where(lambda o: o.is_copy)) == 0
    assert operations.COLUMNS == COLUMNS


@pytest.mark.usefixtures("all_on_disk")
def test_halves_of_a_source_are_brought_together_from_long_spools(tmp_path):
    records = np.zeros(500, RECORD)
    records["end_ns"] = 10**9 + np.arange(500) * 20 * MS
    for half, column in (("rx", "rx_bytes"), ("tx", "tx_bytes")):
        records[column][1:] = 7
        content = counter_header(f"throughput-{half}", 0, 20 * MS, [column]).encode()
        (tmp_path / f"throughput-{half}.g0.bin").write_bytes(content + records.tobytes())
    (both,) = read_spools(tmp_path, MACHINE, 0, None).counters
    assert both.source == "throughput"
    assert (both.rx_bytes.sum(), both.tx_bytes.sum()) == (499 * 7, 499 * 7)
