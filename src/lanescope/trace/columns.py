"""A timeline as Parquet files, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar

import numpy as np

from lanescope.codec.fields import Bound, PositiveInt, decode
from lanescope.codec.files import (
    fields_of,
    read_json,
    reading,
    replace_when_written,
    write_atomically,
)
from lanescope.codec.parquet import (
    metadata_of,
    open_table,
    require_short,
    table_of,
    write_groups,
)
from lanescope.errors import InputError
from lanescope.trace.codes import ANY, BYTES, NUMBERS, PIDS, TIMES, TRUTH, IntArray, Range
from lanescope.trace.operations import RANGES as OPERATION_RANGES
from lanescope.trace.operations import Operations, impossible
from lanescope.trace.probe import Probe
from lanescope.trace.side_tables import HostCopies, Managed, ManagedKind, NoLine, PythonLines
from lanescope.trace.stored_columns import (
    MOST_AT_ONCE,
    MOST_IN_MEMORY,
    ParquetRecords,
    Rows,
    in_memory,
    pieces_of,
    scratch_file,
    with_stored,
)
from lanescope.trace.time_checks import FAR_NS, TimeWindow, require_own_time
from lanescope.trace.timeline import PCIE, CountedLink, Counters, Process, Ranges, Timeline

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
#: Is there only if copies by line of Python were requested, and there were any.
PYTHON_LINES = "python_lines.parquet"
#: Times grow steadily: their differences take a fraction of the bytes.
_GROWING = ("end_ns", "start_ns", "begin_ns", "call_start_ns", "call_end_ns", "correlation")

#: Nothing is counted or probed more often.
_LEAST_INTERVAL_NS = 1000

_OneSeries = TypeVar("_OneSeries", Counters, Probe)
_OneSide = TypeVar("_OneSide", Managed, HostCopies)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a series says about itself, beside its records, and the columns of these."""

    told: type[Any]
    records: Mapping[str, Range]

    def description_of(self, series: Counters | Probe) -> dict[str, Any]:
        """Return what a series says about itself, to be stored."""
        return {field.name: getattr(series, field.name) for field in fields(self.told)}


@dataclass(frozen=True, slots=True)
class _OfCounters:
    """What counters say about themselves; attributes are those of `Counters`."""

    source: str
    gpu: int
    interval_ns: PositiveInt
    lost_samples: int
    cpu_seconds: float | None
    link: CountedLink = PCIE


@dataclass(frozen=True, slots=True)
class _OfProbe:
    """What a probe says about itself; attributes are those of `Probe`."""

    gpu: int
    chunk_bytes: PositiveInt
    period_ns: int
    cpu_seconds: float | None


_OF_COUNTERS = _Layout(
    _OfCounters,
    {"end_ns": TIMES, "rx_bytes": BYTES, "tx_bytes": BYTES, "known": TRUTH, "own": TRUTH},
)
#: The column that runs of earlier versions do not have.
_OWN = "own"
_OF_PROBES = _Layout(
    _OfProbe,
    {"begin_ns": TIMES, "delay_ns": BYTES, "copy_ns": BYTES, "direction": (0, 1)},
)
_OF_RANGES = {**dict.fromkeys(Ranges.columns(), TIMES), "thread": NUMBERS, "pushed": TRUTH}
_Spent = Annotated[int, Bound("not below zero", lambda value: value >= 0)]
_OF_LINES = {"pid": PIDS, "start_ns": ANY, "correlation": TIMES}
#: Columns that watches of earlier versions do not have; 0 there.
_LATER_OF_SIDES = ("read_begin_ns", "read_ns", "same_bytes")
#: Addresses and hashes are 64 bits of any kind.
_OF_SIDES = {
    **dict.fromkeys(("start_ns", "end_ns", "correlation"), TIMES),
    "pid": PIDS,
    **dict.fromkeys(("bytes", "value"), BYTES),
    **dict.fromkeys(("device", "node"), NUMBERS),
    **dict.fromkeys(("source", "destination", "address", "hash"), ANY),
    "kind": (0, max(ManagedKind)),
    "hashed": (0, 1),
    **dict.fromkeys(_LATER_OF_SIDES, TIMES),
}


