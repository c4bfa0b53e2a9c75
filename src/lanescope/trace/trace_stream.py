"""Reads the spools of traced processes piece by piece, where they are too long to be read whole.

Operations and the calls that asked for them are records of their own, which come in buffers at
about the same time. A call is looked for in the pieces around its operation: the two before, which
hold what was submitted some hundred thousand records ago, and the one after.

With ``--trace always`` a process has two spools: CUPTI's trace, and its calls. The trace ends early
where another profiler has CUPTI or the process is killed. No copy counts twice: calls count only
where the trace tells nothing of them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from lanescope.codec.files import open_file
from lanescope.trace.codes import BoolArray, IntArray
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
    RecordKind,
    Table,
    WholeRecords,
)
from lanescope.trace.timeline import CALL_TIMES, Process, Ranges
from lanescope.trace.trace_spool import (
    NO_RECORDS,
    SpoolLosses,
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
#: Before its end a trace may lack copies that were called for: a profiler that takes CUPTI over
#: gets the buffers that were not full. They are written ten times a second.
_UNSURE_NS = 1_000_000_000
#: Both clocks agree to this.
_SLACK_NS = 5_000
#: Of a trace that ended in order calls count only so long after all that it has.
_SURELY_LATER_NS = 1_000_000
#: Calls are compared one by one where the trace knows those of so many of its last operations.
_LEAST_KNOWN = 0.9


@dataclass(slots=True)
class Coverage:
    """Which calls of a process its trace covers; fed piece by piece.

    Attributes
    ----------
    process
        Whose trace it is; None where there is none.
    cut_short
        Whether the trace ended before the process did, as it says itself.
    calls
        The process as its calls tell it; None where they were not recorded.
    """

    pid: int
    start_ns: int
    process: Process | None = None
    cut_short: bool = False
    calls: Process | None = None
    _copies: int = 0
    _called_ns: int = 0
    _begun_ns: int = 0
    _last: IntArray = field(default_factory=lambda: np.empty((0, 3), np.int64))
    _missing: int = 0
    _missing_ns: int | None = None

    def add(self, traced: Operations) -> None:
        """Take the next operations of the trace."""
        if not len(traced):
            return
        self._copies += int(traced.is_copy.sum())
        self._called_ns = max(self._called_ns, int(traced.call_start_ns.max()))
        self._begun_ns = max(self._begun_ns, int(traced.start_ns.max()))
        calls = np.stack((traced.thread, traced.call_start_ns, traced.call_end_ns), axis=1)
        last = np.concatenate((self._last, calls[traced.is_copy]))
        unsure = (last[:, 1] == 0) | (last[:, 1] > self._called_ns - _UNSURE_NS)
        self._last = last[unsure]

    def only_missing(self, called: Operations) -> Operations:
        """Return those of the next copies of the calls that the trace does not have."""
        if not len(called):
            return called
        found = called if not self._copies else called.rows(self._is_missing(called))
        self._missing += len(found)
        if len(found):
            first = int(found.call_start_ns.min())
            self._missing_ns = min(first, self._missing_ns or first)
        return found

    def _is_missing(self, called: Operations) -> BoolArray:
        start: IntArray = called.call_start_ns
        latest = max(self._called_ns, self._begun_ns)
        known = self._last[self._last[:, 1] > 0]
        sure = len(known) >= _LEAST_KNOWN * len(self._last) and len(known) > 0
        whole = self.process is not None and self.process.complete and not self.cut_short
        # a trace that says nothing of an early end may still have lost its place: to a profiler
        # that has let go of CUPTI since
        if whole or not sure:
            return np.greater(start, latest + _SURELY_LATER_NS) & np.greater(called.bytes, 0)
        late = start > self._called_ns - _UNSURE_NS
        missing = late & np.greater(called.bytes, 0)
        missing[late] &= ~_within(called.thread[late], start[late], known)
        return missing

    def end(self, process: Process, *, cut_short: bool = False) -> None:
        """Take whose trace, or whose calls, came to an end; `cut_short` is of traces."""
        if process.timed_by == CALL_TIMES:
            self.calls = process
        else:
            self.process, self.cut_short = process, cut_short

    def result(self) -> Process:
        """Return the process, with what is missing of its trace."""
        traced, calls = self.process, self.calls
        if traced is None or calls is None:
            process = traced or calls
            assert process is not None, "there is a spool for each"
            until = max(self._called_ns, self._begun_ns) or self.start_ns
            return replace(process, traced_until_ns=until) if self.cut_short else process
        both = traced.lost_records + calls.lost_records
        if not self._copies:
            until_start = calls.start_ns if self.cut_short else None
            return replace(
                calls, lost_records=both, traced_until_ns=until_start, calls_after=self.cut_short
            )
        if not self._missing:
            return traced
        return replace(
            traced, lost_records=both, traced_until_ns=self._missing_ns, calls_after=True
        )


def _within(threads: IntArray, start_ns: IntArray, calls: IntArray) -> BoolArray:
    """Return which times lie within a call of the same thread.

    Parameters
    ----------
    calls
        A row for each: thread, start and end.
    """
    inside = np.zeros(threads.size, np.bool_)
    for thread in np.unique(threads).tolist():
        own = calls[calls[:, 0] == thread]
        own = own[np.argsort(own[:, 1], kind="stable")]
        mine = threads == thread
        if not len(own):
            continue
        before = np.searchsorted(own[:, 1], start_ns[mine] + _SLACK_NS, "right") - 1
        ends = own[np.maximum(before, 0), 2]
        inside[mine] = (before >= 0) & (start_ns[mine] <= ends + _SLACK_NS)
    return inside


class Coverages:
    """The processes of a watch, each with its trace, its calls or both; traces come first."""

    def __init__(self) -> None:
        self._found: list[Coverage] = []

    def of_trace(self, pid: int, start_ns: int) -> Coverage:
        """Return what is to be fed with a process's trace."""
        self._found.append(Coverage(pid, start_ns))
        return self._found[-1]

    def of_calls(self, pid: int, start_ns: int) -> Coverage:
        """Return what the trace of the same process covers; nothing where there is none."""
        traces = [one for one in self._found if one.pid == pid and one.calls is None]
        traces = [one for one in traces if one.process is not None]
        if not traces:
            return self.of_trace(pid, start_ns)
        return min(traces, key=lambda one: abs(one.start_ns - start_ns))

    def processes(self) -> tuple[Process, ...]:
        """Return each process once."""
        return tuple(
            one.result() for one in self._found if one.process is not None or one.calls is not None
        )


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

    def add(self, records: WholeRecords) -> None:
        self.edges.append(records.table(RecordKind.RANGE, EDGES))
        self.managed.append(records.table(RecordKind.MANAGED, MANAGED))
        self.host_copies.append(records.table(RecordKind.HOST_COPY, HOST_COPIES))
        self.lines.append(records.table(RecordKind.LINE, LINES))
        self.line_costs.append(records.table(RecordKind.LINE_COST, COUNTS))
        self.stacks.update(records.texts(RecordKind.STACK))

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
        losses, unfinished, cut_short = SpoolLosses(), 0, False
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
            strings.update(records.texts(RecordKind.STRING))
            gpus.update(records.texts(RecordKind.GPU))
            side_rows.add(records)
            calls = [*calls, records.table(RecordKind.CALL, CALLS)][-_KEPT:]
            if waiting.size:
                yield waited()
            rows = records.table(RecordKind.OPERATION, OPERATIONS)
            timed = (rows["head"]["flags"] & TIMES_UNKNOWN) == 0
            waiting, unfinished = rows[timed], unfinished + int((~timed).sum())
            ended = records.table(RecordKind.END, COUNTS)
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


def _blocks(file: BinaryIO, path: Path, damage: Damage) -> Iterator[WholeRecords]:
    """Yield the whole records of a file from here on, up to the first that is damaged."""
    rest = b""
    records = WholeRecords(b"", {})
    while more := file.read(_BLOCK):
        records = WholeRecords.found_in(rest + more, 0)
        if records.end == 0:
            behind = os.fstat(file.fileno()).st_size - file.tell()
            damage.lost(path, NO_RECORDS, records.damaged + behind)
            return
        rest = records.content[records.end :]
        yield records
    damage.lost(path, NO_RECORDS, records.damaged)
