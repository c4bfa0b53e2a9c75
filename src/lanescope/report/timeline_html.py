"""The timeline of a watch: its place in a page, its data, and the scripts that draw it."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanescope._core import native
from lanescope.codec.fields import from_attributes
from lanescope.document.blocks import TimelineBlock
from lanescope.report.html import FROM_GPU, TO_GPU, items, json_data, page_file, script, text
from lanescope.report.timeline_lanes import HEADING, NO_GPU, Lanes, lanes_of, with_ranges
from lanescope.trace.codes import BoolArray, DirectionCode, IntArray, MemoryKind, OperationCode
from lanescope.trace.run import WatchRun
from lanescope.trace.stored_columns import each_in_a_thread, in_memory
from lanescope.trace.timeline import Counters
from lanescope.units.words import shortened

#: Bits of a rounded number: it differs from the exact one by less than 0.05 %.
_ROUNDED_BITS = 11
#: Stands in a rounded column for what is not known.
UNKNOWN_CODE = 0xFFFF
#: Higher levels take much longer and save little.
_LEVEL = 6
#: Bytes that are compressed at once, and those before them that they may repeat.
_BLOCK, _DICTIONARY = 1 << 20, 1 << 15
#: Of a stream with that window and level.
_ZLIB_HEADER = b"\x78\x9c"
#: With more of them the page holds bins of records, and merged runs of short operations.
MOST_RECORDS = 2_000_000
MOST_OPERATIONS = 200_000
_LONGEST_NAME = 160
#: By job; they are one program.
_SCRIPTS = (
    "timeline_scale.js",
    "timeline_data.js",
    "timeline_words.js",
    "timeline_draw.js",
    "timeline_input.js",
)
_HINT = (
    "Drag over a span to zoom to it, or click the timeline and turn the wheel; double-click an "
    "operation to fill the width with it. Keys: + and − zoom, ← and → move, n and p go to the "
    "next and previous operation, ↑ and ↓ to another row, Enter zooms to the operation, 0 shows "
    "the whole run."
)
_BUTTONS = (
    ("out", "−", "Zoom out"),
    ("in", "+", "Zoom in"),
    ("left", "←", "Earlier"),
    ("right", "→", "Later"),
    ("reset", "Whole run", "Show the whole run"),
)
_BIN_COST = 4


@dataclass(slots=True)
class Pack:
    """Collects columns; `columns` describes each, in the order of their bytes."""

    columns: list[dict[str, Any]] = field(default_factory=list)
    _parts: list[bytes] = field(default_factory=list)

    def add(self, values: IntArray, *, growing: bool = False) -> int:
        """Add a column of whole numbers and return its number.

        Parameters
        ----------
        growing
            Whether neighbours are alike, so that their differences are smaller.
        """
        whole = np.asarray(values, np.int64)
        if growing and whole.size:
            whole = np.diff(whole, prepend=0)
        signed = bool(whole.size) and bool(whole.min() < 0)
        if signed:
            whole = (whole << 1) ^ (whole >> 63)
        unsigned = whole.view(np.uint64)
        most = int(unsigned.max()) if unsigned.size else 0
        width = max(1, (most.bit_length() + 7) // 8)
        planes = unsigned.view(np.uint8).reshape(-1, 8)[:, :width]
        self._parts.append(np.ascontiguousarray(planes.T).tobytes())
        about = {"rows": int(whole.size), "width": width, "signed": signed, "growing": growing}
        self.columns.append(about)
        return len(self.columns) - 1

    def add_rounded(self, values: IntArray, known: BoolArray | None = None) -> int:
        """Add a column of numbers that need not be exact and are not negative."""
        codes = rounded_codes(np.asarray(values, np.int64))
        if known is not None:
            codes = np.where(known, codes, UNKNOWN_CODE)
        return self.add(codes)

    def base64(self) -> str:
        """Return the bytes of all columns, compressed, as text."""
        return base64.b64encode(_compressed(b"".join(self._parts))).decode("ascii")


def _compressed(content: bytes) -> bytes:
    """Return bytes as a zlib stream whose blocks are compressed at once."""

    def block(begin: int) -> bytes:
        before = content[max(begin - _DICTIONARY, 0) : begin]
        raw = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
        ends = begin + _BLOCK >= len(content)
        mode = zlib.Z_FINISH if ends else zlib.Z_SYNC_FLUSH
        return raw.compress(content[begin : begin + _BLOCK]) + raw.flush(mode)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), "compressor") as pool:
        blocks = pool.map(block, range(0, max(len(content), 1), _BLOCK))
        return b"".join((_ZLIB_HEADER, *blocks, zlib.adler32(content).to_bytes(4, "big")))


def rounded_codes(values: IntArray) -> IntArray:
    """Return numbers as 16-bit codes of 11 significant bits; small ones stay exact.

    The code is ``(exponent << 10) + mantissa`` and grows with the number.

    >>> rounded_codes(np.array([7, 2047, 2048, 5_000_000])).tolist()
    [7, 2047, 2048, 13509]
    """
    half = 1 << (_ROUNDED_BITS - 1)
    exponent: IntArray = np.maximum(_bit_length(values) - _ROUNDED_BITS, 0)
    mantissa = (values + (np.left_shift(1, exponent) >> 1)) >> exponent
    codes: IntArray = exponent * half + mantissa  # a mantissa rounded up carries over by itself
    return codes


def _bit_length(values: IntArray) -> IntArray:
    _, exponent = np.frexp(values.astype(np.float64))
    lengths: IntArray = exponent.astype(np.int64)
    return lengths


def timeline_of(run: WatchRun) -> TimelineBlock | None:
    """Return the timeline of a watch; None without data."""
    timeline = run.timeline
    if not any(len(c) for c in timeline.counters) and not len(timeline.operations):
        return None
    series = rate_series(tuple(c for c in timeline.counters if len(c)), MOST_RECORDS)
    lanes = lanes_of(timeline.operations, MOST_OPERATIONS)
    notes = _reductions(run, series, lanes)
    if len(timeline.ranges):
        lanes = with_ranges(lanes, timeline)
    names = {gpu.index: gpu.name for gpu in run.manifest.machine.gpus}
    used = {s.gpu for s in series} | {lane.gpu for lane in lanes.lanes}
    groups = [
        RowGroup(i, HEADING, "ranges") if i == NO_GPU else RowGroup(i, f"g{i} {names.get(i, '')}")
        for i in sorted(used, key=lambda i: (i == NO_GPU, i))
    ]
    return packed(lanes, series, groups, (timeline.start_ns, timeline.end_ns), notes)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of a timeline under one heading, such as those of a GPU.

    Attributes
    ----------
    index
        What lanes and series name as their `gpu`.
    label
        At the box that shows or hides it; ``g0`` where empty.
    """

    index: int
    heading: str
    label: str = ""


