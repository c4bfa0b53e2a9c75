import dataclasses
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from lanescope.trace.columns import (
    COUNTERS,
    HOST_COPIES,
    PROBE,
    RecordSeries,
    read_columns,
    write_columns,
)
from lanescope.trace.counter_spool import RECORD, SpoolTail, counter_header, read_counters
from lanescope.trace.operations import COLUMNS, Operations
from lanescope.trace.probe import Probe
from lanescope.trace.side_tables import HostCopies
from lanescope.trace.timeline import Counters, Process, Timeline

NOW = 1_795_281_229_914_609_055


def series(source="pm", gpu=0, count=5, **more):
    known = np.arange(count) > 0
    numbers = np.arange(count, dtype=np.int64)
    return Counters(
        source, gpu, 10_000, NOW + numbers * 10_000, numbers * 512, numbers, known, **more
    )


def probe(gpu=0, chunk_bytes=204_800, period_ns=0, cpu_seconds=None):
    begin, direction = NOW + np.arange(6) * 50_000, np.arange(6) % 2
    copy = direction * 1000 + 4000
    return Probe(gpu, chunk_bytes, period_ns, begin, copy, copy + 1, direction, cpu_seconds)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b


@pytest.mark.parametrize(
    "timeline",
    [
        Timeline(NOW, NOW + 5),
        Timeline(
            NOW,
            NOW + 100_000,
            (series(lost_samples=3, cpu_seconds=0.25), series("counters", 1, 1), series(count=0)),
            Operations.of(
                ("", "kernel"),
                pid=[1, 2],
                what=[0, 2],
                start_ns=[NOW, NOW + 1],
                end_ns=[NOW + 5, NOW + 7],
                bytes=[4096, 0],
                asynchronous=[True, False],
                name=[0, 1],
            ),
            (Process(1, "./a 'b c'", NOW, None, False, 7),),
            (probe(cpu_seconds=0.5), probe(gpu=1, chunk_bytes=4, period_ns=7)),
        ),
    ],
)
def test_a_timeline_comes_back_as_it_was(tmp_path, timeline):
    write_columns(tmp_path, timeline)
    back = read_columns(tmp_path, timeline.start_ns, timeline.end_ns)
    assert back.processes == timeline.processes
    assert back.operations.names == timeline.operations.names
    assert all(same(getattr(back.operations, c), getattr(timeline.operations, c)) for c in COLUMNS)
    assert len(back.counters) == len(timeline.counters)
    for a, b in zip(back.counters, timeline.counters, strict=True):
        for field in dataclasses.fields(Counters):
            name = "maybe_own" if field.name == "own" else field.name
            assert same(getattr(a, name), getattr(b, name)), name
    assert len(back.probes) == len(timeline.probes)
    for one, other in zip(back.probes, timeline.probes, strict=True):
        for field in dataclasses.fields(Probe):
            assert same(getattr(one, field.name), getattr(other, field.name)), field.name
    assert (tmp_path / PROBE).exists() is bool(timeline.probes)


def test_idle_counters_take_next_to_no_room(tmp_path):
    count = 1_000_000
    quiet = dataclasses.replace(series(count=count), rx_bytes=np.zeros(count, np.int64))
    idle = dataclasses.replace(quiet, tx_bytes=np.zeros(count, np.int64))
    write_columns(tmp_path, Timeline(NOW, NOW + 1, (idle,)))
    assert (tmp_path / COUNTERS).stat().st_size < count / 4


def test_counted_copies_that_lie_evenly_are_read_again(tmp_path):
    """Of 25 one was recorded and has a time of its own."""
    apart = np.repeat(np.random.default_rng(1).integers(40, 60, 20_000), 25)
    start = NOW + np.cumsum(apart)
    zeros = np.zeros(start.size, np.int64)
    operations = Operations.of(
        ("", "cuMemcpyHtoD"),
        **dict.fromkeys(COLUMNS, zeros)
        | {"start_ns": start, "end_ns": start + 20, "bytes": zeros + 8, "name": zeros + 1},
    )
    process = Process(1, "./app", NOW, None, False, 0)
    write_columns(tmp_path, Timeline(NOW, int(start[-1]) + 20, (), operations, (process,)))
    assert (tmp_path / "operations.parquet").stat().st_size < start.size
    assert np.array_equal(
        read_columns(tmp_path, NOW, int(start[-1]) + 20).operations.bytes, zeros + 8
    )


