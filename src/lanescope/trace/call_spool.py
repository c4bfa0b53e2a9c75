"""Copies that programs record as they call for them: rings in memory, and the spools of these.

The layout of a ring is that of native/src/calls/ring_format.hpp. A program never waits for whoever
reads its ring: what is overwritten before it is read is counted as lost. Spools have the layout of
traces.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lanescope._core import native
from lanescope.codec.files import open_file, opened_folder, read_bytes
from lanescope.errors import InputError
from lanescope.trace.codes import IntArray, MemoryKind
from lanescope.trace.spool_records import (
    CALLS,
    COUNTS,
    FIRST_STACK,
    HEAD,
    LINES,
    NO_ROOM,
    OPERATIONS,
    RecordKind,
    Table,
    WholeRecords,
)
from lanescope.trace.watch_folder import is_held, remove_rings, rings_in, rings_of

#: The calls by their numbers in records; those of a spool's strings are one higher.
CALL_NAMES = (
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoH",
    "cuMemcpyDtoHAsync",
    "cuMemcpyDtoD",
    "cuMemcpyDtoDAsync",
    "cuMemcpy",
    "cuMemcpyAsync",
    "cuMemcpyPeer",
    "cuMemcpyPeerAsync",
    "cuMemcpy2D",
    "cuMemcpy2DUnaligned",
    "cuMemcpy2DAsync",
    "cuMemcpy3D",
    "cuMemcpy3DAsync",
    "cuMemcpyBatchAsync",
)
_MAGIC = b"lscalls2"
_NUMBERS = np.dtype(
    [
        ("magic", "S8"),
        ("records_at", "<u8"),
        ("records", "<u8"),
        ("has_ticks", "<u8"),
        ("text_bytes", "<u8"),
        ("graph_launches", "<u8"),
        ("start_ticks", "<u8"),
        ("start_ns", "<i8"),
        ("next", "<u8"),
        ("process", "<u8"),
        ("pid_namespace", "<u8"),
        ("stacks_at", "<u8"),
        ("stacks", "<u8"),
        ("stack_text_bytes", "<u8"),
        ("stack_text_next", "<u8"),
        ("stack_ns", "<u8"),
    ]
)
_STACKS = np.dtype([("key", "<u8"), ("bytes", "<u4"), ("text", "<u4")])
_TEXT_AT = 4096
_RECORDS = np.dtype(
    [
        ("sequence", "<u8"),
        ("start", "<u8"),
        ("end", "<u8"),
        ("bytes", "<i8"),
        ("stream", "<u8"),
        ("thread", "<u4"),
        ("call", "u1"),
        ("source_kind", "u1"),
        ("destination_kind", "u1"),
        ("asynchronous", "u1"),
        ("source_device", "<i2"),
        ("destination_device", "<i2"),
        ("device", "<i2"),
        ("reserved", "<i2"),
        ("stack", "<u4"),
        ("reserved_too", "<u4"),
    ]
)
#: A record that is not whole after so many looks never will be: its thread was ended.
_MOST_LOOKS = 20
#: No program makes more calls, nor copies so much at once.
_MOST_RECORDS, _MOST_BYTES = 1 << 62, 1 << 60
_MOST_DEVICES = 1024


class RingNotReadyError(Exception):
    """The program is about to make the ring."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken from a ring.

    Attributes
    ----------
    records
        In the order of the calls' ends.
    lost
        How many were overwritten before, or never became whole.
    """

    records: Table
    lost: int


class CallRing:
    """The ring of one process.

    Parameters
    ----------
    path
        Its file, which stays mapped: it may be removed.

    Raises
    ------
    RingNotReadyError
        If the program has not written its beginning yet.
    InputError
        If the file is no ring or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            with open_file(path, inner=1) as file:
                if os.fstat(file.fileno()).st_size < _TEXT_AT:
                    raise RingNotReadyError
                self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        self._numbers = np.ndarray((1,), _NUMBERS, self._map)
        if not int(self._numbers["text_bytes"][0]):
            raise RingNotReadyError
        at, count = (int(self._numbers[name][0]) for name in ("records_at", "records"))
        whole = at + count * _RECORDS.itemsize
        if self._map[: len(_MAGIC)] != _MAGIC or not count or len(self._map) < whole:
            raise InputError(f"{path} is no ring of calls; remove it")
        self._records = np.ndarray((count,), _RECORDS, self._map, at)
        self._whole = whole
        text = self._map[_TEXT_AT : _TEXT_AT + int(self._numbers["text_bytes"][0])]
        first, _, addresses = text.partition(b"\n")
        self.header = _header_of(path, first)
        self.gpus = tuple(addresses.decode("ascii", "replace").split("\n")[:-1])
        self._stacks = StackTable.of(self._map, self._numbers)
        self._done = 0
        self._waited = (-1, 0)

    @property
    def is_orphaned(self) -> bool:
        """Whether its process is known to be no longer there."""
        try:
            if int(self._numbers["pid_namespace"][0]) != os.stat("/proc/self/ns/pid").st_ino:
                return False  # its number is another's here
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False
        return False

    @property
    def process(self) -> int:
        """The process's number, in its own namespace."""
        return int(self._numbers["process"][0])

    @property
    def graph_launches(self) -> int:
        """How many graphs were launched: what those copy is in no record."""
        return int(self._numbers["graph_launches"][0])

    @property
    def stack_ns(self) -> int:
        """Nanoseconds that reading Python's frames took in the program."""
        return min(int(self._numbers["stack_ns"][0]), _MOST_RECORDS)

    def new_stacks(self) -> list[tuple[int, str]]:
        """Return the numbers and texts of Python's stacks that are there since the last time."""
        whole = self._stacks is not None and self._map.size() >= self._stacks.end
        return self._stacks.new() if whole and self._stacks is not None else []

    @property
    def is_used(self) -> bool:
        """Whether its process has copied anything: rings are made when CUDA begins."""
        return bool(int(self._numbers["next"][0]) or self.graph_launches)

    def start(self) -> tuple[int, int]:
        """Return the processor's counter and CLOCK_MONOTONIC (ns) when the ring was made."""
        return int(self._numbers["start_ticks"][0]), int(self._numbers["start_ns"][0])

    @property
    def has_ticks(self) -> bool:
        """Whether times are of the processor's counter; else of CLOCK_MONOTONIC, in ns."""
        return bool(self._numbers["has_ticks"][0])

    def skip(self, records: int) -> None:
        """Take no records before the one of this number."""
        self._done = records

    def _waits_for(self, number: int) -> bool:
        """Whether a record that is not whole is waited for; it is for some looks."""
        before, looks = self._waited
        self._waited = (number, looks + 1 if number == before else 1)
        return self._waited[1] <= _MOST_LOOKS

    def take(self, *, last: bool = False) -> Taken:
        """Return what was recorded since the last time.

        Parameters
        ----------
        last
            Whether the program is no longer there, so that nothing is waited for.
        """
        # what is no longer in the file cannot be read, and would end this process
        if self._map.size() < self._whole:
            return Taken(np.empty(0, _RECORDS), 0)
        end, count = int(self._numbers["next"][0]), len(self._records)
        if not self._done <= end < _MOST_RECORDS:
            return Taken(np.empty(0, _RECORDS), 0)
        begin = max(self._done, end - count)
        lost = begin - self._done
        places = np.arange(begin, end) % count
        records = self._records[places]
        wanted = np.arange(begin + 1, end + 1, dtype=np.uint64)
        now = self._records["sequence"][places]  # a record may be overwritten while it is read
        waiting = np.flatnonzero(now < wanted)
        if waiting.size and not last and self._waits_for(begin + int(waiting[0])):
            end = begin + int(waiting[0])
            records, wanted, now = (part[: end - begin] for part in (records, wanted, now))
        whole = (records["sequence"] == wanted) & (now == wanted) & _are_possible(records)
        self._done = end
        return Taken(records[whole], lost + int(np.count_nonzero(~whole)))