def packed(
    lanes: Lanes,
    series: list[RateSeries],
    groups: Sequence[RowGroup],
    span: tuple[int, int],
    notes: tuple[str, ...] = (),
) -> TimelineBlock:
    """Return rows as the block that a page draws; `span` is in nanoseconds since 1970."""
    pack = Pack()
    start, end = span
    data = {
        "end": max(end - start, 1),
        "gpus": [
            {"index": one.index, "heading": one.heading, "label": one.label or f"g{one.index}"}
            for one in groups
        ],
        **_data(lanes, series, start, pack),
        "columns": pack.columns,
    }
    return TimelineBlock(data, pack.base64(), notes)


def timeline_html(shown: TimelineBlock) -> str:
    """Return a timeline's place in a page with its data and scripts."""
    scripts = "".join(page_file(name) for name in _SCRIPTS)
    notes = items(shown.notes) if shown.notes else ""
    return (
        f"{_place()}{notes}{json_data('timeline-told', shown.data)}"
        f'<script type="text/plain" id="timeline-columns">{shown.columns}</script>'
        + script(f'(() => {{\n"use strict";\n{scripts}\n}})();')
    )


def _place() -> str:
    buttons = "".join(
        f'<button type="button" data-do="{name}" aria-label="{text(title)}" '
        f'title="{text(title)}">{text(shown)}</button>'
        for name, shown, title in _BUTTONS
    )
    return (
        "<noscript><p>The timeline needs JavaScript.</p></noscript>"
        '<div id="timeline-box" hidden><div class="bar no-print">'
        f'<span class="buttons">{buttons}</span><span id="timeline-gpus"></span>'
        '<span id="timeline-span" class="quiet"></span></div>'
        '<ul id="timeline-legend"></ul>'
        '<canvas id="timeline-overview" class="no-print" aria-hidden="true"></canvas>'
        '<div id="timeline-main" role="application" aria-roledescription="timeline" tabindex="0" '
        'aria-label="Timeline of link rates, copies and kernels" '
        'aria-describedby="timeline-hint"><canvas></canvas>'
        '<div id="timeline-tip" aria-hidden="true" hidden></div></div>'
        '<p id="timeline-detail" role="status" class="quiet no-print"></p>'
        f'<p id="timeline-hint" class="quiet no-print">{text(_HINT)}</p></div>'
        '<p id="timeline-failed" class="warn" hidden></p>'
    )


