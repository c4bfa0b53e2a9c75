"""A program that runs for a day, by a simulated clock: no more memory than for six hours.

Its link is counted 20 times a second, and it copies four times a second; the records are made up
as a sampler and the library of calls write them.
"""

import dataclasses
import gc
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from lanescope.findings.trace.evaluate import evaluate_watch
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.report import timeline_html
from lanescope.studies.watch_report.document import watch_page_html
from lanescope.trace import (
    attribution,
    columns,
    counter_spool,
    rectangles,
    sorted_rows,
    spool,
    stored,
    trace_stream,
    wire,
    wire_fit,
)
from lanescope.trace.call_ring import CALL_NAMES, count_record, text_record
from lanescope.trace.counter_spool import RECORD, counter_header
from lanescope.trace.manifest import WatchManifest
from lanescope.trace.timeline import Counters, Operations
from lanescope.trace.trace_records import CALLS, OPERATIONS, Kind
from lanescope.trace.watch_folder import WatchFolder
from lanescope.watching.live import LiveWatch
from tests.patience import PATIENCE_S

START = 1_795_000_000 * 10**9
HOUR_NS = 3600 * 10**9
INTERVAL_NS, EACH_NS = 50_000_000, 250_000_000
COPY_BYTES = 1 << 20
PID = 7
MACHINE = Machine(
    "node", nodes=(NumaNode(0, ((0,),)),), gpus=(Gpu(0, "GPU", uuid="GPU-0", node=0),)
)