class StackTable:
    """The stacks of Python in a ring, which are written once each.

    Parameters
    ----------
    content
        The ring's file.
    at, count, text_bytes
        Where the table begins, how many stacks have room in it, and bytes of texts behind it.
    """

    def __init__(self, content: mmap.mmap, at: int, count: int, text_bytes: int) -> None:
        self._content = content
        self._table = np.ndarray((count,), _STACKS, content, at)
        self._texts_at = at + self._table.nbytes
        self.end = self._texts_at + text_bytes
        self._known = np.zeros(count, np.bool_)

    @staticmethod
    def of(content: mmap.mmap, numbers: Table) -> StackTable | None:
        """Return the table that a ring's numbers describe; None where it has none."""
        names = ("stacks_at", "stacks", "stack_text_bytes")
        at, count, text_bytes = (int(numbers[name][0]) for name in names)
        if not at or at + count * _STACKS.itemsize + text_bytes > len(content):
            return None
        return StackTable(content, at, count, text_bytes)

    def new(self) -> list[tuple[int, str]]:
        """Return numbers and texts that are there since the last time."""
        found = []
        for number in np.flatnonzero((self._table["text"] > 0) & ~self._known).tolist():
            begin = self._texts_at + int(self._table["text"][number]) - 1
            end = begin + int(self._table["bytes"][number])
            if end <= self.end:
                text = self._content[begin:end].decode("utf-8", "replace")
                found.append((number + FIRST_STACK, text))
            self._known[number] = True
        return found


