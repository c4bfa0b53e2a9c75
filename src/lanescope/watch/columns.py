"""A timeline as Parquet files, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lanescope.run.atomic import replace_when_written, write_atomically
from lanescope.watch.operations import COLUMNS, Operations
from lanescope.watch.timeline import Counters, Process, Timeline

if TYPE_CHECKING:
    import pyarrow as pa

COUNTERS = "counters.parquet"
OPERATIONS = "operations.parquet"
PROCESSES = "processes.json"
#: What a series of counters says about itself, beside its records.
_SERIES = ("source", "gpu", "interval_ns", "lost_samples", "cpu_seconds")
_RECORDS = ("end_ns", "rx_bytes", "tx_bytes", "known")
#: Records of a row group, which are in memory at once: 25 MB.
_PIECE = 1 << 20
#: Times grow steadily: their differences take a fraction of the bytes.
_GROWING = ("end_ns", "start_ns", "call_start_ns", "call_end_ns", "correlation")


@dataclass(frozen=True, slots=True)
class Series:
    """Counters that come some at a time.

    Attributes
    ----------
    told
        What they say about themselves; its records do not matter.
    pieces
        Their records, in order.
    """

    told: Counters
    pieces: Iterable[Counters]


def write_columns(
    folder: Path, timeline: Timeline, counters: Sequence[Series] | None = None
) -> None:
    """Write a timeline into a run's folder; raises OSError.

    Parameters
    ----------
    counters
        Where its counters come from, some records at a time; None: from the timeline itself.
    """
    own = (Series(one, _pieces(one)) for one in timeline.counters)
    series = list(own) if counters is None else counters
    _write_counters(folder / COUNTERS, series)
    _write_operations(folder / OPERATIONS, timeline.operations)
    told = [dataclasses.asdict(process) for process in timeline.processes]
    write_atomically(folder / PROCESSES, json.dumps(told, indent=1).encode())


def read_columns(folder: Path, start_ns: int, end_ns: int | None) -> Timeline:
    """Read what `write_columns` wrote.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        If a file cannot be read or is damaged.
    """
    import pyarrow.parquet as pq

    counters = _read_counters(folder / COUNTERS)
    operations = _operations_of(pq.read_table(folder / OPERATIONS))
    processes = tuple(Process(**one) for one in json.loads((folder / PROCESSES).read_text()))
    return Timeline(start_ns, end_ns or start_ns, counters, operations, processes)


def _pieces(counters: Counters) -> Iterator[Counters]:
    """Yield consecutive records as views, so that nothing is copied but the piece at work."""
    for begin in range(0, len(counters), _PIECE):
        part = slice(begin, begin + _PIECE)
        columns = {name: getattr(counters, name)[part] for name in _RECORDS}
        yield dataclasses.replace(counters, **columns)


def _write_counters(path: Path, series: Sequence[Series]) -> None:
    """Write the records of all series, one after the other, in memory for one piece."""
    import pyarrow as pa

    told = [{key: getattr(one.told, key) for key in _SERIES} for one in series]
    types = {"series": pa.int16(), **dict.fromkeys(_RECORDS, pa.int64()), "known": pa.bool_()}
    schema = pa.schema(types, metadata={b"series": json.dumps(told).encode()})
    tables = (
        _counters_table(number, piece, schema)
        for number, one in enumerate(series)
        for piece in one.pieces
    )
    _write(path, schema, tables)


def _counters_table(number: int, counters: Counters, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {name: getattr(counters, name) for name in _RECORDS}
    return pa.table({"series": np.full(len(counters), number, np.int16), **columns}, schema)


def _read_counters(path: Path) -> tuple[Counters, ...]:
    """Read the records of all series into arrays of their final size, a piece at a time."""
    import pyarrow.parquet as pq

    types = {"series": np.int16, **dict.fromkeys(_RECORDS, np.int64), "known": np.bool_}
    with pq.ParquetFile(path) as file:
        series = json.loads((file.schema_arrow.metadata or {})[b"series"])
        columns: dict[str, Any] = {
            name: np.empty(file.metadata.num_rows, dtype) for name, dtype in types.items()
        }
        begin = 0
        for batch in file.iter_batches(_PIECE, columns=list(columns)):
            for name, column in columns.items():
                part = batch.column(name).to_numpy(zero_copy_only=False)
                column[begin : begin + batch.num_rows] = part
            begin += batch.num_rows
    edges = np.searchsorted(columns["series"], np.arange(len(series) + 1))
    return tuple(
        Counters(**told, **{name: columns[name][edges[i] : edges[i + 1]] for name in _RECORDS})
        for i, told in enumerate(series)
    )


def _write_operations(path: Path, operations: Operations) -> None:
    import pyarrow as pa

    table = pa.table({name: getattr(operations, name) for name in COLUMNS})
    names = json.dumps(operations.names).encode()
    table = table.replace_schema_metadata({b"names": names})
    _write(path, table.schema, (table,))


def _operations_of(table: pa.Table) -> Operations:
    names = json.loads((table.schema.metadata or {})[b"names"])
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    return Operations.of(tuple(names), **columns)


def _write(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
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
