"""A watch as two CSV files.

``copies.csv`` has a row for each copy and each migration of managed memory,
``counters.csv`` one for each record of each counter. Names of columns end with their unit:
``_ns`` is whole nanoseconds since 1970, ``_s`` seconds since the watch began, with nine
digits, ``_bytes`` bytes, ``_gbs`` 1e9 bytes a second. Missing is empty, never 0.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lanescope.codec.atomic import replace_when_written, writing_to
from lanescope.report.format import safe_cells
from lanescope.trace.attribution import CalledFrom, line_texts
from lanescope.trace.codes import (
    HOST_DEVICE,
    UNKNOWN_THREAD,
    Direction,
    IntArray,
    MemoryKind,
    What,
)
from lanescope.trace.operations import COLUMNS, Operations
from lanescope.trace.ranges import OpenRanges
from lanescope.trace.timeline import Counters, Timeline
from lanescope.units.bandwidth import bandwidths_gbs

COPIES = "copies.csv"
COUNTERS = "counters.csv"
#: So many rows become Python objects at a time.
_CHUNK = 1 << 16
_NS = 1_000_000_000

_COPY_COLUMNS = (
    "start_s",
    "end_s",
    "start_ns",
    "end_ns",
    "what",
    "direction",
    "moved_bytes",
    "rate_gbs",
    "pid",
    "thread",
    "gpu",
    "context",
    "stream",
    "source_memory",
    "source_gpu",
    "destination_memory",
    "destination_gpu",
    "asynchronous",
    "call",
    "call_start_ns",
    "call_end_ns",
    "correlation",
    "range",
    "python_line",
)
_COUNTER_COLUMNS = (
    "source",
    "gpu",
    "start_s",
    "end_s",
    "start_ns",
    "end_ns",
    "known",
    "to_gpu_wire_bytes",
    "from_gpu_wire_bytes",
    "to_gpu_wire_gbs",
    "from_gpu_wire_gbs",
    "link",
)


def write_csv(folder: Path, timeline: Timeline) -> tuple[Path, ...]:
    """Write a timeline's files into a folder, which is made, and return their paths.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / COPIES, _COPY_COLUMNS, _copies(timeline))
        _write(folder / COUNTERS, _COUNTER_COLUMNS, _records(timeline))
    return folder / COPIES, folder / COUNTERS


def seconds_from(start_ns: int, at_ns: int) -> str:
    """Return the seconds between two times as text with nine digits, which no float rounds."""
    since = at_ns - start_ns
    whole, rest = divmod(abs(since), _NS)
    return f"{'-' if since < 0 else ''}{whole}.{rest:09d}"


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    def write(binary: BinaryIO) -> None:
        file = io.TextIOWrapper(binary, newline="", encoding="utf-8")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(map(safe_cells, rows))
        file.flush()
        file.detach()  # whoever opened it closes it

    replace_when_written(path, write)


def _copies(timeline: Timeline) -> Iterator[Sequence[Any]]:
    ranges, called = OpenRanges(timeline.ranges), CalledFrom(timeline.python_lines)
    lines = line_texts(timeline.python_lines)
    for rows in timeline.operations.where(lambda o: o.moves, *COLUMNS).pieces():
        in_range = [ranges.names[code] for code in ranges.codes(rows).tolist()]
        of_lines = [lines[stack] for stack in called.stacks(rows).tolist()]
        yield from _copy_rows(rows, timeline.start_ns, in_range, of_lines)


def _copy_rows(
    rows: Operations, origin: int, in_range: list[str], of_lines: list[str]
) -> Iterator[Sequence[Any]]:
    starts, ends = rows.start_ns.tolist(), rows.end_ns.tolist()
    yield from zip(
        [seconds_from(origin, at) for at in starts],
        [seconds_from(origin, at) for at in ends],
        starts,
        ends,
        [What(code).name.lower() for code in rows.what.tolist()],
        [Direction(code).label for code in rows.direction.tolist()],
        rows.bytes.tolist(),
        _numbers(bandwidths_gbs(rows.bytes.astype(np.float64), rows.seconds).tolist()),
        rows.pid.tolist(),
        _known(rows.thread.tolist(), UNKNOWN_THREAD),
        rows.device.tolist(),
        rows.context.tolist(),
        rows.stream.tolist(),
        [MemoryKind(code).label for code in rows.source_kind.tolist()],
        _known(rows.source_device.tolist(), HOST_DEVICE),
        [MemoryKind(code).label for code in rows.destination_kind.tolist()],
        _known(rows.destination_device.tolist(), HOST_DEVICE),
        rows.asynchronous.astype(np.int64).tolist(),
        [rows.names[number] for number in rows.name.tolist()],
        _known(rows.call_start_ns.tolist(), 0),
        _known(rows.call_end_ns.tolist(), 0),
        rows.correlation.tolist(),
        in_range,
        of_lines,
        strict=True,
    )


def _records(timeline: Timeline) -> Iterator[Sequence[Any]]:
    for counters in timeline.counters:
        for chunk, starts in counters.pieces(_CHUNK):
            yield from _record_rows(counters, chunk, starts, timeline.start_ns)


def _record_rows(
    counters: Counters, chunk: slice, start: IntArray, origin: int
) -> Iterator[Sequence[Any]]:
    end = counters.end_ns[chunk]
    known = counters.known[chunk]
    seconds = np.where(known, (end - start).astype(np.float64) * 1e-9, np.nan)
    is_known = known.tolist()
    received, sent = counters.rx_bytes[chunk], counters.tx_bytes[chunk]
    for row in zip(
        [seconds_from(origin, at) for at in start.tolist()],
        [seconds_from(origin, at) for at in end.tolist()],
        start.tolist(),
        end.tolist(),
        known.astype(np.int64).tolist(),
        [count if k else "" for count, k in zip(received.tolist(), is_known, strict=True)],
        [count if k else "" for count, k in zip(sent.tolist(), is_known, strict=True)],
        _numbers(bandwidths_gbs(received.astype(np.float64), seconds).tolist()),
        _numbers(bandwidths_gbs(sent.astype(np.float64), seconds).tolist()),
        strict=True,
    ):
        yield (counters.source, counters.gpu, *row, counters.link)


def _numbers(values: Iterable[float]) -> list[str]:
    return ["" if math.isnan(value) else f"{value:.6g}" for value in values]


def _known(values: Iterable[int], missing: int) -> list[int | str]:
    return ["" if value == missing else value for value in values]