def test_pieces_from_a_spool_are_the_counters_that_it_holds(tmp_path):
    spool = tmp_path / "pm.g0.bin"
    records = np.zeros(1000, RECORD)
    records["end_ns"] = NOW + np.arange(1000) * 10_000
    records["rx_bytes"], records["tx_bytes"] = np.arange(1000), 7
    records["rx_bytes"][[0, 500]] = records["tx_bytes"][[0, 500]] = 0xFFFFFFFF
    records["end_ns"][100:110] |= np.uint64(1 << 63)
    spool.write_bytes(counter_header("pm", 0, 10_000, own=True).encode() + records.tobytes())
    whole = read_counters(spool)
    pieces = RecordSeries(whole, SpoolTail(spool, most_records=300).read())
    write_columns(tmp_path, Timeline(NOW, NOW + 1), [pieces])
    (back,) = read_columns(tmp_path, NOW, NOW + 1).counters
    assert np.flatnonzero(whole.own).tolist() == list(range(100, 110))
    for field in dataclasses.fields(Counters):
        assert same(getattr(back, field.name), getattr(whole, field.name)), field.name


# Writes the columns of a spool that is given, and tells by how many KiB it has grown.
WRITE = """
import re, sys
from pathlib import Path
import pyarrow.parquet
from lanescope.trace.columns import RecordSeries, write_columns
from lanescope.trace.counter_spool import SpoolTail
from lanescope.trace.timeline import Timeline

def highest():  # what getrusage says begins with the size of whoever started us
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

folder = Path(sys.argv[1])
spool = folder / "pm.g0.bin"
told = next(SpoolTail(spool, most_records=1).read())
before = highest()
write_columns(folder, Timeline(0, 1), [RecordSeries(told, SpoolTail(spool, 1 << 20).read())])
print(highest() - before)
"""


@pytest.mark.native  # four seconds
def test_writing_takes_memory_for_a_piece_and_not_for_the_run(tmp_path):
    count, piece = 20_000_000, 1_000_000
    random = np.random.default_rng(1)
    with (tmp_path / "pm.g0.bin").open("wb") as file:
        file.write(counter_header("pm", 0, 10_000).encode())
        for begin in range(0, count, piece):
            records = np.zeros(piece, RECORD)
            records["end_ns"] = NOW + np.arange(begin, begin + piece) * 10_000
            records["rx_bytes"] = random.integers(0, 1 << 19, piece)
            file.write(records.tobytes())
    done = subprocess.run(
        [sys.executable, "-c", WRITE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    grown_bytes = int(done.stdout) << 10
    assert grown_bytes < 400e6 < count * 25  # what the columns of all records take
    assert pq.read_metadata(tmp_path / COUNTERS).num_rows == count


def test_a_side_table_without_rows_reads_as_none(tmp_path):
    copies = HostCopies.of(**{key: [1] for key in HostCopies.columns()})
    write_columns(tmp_path, Timeline(NOW, NOW + 1, host_copies=copies))
    file = tmp_path / HOST_COPIES
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    assert len(read_columns(tmp_path, NOW, NOW + 1).host_copies) == 0


def test_watches_of_before_do_not_tell_when_copies_were_read(tmp_path):
    copies = HostCopies.of(**{key: [1, 1] for key in HostCopies.columns()})
    write_columns(tmp_path, Timeline(NOW, NOW + 1, host_copies=copies))
    file = tmp_path / HOST_COPIES
    pq.write_table(
        pq.read_table(file).drop_columns(["read_begin_ns", "read_ns", "same_bytes"]), file
    )
    found = read_columns(tmp_path, NOW, NOW + 1).host_copies
    assert found.hash.tolist() == [1, 1]
    assert found.read_ns.tolist() == found.read_begin_ns.tolist() == [0, 0]
    assert found.same_bytes.tolist() == [0, 0]