@dataclass(frozen=True, slots=True)
class RecordSeries:
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
    folder: Path, timeline: Timeline, counters: Sequence[RecordSeries] | None = None
) -> None:
    """Write a timeline into a run's folder; raises OSError.

    Parameters
    ----------
    counters
        Where its counters come from, some records at a time; None: from the timeline itself.
    """
    own = [RecordSeries(one, _pieces(one)) for one in timeline.counters]
    _write_series(folder / COUNTERS, own if counters is None else counters, _OF_COUNTERS)
    _write_operations(folder / OPERATIONS, timeline.operations)
    content = [dataclasses.asdict(process) for process in timeline.processes]
    write_atomically(folder / PROCESSES, json.dumps(content, indent=1).encode())
    if timeline.probes:
        probes = [RecordSeries(one, (one,)) for one in timeline.probes]
        _write_series(folder / PROBE, probes, _OF_PROBES)
    _write_rows(folder / RANGES, timeline.ranges)
    _write_rows(folder / MANAGED, timeline.managed)
    _write_rows(folder / HOST_COPIES, timeline.host_copies)
    _write_rows(folder / PYTHON_LINES, timeline.python_lines)


def write_counter_file(path: Path, counters: Sequence[Counters], inner: int = 1) -> None:
    """Write counters into a file of their own, as `write_columns` writes those of a watch.

    Parameters
    ----------
    inner
        How many of the path's last names lie in a run folder.
    """
    series = [RecordSeries(one, _pieces(one)) for one in counters]
    _write_series(path, series, _OF_COUNTERS, inner)


def read_counter_file(path: Path, inner: int = 1) -> tuple[Counters, ...]:
    """Read what `write_counter_file` wrote; raises InputError."""
    found = _read_series(Counters, path, _OF_COUNTERS, FAR_NS, inner)
    return tuple(in_memory(one) for one in found)


def read_columns(folder: Path, start_ns: int, end_ns: int | None) -> Timeline:
    """Read what `write_columns` wrote.

    Raises
    ------
    InputError
        If a file cannot be read or is damaged.
    """
    span_ns = FAR_NS if end_ns is None else end_ns - start_ns
    counters = _read_series(Counters, folder / COUNTERS, _OF_COUNTERS, span_ns)
    operations = read_operations(folder / OPERATIONS)
    with fields_of(folder / PROCESSES, "name another run"):
        processes = decode(tuple[Process, ...], read_json(folder / PROCESSES, inner=1), "processes")
    probes: tuple[Probe, ...] = ()
    if (folder / PROBE).exists():
        probes = _read_series(Probe, folder / PROBE, _OF_PROBES, span_ns)
    span = TimeWindow(start_ns, end_ns)
    stored, counters = counters, span.all_counters(counters)
    require_own_time(folder / COUNTERS, stored, map(len, counters))
    all_operations, operations = operations, _possible(operations, folder, span)
    require_own_time(folder / OPERATIONS, [all_operations], [len(operations)])
    if end_ns is None:
        ends = [int(one.end_ns[-1]) for one in counters if len(one)]
        ends += [int(piece.end_ns.max()) for piece in operations.pieces()]
        end_ns = max([start_ns, *ends])
    return Timeline(
        start_ns,
        end_ns,
        counters,
        operations,
        processes,
        tuple(span.probe(one) for one in probes),
        span.timed(_ranges_of(folder / RANGES)),
        span.timed(_read_side(Managed, folder / MANAGED)),
        _read_side(HostCopies, folder / HOST_COPIES),
        span.left_out,
        _lines_of(folder / PYTHON_LINES),
    )


def _possible(operations: Operations, folder: Path, span: TimeWindow) -> Operations:
    """Return the operations whose times can be, in memory or, as they were, in a file."""
    if len(operations) <= MOST_IN_MEMORY:
        return span.operations(operations)
    if all(span.holds(piece.start_ns, piece.end_ns).all() for piece in operations.pieces()):
        return operations
    pieces = (span.operations(piece) for piece in operations.pieces())
    return operations_in_file(pieces, folder, lambda: operations.names)