#: What the page has of a lane.
_LANE_FIELDS = ("gpu", "label", "kind", "colour", "first", "count")


def _data(lanes: Lanes, series: list[RateSeries], start: int, pack: Pack) -> dict[str, Any]:
    """Rows and their columns, which are named by their numbers in the pack."""
    rates = [_series_data(one, start, pack) for one in series]
    return {
        "series": rates,
        "lanes": [{name: getattr(lane, name) for name in _LANE_FIELDS} for lane in lanes.lanes],
        "operations": _operations_data(lanes, start, pack),
        "what": [*(what.name.lower() for what in OperationCode), "range"],
        "memory": [kind.label for kind in MemoryKind],
        "directions": [d.label if d else "" for d in DirectionCode],
        "ways": {"rx": TO_GPU, "tx": FROM_GPU},
    }


def _series_data(one: RateSeries, start: int, pack: Pack) -> dict[str, Any]:
    peaks = {
        key: None if column is None else pack.add_rounded(column)
        for key, column in (("rxPeak", one.rx_peak), ("txPeak", one.tx_peak))
    }
    return {
        "source": one.source,
        "link": one.link,
        "gpu": one.gpu,
        "interval": one.interval_ns,
        "time": pack.add(one.end_ns - start, growing=True),
        "rx": pack.add_rounded(one.rx_bytes, one.known),
        "tx": pack.add_rounded(one.tx_bytes, one.known),
        **peaks,
    }


def _operations_data(lanes: Lanes, start: int, pack: Pack) -> dict[str, Any]:
    rows = lanes.operations
    used, name = _used(rows.name, rows.names)
    columns: dict[str, IntArray] = {
        "duration": rows.end_ns - rows.start_ns,
        "bytes": rows.bytes,
        "merged": lanes.merged,
        "busy": rows.end_ns - rows.start_ns - lanes.busy_ns,
        "what": rows.what.astype(np.int64),
        "direction": rows.direction.astype(np.int64),
        "from": rows.source_kind.astype(np.int64),
        "to": rows.destination_kind.astype(np.int64),
        "pageable": lanes.pageable.astype(np.int64),
        "asynchronous": rows.asynchronous.astype(np.int64),
        "stream": rows.stream,
        "thread": rows.thread,
        "pid": rows.pid,
        "name": name,
    }
    data: dict[str, Any] = {key: pack.add(column) for key, column in columns.items()}
    data["start"] = pack.add(rows.start_ns - start, growing=True)
    data["names"] = used
    return data


def _used(numbers: IntArray, names: tuple[str, ...]) -> tuple[list[str], IntArray]:
    """The names that rows have, and their numbers among these; the first stands for none."""
    found, renumbered = np.unique(np.append(0, numbers), return_inverse=True)
    short = [shortened(names[i], _LONGEST_NAME) if i < len(names) else "" for i in found.tolist()]
    return short, renumbered.reshape(-1)[1:].astype(np.int64)