def _header_of(path: Path, line: bytes) -> dict[str, Any]:
    """Return the first line of a process's spool; raises InputError if it is none."""
    try:
        found = json.loads(line)
        if not isinstance(found, dict) or not isinstance(found.get("command"), list):
            raise ValueError
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no ring of calls; remove it") from error
    return found


def _are_possible(records: Table) -> npt.NDArray[np.bool_]:
    """Return which records can be: a program can write anything into its own ring."""
    fine: npt.NDArray[np.bool_] = (records["bytes"] >= 0) & (records["bytes"] < _MOST_BYTES)
    for name in ("source_kind", "destination_kind"):
        fine &= records[name] <= max(MemoryKind)
    for name in ("source_device", "destination_device", "device"):
        fine &= (records[name] >= -1) & (records[name] < _MOST_DEVICES)
    return fine & (records["call"] < len(CALL_NAMES)) & (records["thread"] < 1 << 31)


class TickClock:
    """From the processor's counter to nanoseconds since 1970 by the clock of watches.

    Parameters
    ----------
    start
        The counter and CLOCK_MONOTONIC (ns) at one time.
    """

    def __init__(self, start: tuple[int, int]) -> None:
        self._start = self._latest = start
        self._ns_per_tick = 1.0

    def update(self) -> None:
        """Compare both clocks again; the longer ago the start, the better."""
        self._latest = native.watch_ticks()
        ticks = self._latest[0] - self._start[0]
        if ticks > 0:
            self._ns_per_tick = (self._latest[1] - self._start[1]) / ticks

    def ns(self, ticks: npt.NDArray[np.uint64]) -> IntArray:
        """Return when the counter was so far."""
        before = ticks.astype(np.int64) - self._latest[0]
        steady = self._latest[1] + np.round(before * self._ns_per_tick).astype(np.int64)
        return steady + native.watch_clock_ahead_ns()


def spool_start(ring: CallRing) -> bytes:
    """Return the beginning of the spool of a ring's process."""
    header = {**ring.header, "timed_by": "calls"}
    texts = [(RecordKind.STRING, number, name) for number, name in enumerate(CALL_NAMES, 1)]
    texts += [(RecordKind.GPU, number, address) for number, address in enumerate(ring.gpus)]
    return json.dumps(header).encode() + b"\n" + b"".join(text_record(*text) for text in texts)


def text_record(kind: RecordKind, number: int, text: str) -> bytes:
    """Return a string, a note (number 0) or a GPU's address as a record of a spool."""
    content = text.encode()
    padded = content + bytes(-len(content) % 8)
    head = np.array((kind, 0, HEAD.itemsize + 8 + len(padded)), HEAD)
    numbers = np.array((number, len(content)), "<u4,<u4")
    return head.tobytes() + numbers.tobytes() + padded


def count_record(kind: RecordKind, at_ns: int, records: int, flags: int = 0) -> bytes:
    """Return a loss, or the end, as a record of a spool."""
    return np.array(((kind, flags, COUNTS.itemsize), at_ns, records), COUNTS).tobytes()


def spooled(records: Table, first: int, start_ns: IntArray, end_ns: IntArray) -> bytes:
    """Return records of a ring as records of a spool: operations, calls to them, their lines.

    What the GPU did when is not known. A copy that the call waits for, as it does for pageable
    memory, counts from the call's start to its end; one that it does not, at its start.

    Parameters
    ----------
    first
        Number of the first of them within the process.
    """
    count = len(records)
    numbers = (np.arange(first + 1, first + 1 + count) & 0xFFFFFFFF).astype(np.uint32)
    operations, calls = np.zeros(count, OPERATIONS), np.zeros(count, CALLS)
    operations["head"]["kind"], operations["head"]["size"] = (
        RecordKind.OPERATION,
        OPERATIONS.itemsize,
    )
    pageable = (records["source_kind"] == MemoryKind.PAGEABLE) | (
        records["destination_kind"] == MemoryKind.PAGEABLE
    )
    waits = pageable | (records["asynchronous"] == 0)
    operations["start_ns"], operations["end_ns"] = start_ns, np.where(waits, end_ns, start_ns)
    for name in ("bytes", "source_kind", "destination_kind", "asynchronous"):
        operations[name] = records[name]
    for name in ("source_device", "destination_device", "device"):
        operations[name] = records[name]
    operations["context"] = records["device"] + 1
    operations["stream"] = records["stream"] & 0xFFFFFFFF
    operations["correlation"] = numbers
    calls["head"]["kind"], calls["head"]["size"] = RecordKind.CALL, CALLS.itemsize
    calls["start_ns"], calls["end_ns"], calls["correlation"] = start_ns, end_ns, numbers
    calls["thread"], calls["name"] = records["thread"], records["call"].astype(np.uint32) + 1
    return bytes(operations.tobytes() + calls.tobytes() + _spooled_lines(records, calls))


