"""Reads the spool of a traced process, whatever was written of it.

How its records are found is in spool_records.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lanescope.codec.files import open_file, read_bytes, reading
from lanescope.trace.codes import UNKNOWN_THREAD, MemoryKind
from lanescope.trace.operations import COLUMNS, possible_rows
from lanescope.trace.side_tables import HostCopies, Managed, PythonLines
from lanescope.trace.spool_records import (
    CALLED,
    CALLS,
    COUNTS,
    CUT_SHORT,
    EDGES,
    END,
    HASH_KNOWN,
    HOST_COPIES,
    KERNELS,
    LINES,
    MANAGED,
    NO_ROOM,
    OPERATIONS,
    POP,
    PUSH,
    START,
    TIMES_UNKNOWN,
    Damage,
    RecordKind,
    Table,
    WholeRecords,
    header_of,
)
from lanescope.trace.timeline import GPU_CLOCK, Operations, Process, Ranges, TimedBy, range_name

#: Notes that matter stand at the beginning: that is when tracing succeeds or fails.
_BEGINNING = 256 << 10
#: What is said of bytes behind the last record.
NO_RECORDS = "bytes at its end are no records"
#: Columns that stand in the record as in the timeline.
_OWN = [n for n in OPERATIONS.names or () if n in COLUMNS and n != "name"]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What the spool of one process holds.

    Attributes
    ----------
    operations
        Ordered by start; those without times are left out.
    process
        Whose spool it is.
    unfinished
        How many operations have no times: the GPU had not done them when the process ended.
    notes
        Sentences on what was not traced.
    visible_devices
        The process's ``CUDA_VISIBLE_DEVICES``; None where it had none. The numbers of devices in
        `operations` are the process's own.
    gpus
        PCI addresses by the process's own numbers of GPUs; empty where it did not tell.
    ranges
        Its NVTX ranges.
    managed, host_copies
        What its managed memory did, and what its copies were passed, where that was asked for.
    python_lines
        Which lines of Python its copies came from, where that was requested.
    cut_short
        Whether the trace ended before the process did: another profiler had CUPTI.
    """

    operations: Operations
    process: Process
    unfinished: int
    notes: tuple[str, ...]
    visible_devices: str | None
    gpus: Mapping[int, str] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=Ranges.empty)
    managed: Managed = field(default_factory=Managed.empty)
    host_copies: HostCopies = field(default_factory=HostCopies.empty)
    python_lines: PythonLines = field(default_factory=PythonLines.empty)
    cut_short: bool = False


def read_trace_spool(path: Path, damage: Damage | None = None) -> Trace:
    """Return all that the spool of a process holds.

    A spool that ends in the middle of a record, because its process was killed, is read up to
    there.

    Parameters
    ----------
    damage
        Collects what is damaged; None: that is an error, but for bytes behind the last record.

    Raises
    ------
    InputError
        If the file is no trace spool or cannot be read.
    """
    content = read_bytes(path, inner=2)
    header, begin = trace_header(path, content)
    records = WholeRecords.found_in(content, begin)
    operations = records.table(RecordKind.OPERATION, OPERATIONS)
    timed = (operations["head"]["flags"] & TIMES_UNKNOWN) == 0
    ends = records.table(RecordKind.END, COUNTS)
    unfinished = int(len(timed) - np.count_nonzero(timed))
    losses = SpoolLosses()
    losses.add(records)
    process = process_of(header, ends["at_ns"].tolist(), losses, unfinished)
    strings = dict(records.texts(RecordKind.STRING))
    calls = outermost(records.table(RecordKind.CALL, CALLS))
    found = operations_of(operations[timed], calls, strings, process.pid)
    if damage is not None:
        damage.lost(path, NO_RECORDS, records.damaged)
    found = only_possible(found, path, damage or Damage(refuses=True))
    return Trace(
        found,
        process,
        unfinished=unfinished,
        notes=tuple(text for _, text in records.texts(RecordKind.NOTE)),
        visible_devices=header.visible_devices,
        gpus=dict(records.texts(RecordKind.GPU)),
        ranges=ranges_of(records.table(RecordKind.RANGE, EDGES), strings, process.pid),
        managed=managed_of(records.table(RecordKind.MANAGED, MANAGED), process.pid),
        host_copies=host_copies_of(records.table(RecordKind.HOST_COPY, HOST_COPIES), process.pid),
        python_lines=python_lines_of(
            records.table(RecordKind.LINE, LINES),
            dict(records.texts(RecordKind.STACK)),
            records.table(RecordKind.LINE_COST, COUNTS),
            process.pid,
        ),
        cut_short=is_cut_short(ends),
    )


