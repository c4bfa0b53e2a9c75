"""Reads the spools of traced processes piece by piece, where they are too long to be read whole.

Operations and the calls that asked for them are records of their own, which come in buffers at
about the same time. A call is looked for in the pieces around its operation: the two before, which
hold what was submitted some hundred thousand records ago, and the one after.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from lanescope.codec.files import open_file
from lanescope.trace.call_spool import Coverages
from lanescope.trace.columns import operations_in_file
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import HostCopies, Managed, PythonLines
from lanescope.trace.spool_records import (
    CALLS,
    COUNTS,
    EDGES,
    HOST_COPIES,
    LINES,
    MANAGED,
    OPERATIONS,
    TIMES_UNKNOWN,
    Damage,
    Kind,
    Records,
    Table,
)
from lanescope.trace.timeline import CALL_TIMES, Process, Ranges
from lanescope.trace.trace_spool import (
    NO_RECORDS,
    Losses,
    host_copies_of,
    is_cut_short,
    managed_of,
    only_possible,
    operations_of,
    outermost,
    process_of,
    python_lines_of,
    ranges_of,
    trace_header,
)

#: Bytes of a spool that are read at once.
_BLOCK = 8 << 20
#: Blocks whose calls are kept: two before the operations, theirs and the one after.
_KEPT = 4


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """What the traces of all processes tell."""

    operations: Operations
    processes: tuple[Process, ...]
    ranges: Ranges
    managed: Managed
    host_copies: HostCopies
    python_lines: PythonLines


class Renumbered(Protocol):
    """Gives rows of a process the machine's numbers of GPUs."""

    def __call__(self, rows: Any, visible: str | None, gpus: Mapping[int, str]) -> Any:
        """Return operations or managed memory.

        Parameters
        ----------
        visible
            The process's ``CUDA_VISIBLE_DEVICES``.
        gpus
            PCI addresses by the process's numbers of GPUs.
        """


@dataclass(slots=True)
class _StreamState:
    """What spools say beside their operations."""

    names: dict[str, int] = field(default_factory=lambda: {"": 0})
    coverages: Coverages = field(default_factory=Coverages)
    ranges: list[Ranges] = field(default_factory=list)
    managed: list[Managed] = field(default_factory=list)
    host_copies: list[HostCopies] = field(default_factory=list)
    python_lines: list[PythonLines] = field(default_factory=list)


@dataclass(slots=True)
class _SideRows:
    """Records of one process that are held whole: there are fewer of them than operations."""

    edges: list[Table] = field(default_factory=lambda: [np.empty(0, EDGES)])
    managed: list[Table] = field(default_factory=lambda: [np.empty(0, MANAGED)])
    host_copies: list[Table] = field(default_factory=lambda: [np.empty(0, HOST_COPIES)])
    lines: list[Table] = field(default_factory=lambda: [np.empty(0, LINES)])
    line_costs: list[Table] = field(default_factory=lambda: [np.empty(0, COUNTS)])
    stacks: dict[int, str] = field(default_factory=dict)

    def add(self, records: Records) -> None:
        self.edges.append(records.table(Kind.RANGE, EDGES))
        self.managed.append(records.table(Kind.MANAGED, MANAGED))
        self.host_copies.append(records.table(Kind.HOST_COPY, HOST_COPIES))
        self.lines.append(records.table(Kind.LINE, LINES))
        self.line_costs.append(records.table(Kind.LINE_COST, COUNTS))
        self.stacks.update(records.texts(Kind.STACK))

    def python_lines(self, pid: int) -> PythonLines:
        lines, costs = np.concatenate(self.lines), np.concatenate(self.line_costs)
        return python_lines_of(lines, self.stacks, costs, pid)


