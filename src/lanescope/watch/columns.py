"""A timeline as Parquet files, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lanescope.run.atomic import replace_when_written, write_atomically
from lanescope.watch.codes import IntArray
from lanescope.watch.operations import COLUMNS, Operations
from lanescope.watch.probe import Probe
from lanescope.watch.ranges import COLUMNS as RANGE_COLUMNS
from lanescope.watch.ranges import Ranges
from lanescope.watch.side_tables import HostCopies, Managed
from lanescope.watch.stored import MOST_IN_MEMORY, in_memory, pieces_of, with_stored
from lanescope.watch.stored_records import ParquetRecords
from lanescope.watch.timeline import Counters, Process, Timeline

if TYPE_CHECKING:
    import pyarrow as pa

COUNTERS = "counters.parquet"
OPERATIONS = "operations.parquet"
PROCESSES = "processes.json"
#: Is there only if something was probed.
PROBE = "probe.parquet"
#: Is there only if the program had NVTX ranges.
RANGES = "ranges.parquet"
#: Are there only if something was traced that they hold.
MANAGED = "managed.parquet"
HOST_COPIES = "host_copies.parquet"
#: Times grow steadily: their differences take a fraction of the bytes.
_GROWING = ("end_ns", "start_ns", "begin_ns", "call_start_ns", "call_end_ns", "correlation")

_OneSeries = TypeVar("_OneSeries", Counters, Probe)
_OneSide = TypeVar("_OneSide", Managed, HostCopies)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a series says about itself, beside its records, and the columns of these."""

    told: tuple[str, ...]
    records: tuple[str, ...]


_OF_COUNTERS = _Layout(
    ("source", "gpu", "interval_ns", "lost_samples", "cpu_seconds", "link"),
    ("end_ns", "rx_bytes", "tx_bytes", "known", "own"),
)
#: Columns of truth values, and the one that runs of earlier versions do not have.
_FLAGS, _OWN = ("known", "own"), "own"
_OF_PROBES = _Layout(
    ("gpu", "chunk_bytes", "period_ns", "cpu_seconds"),
    ("begin_ns", "delay_ns", "copy_ns", "direction"),
)


@dataclass(frozen=True, slots=True)
class Series:
    """Counters, or a probe, that come some records at a time.

    Attributes
    ----------
    told
        What they say about themselves; its records do not matter.
    pieces
        Their records, in order.
    """

    told: Counters | Probe
    pieces: Iterable[Counters | Probe]


def write_columns(
    folder: Path, timeline: Timeline, counters: Sequence[Series] | None = None
) -> None:
    """Write a timeline into a run's folder; raises OSError.

    Parameters
    ----------
    counters
        Where its counters come from, some records at a time; None: from the timeline itself.
    """
    own = [Series(one, _pieces(one)) for one in timeline.counters]
    _write_series(folder / COUNTERS, own if counters is None else counters, _OF_COUNTERS)
    _write_operations(folder / OPERATIONS, timeline.operations)
    told = [dataclasses.asdict(process) for process in timeline.processes]
    write_atomically(folder / PROCESSES, json.dumps(told, indent=1).encode())
    if timeline.probes:
        probes = [Series(one, (one,)) for one in timeline.probes]
        _write_series(folder / PROBE, probes, _OF_PROBES)
    if len(timeline.ranges):
        _write_ranges(folder / RANGES, timeline.ranges)
    for name, side in ((MANAGED, timeline.managed), (HOST_COPIES, timeline.host_copies)):
        if len(side):
            _write_side(folder / name, side)


def read_columns(folder: Path, start_ns: int, end_ns: int | None) -> Timeline:
    """Read what `write_columns` wrote.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        If a file cannot be read or is damaged.
    """
    counters = _read_series(Counters, folder / COUNTERS, _OF_COUNTERS)
    operations = read_operations(folder / OPERATIONS)
    processes = tuple(Process(**one) for one in json.loads((folder / PROCESSES).read_text()))
    probes: tuple[Probe, ...] = ()
    if (folder / PROBE).exists():
        probes = _read_series(Probe, folder / PROBE, _OF_PROBES)
    ranges = Ranges.empty()
    if (folder / RANGES).exists():
        ranges = _ranges_of(folder / RANGES)
    return Timeline(
        start_ns,
        end_ns or start_ns,
        counters,
        operations,
        processes,
        probes,
        ranges,
        _read_side(Managed, folder / MANAGED),
        _read_side(HostCopies, folder / HOST_COPIES),
    )


def _pieces(counters: Counters) -> Iterator[Counters]:
    """Yield consecutive records as views, so that nothing is copied but the piece at work."""
    for part in pieces_of(len(counters)):  # each becomes a row group
        columns = {name: getattr(counters, name)[part] for name in _OF_COUNTERS.records[:-1]}
        own = None if counters.own is None else counters.own[part]
        yield dataclasses.replace(counters, **columns, own=own)