def counted(begin, end):
    """Records of a link that carries a copy in every fifth of them."""
    numbers = np.arange(begin, end)
    records = np.zeros(numbers.size, RECORD)
    records["end_ns"] = START + (numbers + 1) * INTERVAL_NS
    records["rx_bytes"] = np.where(numbers % 5 == 0, round(COPY_BYTES * 1.0469), 0) + 200
    records["tx_bytes"] = np.where(numbers % 5 == 0, COPY_BYTES // 16, 0) + 200
    return records


def copied(begin, end):
    """Records of copies, and of the calls to them."""
    numbers = np.arange(begin, end)
    operations, calls = np.zeros(numbers.size, OPERATIONS), np.zeros(numbers.size, CALLS)
    operations["head"]["kind"], operations["head"]["size"] = Kind.OPERATION, OPERATIONS.itemsize
    late, lasts = np.random.default_rng(begin).integers(1000, 100_000, (2, numbers.size))
    operations["start_ns"] = START + numbers * EACH_NS + late
    operations["end_ns"] = operations["start_ns"] + lasts
    operations["bytes"] = COPY_BYTES
    operations["source_kind"], operations["destination_kind"] = 1, 3
    operations["source_device"] = -1
    operations["correlation"] = calls["correlation"] = numbers + 1
    calls["head"]["kind"], calls["head"]["size"] = Kind.CALL, CALLS.itemsize
    calls["start_ns"], calls["end_ns"] = operations["start_ns"], operations["end_ns"]
    calls["thread"], calls["name"] = 70 + numbers % 2, 1
    return operations.tobytes() + calls.tobytes()


def pieces(count, piece=1 << 14):
    return ((begin, min(begin + piece, count)) for begin in range(0, count, piece))


def watch_of(folder, hours):
    """Write what sources of a watch of so many hours leave; return its folder and its end."""
    begun = WatchManifest("watch", ("x",), "2026-01-01T00:00:00+00:00", "1", MACHINE, START)
    held = WatchFolder(folder, begun)
    with (held.spool / "pm.g0.bin").open("wb") as file:
        file.write(counter_header("pm", 0, INTERVAL_NS, own=True).encode())
        for part in pieces(hours * HOUR_NS // INTERVAL_NS):
            file.write(counted(*part).tobytes())
    count = hours * HOUR_NS // EACH_NS
    header = {"source": "trace", "version": 1, "pid": PID, "command": ["x"], "start_ns": START}
    with (held.spool / f"trace.{PID}.1.calls.bin").open("wb") as file:
        file.write((json.dumps(header | {"timed_by": "calls"}) + "\n").encode())
        file.write(text_record(Kind.STRING, 1, CALL_NAMES[0]))
        for part in pieces(count):
            file.write(copied(*part))
        file.write(count_record(Kind.END, START + hours * HOUR_NS, count))
    return held, begun


def peak_bytes():
    """Return the most that was ever resident."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10


def counting_rows(kind, name):
    """Count how many values of columns are read from the disk by a method."""
    before, rows = getattr(kind, name), [0]

    def read(*arguments):
        found = before(*arguments)
        rows[0] += len(found)
        return found

    setattr(kind, name, read)
    return rows


def work_on_little_at_once():
    """Let everything be cut into pieces so small that six hours have many of them."""
    piece = 1 << 14
    rectangles._CHUNK = rectangles._INTERVALS_CHUNK = sorted_rows.MOST_ROWS = piece
    wire._CHUNK = wire_fit._CHUNK = piece
    sorted_rows.SLICE = attribution._MOST_PENDING = stored._SEARCHED = 1 << 12
    for module in (stored, columns, counter_spool):
        module.MOST_IN_MEMORY = piece
    whole = (Operations.pieces, Counters.pieces, stored.pieces_of, stored.StoredColumn.__init__)
    for function in whole:
        function.__defaults__ = (piece,)
    spool.MOST_BYTES_IN_MEMORY, trace_stream._BLOCK = 0, 1 << 20
    timeline_html.MOST_RECORDS, timeline_html.MOST_OPERATIONS = 20_000, 2_000


def main(folder, hours):
    work_on_little_at_once()
    rows = [
        counting_rows(stored.SpoolRecords, "read"),
        counting_rows(stored.ParquetRecords, "_checked"),
    ]
    held, begun = watch_of(Path(folder), hours)
    import pyarrow.parquet  # noqa: F401  # no part of what grows

    before = peak_bytes()
    run = held.finish(dataclasses.replace(begun, end_ns=START + hours * HOUR_NS, exit_code=0))
    evaluation = evaluate_watch(run, Path(folder) / "none")
    watch_page_html(run, evaluation)
    direction = evaluation.summary.directions[0]
    print(
        json.dumps(
            {
                "grown": peak_bytes() - before,
                "rows": sum(count for (count,) in rows),
                "records": sum(map(len, run.timeline.counters)),
                "copies": len(run.timeline.operations),
                "traced_bytes": direction.traced_bytes,
                "counter_bytes": direction.counter_bytes,
            }
        )
    )


def finished(folder, hours):
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(folder / f"{hours}"), str(hours)],
        check=True,
        stdout=subprocess.PIPE,
        timeout=2 * PATIENCE_S,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    return json.loads(done.stdout)


@pytest.mark.native  # ten seconds
def test_the_end_of_a_day_takes_no_more_memory_than_that_of_six_hours(tmp_path):
    short, day = finished(tmp_path, 6), finished(tmp_path, 24)
    assert day["records"] == 24 * HOUR_NS // INTERVAL_NS
    assert day["copies"] == 24 * HOUR_NS // EACH_NS
    assert day["traced_bytes"] == day["copies"] * COPY_BYTES
    assert day["counter_bytes"] == pytest.approx(day["traced_bytes"], rel=1e-3)
    # as columns in memory, what there is more of both would take 100 MB
    assert day["grown"] < short["grown"] + (24 << 20), (short, day)
    each = (one["rows"] / (one["records"] + one["copies"]) for one in (short, day))
    assert next(each) == pytest.approx(next(each), rel=0.1)  # work for a record stays as it is


@pytest.mark.native  # ten seconds
def test_the_live_view_of_a_day_holds_a_minute_and_reads_each_record_once(tmp_path):
    """A look each minute; memory is that of the first hours, and so is what a look reads."""
    live, now_ns, number = (
        LiveWatch(tmp_path, MACHINE, take=lambda c: read.append(len(c))),
        START,
        0,
    )
    read, sizes = [], {}
    path = tmp_path / "pm.g0.bin"
    path.write_bytes(counter_header("pm", 0, INTERVAL_NS, own=True).encode())
    each = 60 * 10**9 // INTERVAL_NS
    tracemalloc.start()
    try:
        for minute in range(24 * 60):
            with path.open("ab") as file:
                file.write(counted(number, number + each).tobytes())
            number, now_ns = number + each, now_ns + 60 * 10**9
            frame = live.look(now_ns)
            assert sum(read) == each  # what is new, and nothing again
            read.clear()
            if minute in (120, 24 * 60 - 1):
                gc.collect()
                sizes[minute] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert frame.directions[0].rates.peak_gbs > 0
    first, last = sizes.values()
    assert last < first + (256 << 10), sizes  # the records alone would be 25 MB


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