def _reductions(run: WatchRun, series: list[RateSeries], lanes: Lanes) -> tuple[str, ...]:
    """What the page does not show as it was recorded, and where that is."""
    where = "the run's folder" if run.folder is None else str(run.folder)
    notes = []
    records, shown = sum(s.records for s in series), sum(int(s.end_ns.size) for s in series)
    if shown < records:
        notes.append(
            f"{records:,} counter records are too many for a page: it holds {shown:,} bins with "
            f"the mean of each and the peak of its records. All are in {where}, "
            "counters.parquet."
        )
    if len(lanes.operations) < lanes.total:
        notes.append(
            f"{lanes.total:,} operations are too many for a page: it holds the longest and the "
            f"largest one by one and merges short neighbours of a row, {len(lanes.operations):,} "
            f"rectangles together. All are in {where}, operations.parquet."
        )
    return tuple(notes)


@dataclass(frozen=True, slots=True, eq=False)
class RateSeries:
    """Records of one counter, or bins of them.

    Attributes
    ----------
    link, end_ns, rx_bytes, tx_bytes, known
        As in `Counters`.
    rx_peak, tx_peak
        Highest rate of a single record in each bin, bytes a second; None where
        records are whole.
    records
        How many records there were.
    """

    source: str
    link: str
    gpu: int
    interval_ns: int
    end_ns: IntArray
    rx_bytes: IntArray
    tx_bytes: IntArray
    known: BoolArray
    rx_peak: IntArray | None
    tx_peak: IntArray | None
    records: int


def rate_series(counters: tuple[Counters, ...], most: int) -> list[RateSeries]:
    """Return counters whole up to `most` records together, else as a quarter as many bins.

    A bin has a peak beside each mean and compresses less well than a record.
    """
    total = sum(len(c) for c in counters)
    each = -(-total * _BIN_COST // most) if total > most else 1
    if each == 1:
        return [_whole(c) for c in counters]
    return each_in_a_thread(lambda c: _binned(c, each), counters, total)


def _whole(counters: Counters) -> RateSeries:
    counters = in_memory(counters)
    known = counters.known & (counters.end_ns > counters.start_ns)
    whole = {"rx_peak": None, "tx_peak": None, "records": len(counters)}
    return from_attributes(RateSeries, counters, known=known, **whole)


def _binned(counters: Counters, each: int) -> RateSeries:
    """Bins of consecutive records; no bin holds both what is known and what is not."""
    bins = _Bins(each)
    for part, start_ns in counters.pieces():
        columns = (column[part] for column in (counters.rx_bytes, counters.tx_bytes))
        bins.add(start_ns, counters.end_ns[part], counters.known[part], *columns)
    ends, sums, peaks, known = bins.columns()
    return RateSeries(
        counters.source,
        counters.link,
        counters.gpu,
        counters.interval_ns,
        ends,
        sums[0],
        sums[1],
        known,
        peaks[0],
        peaks[1],
        len(counters),
    )


class _Bins:
    """Bins of so many records, fed piece by piece."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._run = (False, 0)  # whether the last records are known, and how many they are
        self._found: list[IntArray] = []  # rows as of `native.bin_records`

    def add(
        self, start_ns: IntArray, end_ns: IntArray, known: BoolArray, rx: IntArray, tx: IntArray
    ) -> None:
        """Add records that follow those before."""
        known_before, before = self._run
        found, run_known, run = native.bin_records(
            int(start_ns[0]), end_ns, rx, tx, known, self._each, *self._run
        )
        self._run = (run_known, run)
        if before % self._each and found[0, -1] == known_before:  # the last bin goes on
            last, more = self._found[-1][-1], found[0]
            last[0] = more[0]
            last[1:3] += more[1:3]
            last[3:5] = np.maximum(last[3:5], more[3:5])
            found = found[1:]
        if len(found):
            self._found.append(found)

    def columns(self) -> tuple[IntArray, IntArray, IntArray, BoolArray]:
        """Return the ends of bins, their bytes and their peaks each way, and whether known."""
        found = np.ascontiguousarray(np.concatenate(self._found).T)
        return found[0], found[1:3], found[3:5], found[5].astype(np.bool_)
