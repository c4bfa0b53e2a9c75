"""A timeline as Parquet files, and back."""

from __future__ import annotations

import dataclasses
import json
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
#: Times grow steadily: their differences take a fraction of the bytes.
_GROWING = ("end_ns", "start_ns", "call_start_ns", "call_end_ns", "correlation")


def write_columns(folder: Path, timeline: Timeline) -> None:
    """Write a timeline into a run's folder; raises OSError."""
    _write(folder / COUNTERS, _counters_table(timeline.counters))
    _write(folder / OPERATIONS, _operations_table(timeline.operations))
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

    counters = _counters_of(pq.read_table(folder / COUNTERS))
    operations = _operations_of(pq.read_table(folder / OPERATIONS))
    processes = tuple(Process(**one) for one in json.loads((folder / PROCESSES).read_text()))
    return Timeline(start_ns, end_ns or start_ns, counters, operations, processes)


def _counters_table(counters: tuple[Counters, ...]) -> pa.Table:
    import pyarrow as pa

    series = [{key: getattr(one, key) for key in _SERIES} for one in counters]
    columns: dict[str, Any] = {
        "series": np.repeat(np.arange(len(counters), dtype=np.int16), [len(c) for c in counters])
    }
    for name in _RECORDS:
        parts = [getattr(one, name) for one in counters]
        dtype = np.bool_ if name == "known" else np.int64
        columns[name] = np.concatenate(parts) if parts else np.empty(0, dtype)
    table = pa.table(columns)
    return table.replace_schema_metadata({b"series": json.dumps(series).encode()})


def _counters_of(table: pa.Table) -> tuple[Counters, ...]:
    series = json.loads((table.schema.metadata or {})[b"series"])
    columns = {name: table.column(name).to_numpy() for name in ("series", *_RECORDS)}
    found = []
    for number, told in enumerate(series):
        mine = columns["series"] == number
        found.append(Counters(**told, **{name: columns[name][mine] for name in _RECORDS}))
    return tuple(found)


def _operations_table(operations: Operations) -> pa.Table:
    import pyarrow as pa

    table = pa.table({name: getattr(operations, name) for name in COLUMNS})
    names = json.dumps(operations.names).encode()
    return table.replace_schema_metadata({b"names": names})


def _operations_of(table: pa.Table) -> Operations:
    names = json.loads((table.schema.metadata or {})[b"names"])
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    return Operations.of(tuple(names), **columns)


def _write(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    growing = [name for name in table.column_names if name in _GROWING]
    others = [name for name in table.column_names if name not in _GROWING]
    replace_when_written(
        path,
        lambda temporary: pq.write_table(
            table,
            temporary,
            compression="zstd",
            use_dictionary=others,
            column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
        ),
    )