def _write_series(path: Path, series: Sequence[Series], layout: _Layout) -> None:
    """Write the records of all series, one after the other, in memory for one piece."""
    import pyarrow as pa

    told = [{key: getattr(one.told, key) for key in layout.told} for one in series]
    types = {"series": pa.int16(), **dict.fromkeys(layout.records, pa.int64())}
    types |= dict.fromkeys((name for name in _FLAGS if name in types), pa.bool_())
    schema = pa.schema(types, metadata={b"series": json.dumps(told).encode()})
    tables = (
        _series_table(number, piece, schema)
        for number, one in enumerate(series)
        for piece in one.pieces
    )
    write_tables(path, schema, tables)


def _series_table(number: int, piece: Counters | Probe, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {
        name: piece.maybe_own if name == _OWN else getattr(piece, name)  # type: ignore[union-attr]
        for name in schema.names[1:]
    }
    return pa.table({"series": np.full(len(piece), number, np.int16), **columns}, schema)


def _read_series(kind: type[_OneSeries], path: Path, layout: _Layout) -> tuple[_OneSeries, ...]:
    """Return all series: arrays where they are short, else columns that stay in the file."""
    records = ParquetRecords(path)
    series = json.loads((records.file.schema_arrow.metadata or {})[b"series"])
    there = set(records.file.schema_arrow.names)
    if missing := {*layout.records, "series"} - {_OWN} - there:
        raise ValueError(f"{path.name} lacks the column {min(missing)}")
    edges = np.concatenate(([0], np.cumsum(_rows_of_series(records, len(series))))).tolist()
    found = []
    for told, (begin, end) in zip(series, pairwise(edges), strict=True):
        none: dict[str, Any] = {
            name: np.empty(0, np.bool_ if name in _FLAGS else np.int64)
            for name in layout.records
            if name in there
        }
        one = with_stored(kind(**told, **none), records, begin, end)
        short = kind is Probe or records.rows <= MOST_IN_MEMORY  # probes are worked on whole
        found.append(in_memory(one) if short else one)
    return tuple(found)


def _rows_of_series(records: ParquetRecords, count: int) -> IntArray:
    """Return how many records each series has."""
    rows = np.zeros(count, np.int64)
    for part in pieces_of(records.rows):
        numbers = records.read("series", part.start, part.stop).astype(np.int64)
        if numbers.max() >= count:
            raise ValueError("a series that nothing is told of")
        rows += np.bincount(numbers, minlength=count)
    return rows


def _write_operations(path: Path, operations: Operations) -> None:
    names = {b"names": json.dumps(operations.names).encode()}
    schema = _table_of(Operations.empty()).schema.with_metadata(names)
    write_tables(path, schema, (_table_of(piece).cast(schema) for piece in operations.pieces()))


def _table_of(operations: Operations) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: getattr(operations, name) for name in COLUMNS})


def write_operation_pieces(path: Path, pieces: Iterable[Operations]) -> None:
    """Write operations without their names, for `stored_operations`; raises OSError."""
    write_tables(path, _table_of(Operations.empty()).schema, map(_table_of, pieces))


def _write_ranges(path: Path, ranges: Ranges) -> None:
    import pyarrow as pa

    table = pa.table({name: getattr(ranges, name) for name in RANGE_COLUMNS})
    table = table.replace_schema_metadata({b"names": json.dumps(ranges.names).encode()})
    write_tables(path, table.schema, (table,))


def _ranges_of(path: Path) -> Ranges:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names = json.loads((table.schema.metadata or {})[b"names"])
    return Ranges.of(names, **{name: table.column(name).to_numpy() for name in RANGE_COLUMNS})


def _write_side(path: Path, side: Managed | HostCopies) -> None:
    import pyarrow as pa

    table = pa.table({name: getattr(side, name) for name in side.columns()})
    write_tables(path, table.schema, (table,))


def _read_side(kind: type[_OneSide], path: Path) -> _OneSide:
    import pyarrow.parquet as pq

    if not path.exists():
        return kind.empty()
    table = pq.read_table(path)
    return kind.of(**{name: table.column(name).to_numpy() for name in kind.columns()})


def read_operations(path: Path) -> Operations:
    """Return operations with their names: arrays when they are few, else stored columns.

    Raises
    ------
    OSError, ValueError, KeyError
        If the file cannot be read or is damaged.
    """
    records = ParquetRecords(path)
    names = json.loads((records.file.schema_arrow.metadata or {})[b"names"])
    found = stored_operations(records, tuple(names))
    return in_memory(found) if len(found) <= MOST_IN_MEMORY else found


def stored_operations(records: ParquetRecords, names: tuple[str, ...]) -> Operations:
    """Return the operations of a file as stored columns; raises KeyError if one is missing."""
    if missing := set(COLUMNS) - set(records.file.schema_arrow.names):
        raise KeyError(min(missing))
    return with_stored(Operations.of(names), records, 0, records.rows)


def write_tables(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema as row groups of one file."""
    import pyarrow.parquet as pq

    growing = [name for name in schema.names if name in _GROWING]
    others = [name for name in schema.names if name not in _GROWING]

    def write(temporary: Path) -> None:
        with pq.ParquetWriter(
            temporary,
            schema,
            compression="zstd",
            use_dictionary=others,
            column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
        ) as writer:
            for table in tables:
                writer.write_table(table)

    replace_when_written(path, write)
