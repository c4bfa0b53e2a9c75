"""Rings in which programs record the copies that they call for, read while they run.

The layout is that of native/src/calls/ring_format.hpp. A program never waits for whoever reads its
ring: what is overwritten before it is read is counted as lost.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lanescope._core import native
from lanescope.codec.files import open_file
from lanescope.errors import InputError
from lanescope.trace.codes import IntArray, MemoryKind
from lanescope.trace.spool_records import FIRST_STACK, Table

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
_MAGIC = b"lscalls3"
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
_COUNTED = np.dtype(
    {
        "names": ["thread", "call", "copies", "bytes"],
        "formats": ["<u4", "<u4", "<u8", "<u8"],
        "itemsize": 64,
    }
)
RECORDS = np.dtype(
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
        ("counted", "<u2"),
        ("stack", "<u4"),
        ("counted_bytes", "<u4"),
    ]
)
#: A record that is not whole after so many looks never will be: its thread was ended.
_MOST_LOOKS = 20
#: No program makes more calls, nor copies so much at once.
_MOST_RECORDS, _MOST_BYTES = 1 << 62, 1 << 60
_MOST_DEVICES = 1024
#: Small copies that are counted before one is recorded, and the bytes of each, at most.
MOST_COUNTED, MOST_COUNTED_BYTES = 23, 16 << 10


class RingNotReadyError(Exception):
    """The program is about to make the ring."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Copies that a thread counted and did not record, since the ring was made.

    Attributes
    ----------
    call
        The place of its name in `CALL_NAMES`.
    """

    thread: int
    call: int
    copies: int
    bytes: int


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


class RingCopies(NamedTuple):
    """Records of a ring, each of one copy, and when their calls began and ended.

    Those that were only counted have `COUNTED` in place of how many were before them.
    """

    records: Table
    start_ns: IntArray
    end_ns: IntArray

    def part(self, places: slice) -> RingCopies:
        """Return some of them."""
        return RingCopies(self.records[places], self.start_ns[places], self.end_ns[places])

    def copied(self) -> RingCopies:
        """Return the same, which holds nothing else in memory."""
        return RingCopies(self.records.copy(), self.start_ns.copy(), self.end_ns.copy())


def _has_ended(process: int) -> bool:
    """Whether a process has ended and only its parent has not noticed; False if not known."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
        return state == b"Z" and len(os.listdir(f"/proc/{process}/task")) == 1  # no other threads
    except (OSError, IndexError):
        return False


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
        whole = at + count * RECORDS.itemsize
        if self._map[: len(_MAGIC)] != _MAGIC or not count or len(self._map) < whole:
            raise InputError(f"{path} is no ring of calls; remove it")
        self._records = np.ndarray((count,), RECORDS, self._map, at)
        rows = (_TEXT_AT - _NUMBERS.itemsize) // _COUNTED.itemsize
        self._counted = np.ndarray((rows,), _COUNTED, self._map, _NUMBERS.itemsize)
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
        return self._has_process is False

    @property
    def is_running(self) -> bool:
        """Whether its process is known to be there, and does not only wait for its parent."""
        return bool(self._has_process) and not _has_ended(self.process)

    @property
    def _has_process(self) -> bool | None:
        try:
            if int(self._numbers["pid_namespace"][0]) != os.stat("/proc/self/ns/pid").st_ino:
                return None  # its number is another's here
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's
            return True
        except (OSError, OverflowError):
            return None
        return True

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

    def counted(self) -> Iterator[Counted]:
        """Yield what each thread has only counted, by each call."""
        most = _MOST_RECORDS // len(self._counted)  # their sum is a number of a spool
        for thread, call, copies, counted_bytes in self._counted.tolist():
            if thread and 0 < call <= len(CALL_NAMES) and copies < most:
                yield Counted(thread, call - 1, copies, counted_bytes)

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
            return Taken(np.empty(0, RECORDS), 0)
        end, count = int(self._numbers["next"][0]), len(self._records)
        if not self._done <= end < _MOST_RECORDS:
            return Taken(np.empty(0, RECORDS), 0)
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
    fine &= records["counted"] <= MOST_COUNTED
    fine &= records["counted_bytes"] <= records["counted"] * np.uint32(MOST_COUNTED_BYTES)
    return fine & (records["call"] < len(CALL_NAMES)) & (records["thread"] < 1 << 31)