def only_possible(found: Operations, path: Path, damage: Damage) -> Operations:
    """Return the operations of a spool that can be, times apart; raises as `Damage.lost`."""
    possible = possible_rows(found)
    if possible.all():
        return found
    damage.lost(path, "operations are none that can be", int(np.count_nonzero(~possible)))
    return found.rows(possible)


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """The first line of a spool."""

    source: str
    version: int
    pid: int
    command: tuple[str, ...]
    start_ns: int
    visible_devices: str | None = None
    timed_by: TimedBy = GPU_CLOCK


@dataclass(slots=True)
class SpoolLosses:
    """Records that are not in a spool: for want of room on the disk, or else."""

    lost: int = 0
    left_out: int = 0
    kernels: int = 0
    calls: int = 0

    def add(self, records: WholeRecords) -> None:
        """Add what some records of a spool say."""
        counts = records.table(RecordKind.LOSS, COUNTS)
        flags = counts["head"]["flags"]

        def of(flag: int) -> int:
            return int(counts["records"][flags & flag != 0].sum())

        self.lost += int(counts["records"].sum()) - of(NO_ROOM)
        self.left_out += of(NO_ROOM)
        self.kernels += of(KERNELS)
        self.calls += of(CALLED)


def process_of(
    header: TraceHeader, ends: list[int], losses: SpoolLosses, unfinished: int
) -> Process:
    """Return whose spool it is.

    Parameters
    ----------
    ends
        When the trace was ended in order, nanoseconds since 1970; empty when it was cut off.
    """
    return Process(
        pid=header.pid,
        command=shlex.join(header.command),
        start_ns=header.start_ns,
        end_ns=ends[-1] if ends else None,
        complete=bool(ends),
        lost_records=losses.lost,
        unfinished=unfinished,
        left_out=losses.left_out,
        left_out_kernels=losses.kernels,
        left_out_calls=losses.calls,
        timed_by=header.timed_by,
    )


def is_cut_short(ends: Table) -> bool:
    """Return whether the end of a trace says that it came before that of its process."""
    return bool(np.any(ends["head"]["flags"] & CUT_SHORT))


def read_notes(path: Path) -> tuple[str, ...]:
    """Return the sentences at a spool's beginning on what was not traced.

    Raises
    ------
    InputError
        If the file is no trace spool or cannot be read.
    """
    with reading(path), open_file(path, inner=2) as file:
        content = file.read(_BEGINNING)
    _, begin = trace_header(path, content)
    return tuple(text for _, text in WholeRecords.found_in(content, begin).texts(RecordKind.NOTE))


def trace_header(path: Path, content: bytes) -> tuple[TraceHeader, int]:
    """Return the first line of a spool, and where its records begin; raises InputError."""
    return header_of(path, content, TraceHeader, 1, "trace")


def outermost(calls: Table) -> Table:
    """Return one call for each number: of a runtime's call and the driver's in it, the first."""
    order = np.lexsort((calls["start_ns"], calls["correlation"]))
    calls = calls[order]
    if len(calls) == 0:
        return calls
    first = np.ones(len(calls), bool)
    first[1:] = calls["correlation"][1:] != calls["correlation"][:-1]
    return calls[first]