def _spooled_lines(records: Table, calls: Table) -> bytes:
    """Return what records say of Python's stacks, where those were wanted."""
    wanted = np.flatnonzero(records["stack"])
    lines = np.zeros(len(wanted), LINES)
    lines["head"]["kind"], lines["head"]["size"] = RecordKind.LINE, LINES.itemsize
    for name in ("start_ns", "correlation"):
        lines[name] = calls[name][wanted]
    lines["stack"] = records["stack"][wanted]
    return bytes(lines.tobytes())


def spool_of(ring: CallRing, spools: Path) -> Path:
    """Return where the copies of a ring go: a process's number is another's later."""
    return spools / f"trace.{ring.process}.{ring.start()[1]}.calls.bin"


class RingSpool:
    """The spool of one process's ring.

    Parameters
    ----------
    path
        Of the spool; what it holds already stays, and is not read from the ring again.
    """

    def __init__(self, ring: CallRing, path: Path, room: native.SpoolRoom) -> None:
        self._ring, self._path, self._room = ring, path, room
        self._clock = TickClock(ring.start())
        self._written = self._left_out = self._lost = 0
        #: Whether a copy was large enough for its line of Python to be wanted.
        self.wanted_lines = False
        if path.exists():
            self._written = self._skip_known(read_bytes(path, inner=2))
        else:
            self._append(spool_start(ring))

    @property
    def is_orphaned(self) -> bool:
        """Whether the process is known to be no longer there."""
        return self._ring.is_orphaned

    def read(self, *, last: bool = False) -> None:
        """Append what was recorded since the last time; at last also the end."""
        self._clock.update()
        taken = self._ring.take(last=last)
        self._lost += taken.lost
        self.wanted_lines |= bool(taken.records["stack"].any())
        stacks = b"".join(
            text_record(RecordKind.STACK, number, text) for number, text in self._ring.new_stacks()
        )
        start, end = (self._times(taken.records[name]) for name in ("start", "end"))
        content, count = spooled(taken.records, self._written, start, end), len(taken.records)
        if count and not self._room.has(len(content)):
            self._left_out += count
            content, count = b"", 0
        content = stacks + content
        if self._lost:
            content += count_record(RecordKind.LOSS, native.watch_time_ns(), self._lost)
        if last:
            content += self._end(self._written + count)
        if not content:
            return
        if self._append(content):
            self._written, self._lost = self._written + count, 0
        else:
            self._lost += count

    def _times(self, column: npt.NDArray[np.uint64]) -> IntArray:
        if self._ring.has_ticks:
            return self._clock.ns(column)
        return column.astype(np.int64) + native.watch_clock_ahead_ns()

    def _skip_known(self, content: bytes) -> int:
        """Leave out what a spool holds already; return how many records those are."""
        records = WholeRecords.found_in(content, content.find(b"\n") + 1)
        written = len(records.table(RecordKind.OPERATION, OPERATIONS))
        self._ring.skip(written + int(records.table(RecordKind.LOSS, COUNTS)["records"].sum()))
        return written

    def _end(self, written: int) -> bytes:
        now, content = native.watch_time_ns(), b""
        if self._left_out:
            content += count_record(RecordKind.LOSS, now, self._left_out, NO_ROOM)
        if launches := self._ring.graph_launches:
            content += text_record(
                RecordKind.NOTE,
                0,
                f"{launches} launches of CUDA graphs: copies in graphs are in no call and so not "
                "recorded; --trace always traces them.",
            )
        if self._ring.stack_ns:
            content += count_record(RecordKind.LINE_COST, now, self._ring.stack_ns)
        return content + count_record(RecordKind.END, now, written)

    def _append(self, content: bytes) -> bool:
        """Append all of it or nothing; return whether that worked."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with opened_folder(self._path.parent, inner=1) as folder:
                descriptor = os.open(self._path.name, flags, 0o644, dir_fd=folder)
            with open(descriptor, "ab", buffering=0) as file:
                before = os.fstat(descriptor).st_size
                if file.write(content) == len(content):
                    return True
                file.truncate(before)  # no half a record in the middle
        except (OSError, InputError):
            pass
        return False


def recover(spools: Path) -> None:
    """Append what rings still hold to the spools of a watch that was killed, and remove the rings.

    Raises
    ------
    InputError
        If a spool cannot be read.
    """
    if (rings := rings_of(spools)) is None or is_held(spools):
        return
    for path in rings_in(rings):
        with contextlib.suppress(RingNotReadyError, InputError):
            ring = CallRing(path)
            room = native.SpoolRoom(str(spools))
            if ring.is_used:
                RingSpool(ring, spool_of(ring, spools), room).read(last=True)
    remove_rings(spools)
