"""Reads the spools of traced processes piece by piece, where they are too long to be read whole.

Operations and the calls that asked for them are records of their own, which come in buffers at
about the same time. A call is looked for in the pieces around its operation: the two before, which
hold what was submitted some hundred thousand records ago, and the one after.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lanescope.errors import InputError
from lanescope.watch.columns import stored_operations, write_operation_pieces
from lanescope.watch.operations import Operations
from lanescope.watch.stored_records import ParquetRecords
from lanescope.watch.timeline import Process
from lanescope.watch.trace_records import (
    CALLS,
    COUNTS,
    OPERATIONS,
    TIMES_UNKNOWN,
    Kind,
    Records,
    Table,
)
from lanescope.watch.trace_spool import operations_of, outermost, process_of, trace_header

#: Bytes of a spool that are read at once.
_BLOCK = 8 << 20
#: Blocks whose calls are kept: two before the operations, theirs and the one after.
_KEPT = 4


@dataclass(slots=True)
class _Told:
    """What spools say beside their operations."""

    names: dict[str, int] = field(default_factory=lambda: {"": 0})
    processes: list[Process] = field(default_factory=list)


def stream_traces(
    paths: list[Path], renumbered: Callable[[Operations, str | None], Operations]
) -> tuple[Operations, tuple[Process, ...]]:
    """Return the operations and processes of spools; the former lie in a file without a name.

    Parameters
    ----------
    renumbered
        Given operations and their process's ``CUDA_VISIBLE_DEVICES``, returns them with the
        machine's numbers of GPUs.

    Raises
    ------
    OSError
        If the file cannot be written, beside the spools or among temporary files.
    """
    told = _Told()
    beside = paths[0].parent if os.access(paths[0].parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=beside, prefix=".operations-") as folder:
        file = Path(folder) / "operations.parquet"
        write_operation_pieces(
            file, (piece for path in paths for piece in _pieces(path, told, renumbered))
        )
        records = ParquetRecords(file)  # stays open when its name is gone
    return stored_operations(records, tuple(told.names)), tuple(told.processes)


def _pieces(
    path: Path, told: _Told, renumbered: Callable[[Operations, str | None], Operations]
) -> Iterator[Operations]:
    """Yield a process's operations, and tell the rest."""
    with path.open("rb") as file, contextlib.suppress(InputError):
        header, begin = trace_header(path, file.read(_BLOCK))
        file.seek(begin)
        strings: dict[int, str] = {}
        ends, lost, unfinished = [], 0, 0
        calls: list[Table] = []
        waiting = np.empty(0, OPERATIONS)

        def piece() -> Operations:
            found = outermost(np.concatenate(calls))
            own = operations_of(waiting, found, strings, header["pid"])
            numbers = [told.names.setdefault(name, len(told.names)) for name in own.names]
            named = dataclasses.replace(own, name=np.array(numbers, np.int64)[own.name])
            return renumbered(named, header.get("visible_devices"))

        for records in _blocks(file):
            strings.update(records.texts(Kind.STRING))
            calls = [*calls, records.table(Kind.CALL, CALLS)][-_KEPT:]
            if waiting.size:
                yield piece()
            rows = records.table(Kind.OPERATION, OPERATIONS)
            timed = (rows["head"]["flags"] & TIMES_UNKNOWN) == 0
            waiting, unfinished = rows[timed], unfinished + int((~timed).sum())
            ends += records.table(Kind.END, COUNTS)["at_ns"].tolist()
            lost += int(records.table(Kind.LOSS, COUNTS)["records"].sum())
        if waiting.size:
            yield piece()
        told.processes.append(process_of(header, ends, lost, unfinished))


def _blocks(file: BinaryIO) -> Iterator[Records]:
    """Yield the whole records of a file from here on, up to the first that is damaged."""
    rest = b""
    while more := file.read(_BLOCK):
        records = Records.found_in(rest + more, 0)
        if records.end == 0:
            return
        rest = records.content[records.end :]
        yield records