def stream_traces(
    paths: list[Path], possible: Renumbered, renumbered: Renumbered, damage: Damage
) -> Traced:
    """Return what spools tell; the operations lie in a file without a name.

    Parameters
    ----------
    paths
        Of traces first, then of calls.
    possible
        Of operations; leaves those out that cannot be.
    renumbered
        Of managed memory.
    damage
        Collects what is damaged.

    Raises
    ------
    OSError
        If the file cannot be written, beside the spools or among temporary files.
    """
    state = _StreamState()
    pieces = (
        piece for path in paths for piece in _pieces(path, state, possible, renumbered, damage)
    )
    operations = operations_in_file(pieces, paths[0].parent, lambda: tuple(state.names))
    return Traced(
        operations,
        state.coverages.processes(),
        Ranges.concat(state.ranges),
        Managed.concat(state.managed),
        HostCopies.concat(state.host_copies),
        PythonLines.concat(state.python_lines),
    )


def _pieces(
    path: Path,
    state: _StreamState,
    possible: Renumbered,
    renumbered: Renumbered,
    damage: Damage,
) -> Iterator[Operations]:
    """Yield a process's operations, and tell the rest."""
    with damage.leaving_out(path), open_file(path, inner=2) as file:
        header, begin = trace_header(path, file.read(_BLOCK))
        file.seek(begin)
        strings: dict[int, str] = {}
        ends: list[int] = []
        losses, unfinished, cut_short = Losses(), 0, False
        gpus: dict[int, str] = {}
        calls: list[Table] = []
        side_rows = _SideRows()
        pid, visible = header.pid, header.visible_devices
        waiting = np.empty(0, OPERATIONS)
        by_calls = header.timed_by == CALL_TIMES
        begin_of = state.coverages.of_calls if by_calls else state.coverages.of_trace
        coverage = begin_of(pid, header.start_ns)

        def waited() -> Operations:
            found = outermost(np.concatenate(calls))
            own = only_possible(operations_of(waiting, found, strings, pid), path, damage)
            if by_calls:
                own = coverage.only_missing(own)
            else:
                coverage.add(own)
            numbers = [state.names.setdefault(name, len(state.names)) for name in own.names]
            named = dataclasses.replace(own, name=np.array(numbers, np.int64)[own.name])
            piece: Operations = possible(named, visible, gpus)
            return piece

        for records in _blocks(file, path, damage):
            strings.update(records.texts(Kind.STRING))
            gpus.update(records.texts(Kind.GPU))
            side_rows.add(records)
            calls = [*calls, records.table(Kind.CALL, CALLS)][-_KEPT:]
            if waiting.size:
                yield waited()
            rows = records.table(Kind.OPERATION, OPERATIONS)
            timed = (rows["head"]["flags"] & TIMES_UNKNOWN) == 0
            waiting, unfinished = rows[timed], unfinished + int((~timed).sum())
            ended = records.table(Kind.END, COUNTS)
            ends, cut_short = ends + ended["at_ns"].tolist(), cut_short or is_cut_short(ended)
            losses.add(records)
        if waiting.size:
            yield waited()
        coverage.end(process_of(header, ends, losses, unfinished), cut_short=cut_short)
        state.ranges.append(ranges_of(np.concatenate(side_rows.edges), strings, pid))
        managed = managed_of(np.concatenate(side_rows.managed), pid)
        state.managed.append(renumbered(managed, visible, gpus))
        state.host_copies.append(host_copies_of(np.concatenate(side_rows.host_copies), pid))
        state.python_lines.append(side_rows.python_lines(pid))


def _blocks(file: BinaryIO, path: Path, damage: Damage) -> Iterator[Records]:
    """Yield the whole records of a file from here on, up to the first that is damaged."""
    rest = b""
    records = Records(b"", {})
    while more := file.read(_BLOCK):
        records = Records.found_in(rest + more, 0)
        if records.end == 0:
            behind = os.fstat(file.fileno()).st_size - file.tell()
            damage.lost(path, NO_RECORDS, records.damaged + behind)
            return
        rest = records.content[records.end :]
        yield records
    damage.lost(path, NO_RECORDS, records.damaged)