def operations_of(rows: Table, calls: Table, strings: Mapping[int, str], pid: int) -> Operations:
    """Return records as operations ordered by start; calls are those of `outermost`."""
    if np.any(rows["start_ns"][1:] < rows["start_ns"][:-1]):
        rows = rows[np.argsort(rows["start_ns"], kind="stable")]
    known, match = _matches(rows["correlation"], calls["correlation"])

    def of_call(column: str, missing: int) -> npt.NDArray[np.int64]:
        found = np.full(len(rows), missing, np.int64)
        found[known] = calls[column][match]
        return found

    names = tuple(dict.fromkeys(("", *strings.values())))
    numbers = {name: number for number, name in enumerate(names)}
    # a kernel has a name of its own, a copy that of its call; one whose record is missing, none
    named = np.where(rows["name"] > 0, rows["name"], of_call("name", 0))
    identities, which = np.unique(named, return_inverse=True)
    codes = np.array([numbers[strings.get(i, "")] for i in identities.tolist()], np.int64)
    own = {column: rows[column] for column in _OWN}
    known_kinds = {
        column: np.where(rows[column] <= max(MemoryKind), rows[column], MemoryKind.UNKNOWN)
        for column in ("source_kind", "destination_kind")  # a newer CUPTI has more of them
    }
    return Operations.of(
        names,
        **own | known_kinds,
        pid=np.full(len(rows), pid, np.int64),
        name=codes[which],
        thread=of_call("thread", UNKNOWN_THREAD),
        call_start_ns=of_call("start_ns", 0),
        call_end_ns=of_call("end_ns", 0),
    )


def managed_of(rows: Table, pid: int) -> Managed:
    """Return what a process's managed memory did."""
    own = {name: rows[name] for name in Managed.columns() if name != "pid"}
    return Managed.of(pid=np.full(len(rows), pid), **own)


def host_copies_of(rows: Table, pid: int) -> HostCopies:
    """Return what a process's copies were passed."""
    own = {name: rows[name] for name in HostCopies.columns() if name not in ("pid", "hashed")}
    hashed = rows["head"]["flags"] & HASH_KNOWN
    return HostCopies.of(pid=np.full(len(rows), pid), hashed=hashed, **own)


def python_lines_of(rows: Table, texts: Mapping[int, str], costs: Table, pid: int) -> PythonLines:
    """Return which lines a process's copies came from.

    Parameters
    ----------
    texts
        Of stacks, by their codes.
    """
    own = {name: rows[name] for name in ("start_ns", "correlation", "stack")}
    spent_ns = int(costs["records"].max()) if len(costs) else 0
    return PythonLines.by_codes(texts, spent_ns, pid=np.full(len(rows), pid), **own)


def _matches(
    wanted: npt.NDArray[np.uint32], there: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return which numbers are there, and the places of those in the ordered `there`."""
    places = np.searchsorted(there, wanted)
    inside = places < len(there)
    known = inside.copy()
    known[inside] = (there[places[inside]] == wanted[inside]) & (wanted[inside] != 0)
    return known, places[known]


def ranges_of(edges: Table, strings: Mapping[int, str], pid: int) -> Ranges:
    """Return the ranges of one process; a pop or an end whose begin was lost is left out.

    Parameters
    ----------
    edges
        Records of the layout `EDGES`, in the order of time on each thread.
    """
    end_ns = np.zeros(len(edges), np.int64)
    stacks: dict[tuple[int, int], list[int]] = {}
    started: dict[int, int] = {}
    columns = (edges[name].tolist() for name in ("kind", "thread", "domain", "id", "at_ns"))
    for row, (kind, thread, domain, identity, at) in enumerate(zip(*columns, strict=True)):
        if kind == PUSH:
            stacks.setdefault((thread, domain), []).append(row)
        elif kind == START:
            started[identity] = row
        elif kind == POP and (stack := stacks.get((thread, domain))):
            end_ns[stack.pop()] = at
        elif kind == END and (begun := started.pop(identity, None)) is not None:
            end_ns[begun] = at
    begins = np.isin(edges["kind"], (PUSH, START))
    rows = edges[begins]
    named, which = np.unique(
        np.stack((rows["domain"], rows["name"]), axis=1), axis=0, return_inverse=True
    )
    names = (range_name(strings.get(d, ""), strings.get(n, "")) for d, n in named.tolist())
    return Ranges.of(
        tuple(names),
        pid=np.full(len(rows), pid),
        thread=rows["thread"],
        start_ns=rows["at_ns"],
        end_ns=end_ns[begins],
        pushed=rows["kind"] == PUSH,
        name=which.reshape(-1),
    )
