"""A timeline as Parquet files, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lanescope.run.atomic import replace_when_written, write_atomically
from lanescope.watch.operations import COLUMNS, Operations
from lanescope.watch.probe import Probe
from lanescope.watch.timeline import Counters, Process, Timeline

if TYPE_CHECKING:
    import pyarrow as pa

COUNTERS = "counters.parquet"
OPERATIONS = "operations.parquet"
PROCESSES = "processes.json"
#: Is there only if something was probed.
PROBE = "probe.parquet"
#: What a series of counters says about itself, beside its records.
_SERIES = ("source", "gpu", "interval_ns", "lost_samples", "cpu_seconds")
_RECORDS = ("end_ns", "rx_bytes", "tx_bytes", "known")
#: The same of probes.
_PROBE_SERIES = ("gpu", "chunk_bytes", "period_ns", "cpu_seconds")
_PROBE_RECORDS = ("begin_ns", "delay_ns", "copy_ns", "direction")
#: Times grow steadily: their differences take a fraction of the bytes.
_GROWING = ("end_ns", "start_ns", "begin_ns", "call_start_ns", "call_end_ns", "correlation")

_Series = TypeVar("_Series", Counters, Probe)


def write_columns(folder: Path, timeline: Timeline) -> None:
    """Write a timeline into a run's folder; raises OSError."""
    _write(folder / COUNTERS, _table_of(timeline.counters, _SERIES, _RECORDS))
    _write(folder / OPERATIONS, _operations_table(timeline.operations))
    told = [dataclasses.asdict(process) for process in timeline.processes]
    write_atomically(folder / PROCESSES, json.dumps(told, indent=1).encode())
    if timeline.probes:
        _write(folder / PROBE, _table_of(timeline.probes, _PROBE_SERIES, _PROBE_RECORDS))


def read_columns(folder: Path, start_ns: int, end_ns: int | None) -> Timeline:
    """Read what `write_columns` wrote.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        If a file cannot be read or is damaged.
    """
    import pyarrow.parquet as pq

    counters = _series_of(Counters, pq.read_table(folder / COUNTERS), _RECORDS)
    operations = _operations_of(pq.read_table(folder / OPERATIONS))
    processes = tuple(Process(**one) for one in json.loads((folder / PROCESSES).read_text()))
    probes: tuple[Probe, ...] = ()
    if (folder / PROBE).exists():
        probes = _series_of(Probe, pq.read_table(folder / PROBE), _PROBE_RECORDS)
    return Timeline(start_ns, end_ns or start_ns, counters, operations, processes, probes)


def _table_of(
    series: Sequence[Counters | Probe], told: Sequence[str], records: Sequence[str]
) -> pa.Table:
    """Return a row for each record of each series, and beside them what those tell."""
    import pyarrow as pa

    about = [{key: getattr(one, key) for key in told} for one in series]
    columns: dict[str, Any] = {
        "series": np.repeat(np.arange(len(series), dtype=np.int16), [len(one) for one in series])
    }
    for name in records:
        parts = [getattr(one, name) for one in series]
        dtype = np.bool_ if name == "known" else np.int64
        columns[name] = np.concatenate(parts) if parts else np.empty(0, dtype)
    table = pa.table(columns)
    return table.replace_schema_metadata({b"series": json.dumps(about).encode()})


def _series_of(kind: type[_Series], table: pa.Table, records: Sequence[str]) -> tuple[_Series, ...]:
    about = json.loads((table.schema.metadata or {})[b"series"])
    columns = {name: table.column(name).to_numpy() for name in ("series", *records)}
    found = []
    for number, told in enumerate(about):
        mine = columns["series"] == number
        found.append(kind(**told, **{name: columns[name][mine] for name in records}))
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