def operations_in_file(
    pieces: Iterable[Operations], folder: Path, names: Callable[[], tuple[str, ...]]
) -> Operations:
    """Return operations as stored columns of a file that has no name any more.

    Parameters
    ----------
    folder
        Where the file is made; among temporary files where that cannot be written to.
    names
        Those of the operations, when all pieces have been taken.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    with scratch_file(folder) as file:
        _fill(file, _table_of(Operations.empty()).schema, map(_table_of, pieces))
        file.flush()
        again = Path(f"/proc/self/fd/{file.fileno()}")
        return stored_operations(again, names(), inner=0)


def _pieces(counters: Counters) -> Iterator[Counters]:
    """Yield consecutive records as views, so that nothing is copied but the piece at work."""
    for part in pieces_of(len(counters)):  # each becomes a row group
        columns = {k: getattr(counters, k)[part] for k in _OF_COUNTERS.records if k != _OWN}
        own = None if counters.own is None else counters.own[part]
        yield dataclasses.replace(counters, **columns, own=own)


def _write_series(
    path: Path, series: Sequence[RecordSeries], layout: _Layout, inner: int = 1
) -> None:
    """Write the records of all series, one after the other, in memory for one piece."""
    import pyarrow as pa

    about = [layout.description_of(one.told) for one in series]
    types = {"series": pa.int16(), **dict.fromkeys(layout.records, pa.int64())}
    types |= {name: pa.bool_() for name, span in layout.records.items() if span is TRUTH}
    # columns that lack no value, and say so, are written and read in less time
    columns = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    schema = pa.schema(columns, metadata={b"series": json.dumps(about).encode()})
    tables = (
        _series_table(number, piece, schema)
        for number, one in enumerate(series)
        for piece in one.pieces
    )
    # several are encoded at once, which takes more memory than operations have (`write_tables`)
    replace_when_written(
        path, lambda file: write_groups(file, schema, tables, **_encoding(schema)), inner
    )


def _series_table(number: int, piece: Counters | Probe, schema: pa.Schema) -> pa.Table:
    columns: dict[str, Any] = {
        name: piece.maybe_own if name == _OWN else getattr(piece, name)  # type: ignore[union-attr]
        for name in schema.names[1:]
    }
    return table_of({"series": np.full(len(piece), number, np.int16), **columns}, schema)


def _read_series(
    kind: type[_OneSeries], path: Path, layout: _Layout, span_ns: int, inner: int = 1
) -> tuple[_OneSeries, ...]:
    """Return all series: arrays where they are short, else columns that stay in the file.

    There are no more records than the time of the watch has room for.
    """
    wanted = {**layout.records, "series": (0, 2**15)}
    records = ParquetRecords(path, wanted, optional=(_OWN,), inner=inner, ahead=True)
    several: Any = tuple[layout.told, ...]  # type: ignore[name-defined]
    series = metadata_of(records.file, path, "series", several)
    if records.rows > max(MOST_IN_MEMORY, len(series) * span_ns // _LEAST_INTERVAL_NS):
        raise InputError(
            f"{path} holds {records.rows} records, more than the time of its watch has room for; "
            "name another run"
        )
    there = set(records.file.schema_arrow.names)
    edges = np.concatenate(([0], np.cumsum(_rows_of_series(path, records, len(series))))).tolist()
    found: list[_OneSeries] = []
    for about, (begin, end) in zip(series, pairwise(edges), strict=True):
        none: dict[str, Any] = {
            name: np.empty(0, np.bool_ if span is TRUTH else np.int64)
            for name, span in layout.records.items()
            if name in there
        }
        # for a thread of its own, also where so many are damaged that few enough are left
        if found and begin < end and records.rows <= 2 * MOST_AT_ONCE:
            records = ParquetRecords(path, wanted, optional=(_OWN,), inner=inner, ahead=True)
        one = with_stored(kind(**layout.description_of(about), **none), records, begin, end)
        short = kind is Probe or records.rows <= MOST_IN_MEMORY  # probes are worked on whole
        found.append(in_memory(one) if short else one)
    return tuple(found)


def _rows_of_series(path: Path, records: ParquetRecords, count: int) -> IntArray:
    """Return how many records each series has."""
    rows = np.zeros(count, np.int64)
    for part in pieces_of(records.rows):
        numbers = records.read("series", part.start, part.stop)
        if numbers[-1] >= count or np.any(numbers[1:] < numbers[:-1]):
            raise InputError(f"{path}: records are of no series that it says; name another run")
        rows += np.diff(np.searchsorted(numbers, np.arange(count + 1)))
    return rows


def _write_operations(path: Path, operations: Operations) -> None:
    names = {b"names": json.dumps(operations.names).encode()}
    schema = _table_of(Operations.empty()).schema.with_metadata(names)
    # pyarrow's own casts load its functions, which takes 0.07 s
    write_tables(path, schema, (table_of(_columns(piece), schema) for piece in operations.pieces()))


def _columns(rows: Rows) -> dict[str, Any]:
    return {name: getattr(rows, name) for name in rows.columns()}


def _table_of(rows: Rows) -> pa.Table:
    table = table_of(_columns(rows))
    about = {name.encode(): json.dumps(told).encode() for name, told in rows.about().items()}
    return table.replace_schema_metadata(about or None)


def _write_rows(path: Path, rows: Rows) -> None:
    """Write rows that are in memory; without any there is no file."""
    if len(rows):
        table = _table_of(rows)
        write_tables(path, table.schema, (table,))


def _ranges_of(path: Path) -> Ranges:
    if not path.exists():
        return Ranges.empty()
    with open_table(path) as file:
        names = metadata_of(file, path, "names", tuple[str, ...])
    columns = _whole(path, _OF_RANGES | {"name": (0, len(names) - 1)})
    return Ranges.of(names, **columns)


def _lines_of(path: Path) -> PythonLines:
    if not path.exists():
        return PythonLines.empty()
    with open_table(path) as file:
        stacks = metadata_of(file, path, "stacks", tuple[str, ...])
        spent_ns = metadata_of(file, path, "spent_ns", _Spent)
    columns = _whole(path, _OF_LINES | {"stack": (min(NoLine), len(stacks) - 1)})
    return PythonLines.of(stacks, spent_ns, **columns)


def _read_side(kind: type[_OneSide], path: Path) -> _OneSide:
    if not path.exists():
        return kind.empty()
    wanted = {name: _OF_SIDES[name] for name in kind.columns()}
    return kind.of(**_whole(path, wanted, _LATER_OF_SIDES))


def _whole(
    path: Path, wanted: Mapping[str, Range], optional: Collection[str] = ()
) -> dict[str, IntArray]:
    """Return the columns of a file that is short; zeros for those that may be missing and are."""
    records = ParquetRecords(path, wanted, optional)
    require_short(path, records.rows * len(wanted))
    there = set(records.file.schema_arrow.names)
    return {
        name: records.read(name, 0, records.rows)
        if name in there
        else np.zeros(records.rows, np.int64)
        for name in wanted
    }


def read_operations(path: Path) -> Operations:
    """Return operations with their names: arrays when they are few, else stored columns.

    Raises
    ------
    InputError
        If the file cannot be read or is damaged.
    """
    with open_table(path) as file:
        names = metadata_of(file, path, "names", tuple[str, ...])
        _require_dense(path, file.metadata.num_rows)
    found = stored_operations(path, names)
    if len(found) > MOST_IN_MEMORY:
        return found
    found = in_memory(found)
    if problem := impossible(found):
        raise InputError(f"{path}: {problem}; name another run")
    return found


#: Operations that a byte of their file may hold.
_MOST_A_BYTE = 8


def _require_dense(path: Path, rows: int) -> None:
    """Refuse operations that are so alike that no program's are; raises `InputError`.

    Millions of equal ones fit into a small file, and take hours to be looked at. Copies that were
    counted lie evenly between recorded ones, of which there is one in 24: they take little room.
    """
    with reading(path):
        size = path.stat().st_size
    if rows > MOST_IN_MEMORY and size < rows // _MOST_A_BYTE:
        raise InputError(
            f"{path} holds {rows} operations in {size} bytes, which no watch does: their times "
            "alone take more; name another run"
        )


def stored_operations(path: Path, names: tuple[str, ...], inner: int = 1) -> Operations:
    """Return the operations of a file as stored columns; raises `InputError`.

    `inner` is how many of the path's last names lie in a run folder.
    """
    wanted = OPERATION_RANGES | {"name": (0, len(names) - 1)}
    records = ParquetRecords(path, wanted, inner=inner)
    return with_stored(Operations.of(names), records, 0, records.rows)


def write_tables(path: Path, schema: pa.Schema, tables: Iterable[pa.Table], inner: int = 1) -> None:
    """Write tables of one schema as row groups of one file."""
    replace_when_written(path, lambda file: _fill(file, schema, tables), inner)


def _fill(file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    import pyarrow.parquet as pq

    with (
        pq.ParquetWriter(file, schema, **_encoding(schema)) as writer,
        ThreadPoolExecutor(1) as encoding,
    ):
        done = encoding.submit(lambda: None)
        for table in tables:  # the next one is made while one is encoded
            done.result()
            done = encoding.submit(writer.write_table, table)
        done.result()


def _encoding(schema: pa.Schema) -> dict[str, Any]:
    """Return how columns are encoded, as options of pyarrow's writer."""
    growing = [name for name in schema.names if name in _GROWING]
    return {
        "compression": "zstd",
        "write_page_checksum": True,
        "use_dictionary": [name for name in schema.names if name not in _GROWING],
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
    }
