"""Spools of the copies that programs record in rings; they have the layout of traces."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lanescope._core import native
from lanescope.codec.files import read_bytes
from lanescope.errors import InputError
from lanescope.trace.call_ring import (
    CALL_NAMES,
    MOST_COUNTED,
    MOST_COUNTED_BYTES,
    RECORDS,
    CallRing,
    Counted,
    RingCopies,
    RingNotReadyError,
    TickClock,
)
from lanescope.trace.codes import IntArray, MemoryKind
from lanescope.trace.spool_records import (
    CALLS,
    COUNTED,
    COUNTS,
    LINES,
    NO_ROOM,
    ONLY_COUNTED,
    OPERATIONS,
    RecordKind,
    Table,
    WholeRecords,
    append_whole,
    count_record,
    cut_spool,
    text_record,
)
from lanescope.trace.watch_folder import held_rings, is_held, remove_rings, rings_in

#: Small copies that are counted lie no further apart, by estimate, and so far where nothing tells.
#: Those that are close begin 33 µs after each other at most; what is further apart than 50 µs is
#: no row of copies to `lanescope.findings.trace.copies`.
_MOST_APART_NS, _APART_NS = 30_000, 5_000
_UNKNOWN = -1
#: Copies whose operations and calls stand behind each other in a spool: a reader looks for calls in
#: the blocks next to their operations, of 8 MiB each.
_PIECE = 1 << 15


def spool_start(ring: CallRing) -> bytes:
    """Return the beginning of the spool of a ring's process."""
    header = {**ring.header, "timed_by": "calls"}
    texts = [(RecordKind.STRING, number, name) for number, name in enumerate(CALL_NAMES, 1)]
    texts += [(RecordKind.GPU, number, address) for number, address in enumerate(ring.gpus)]
    return json.dumps(header).encode() + b"\n" + b"".join(text_record(*text) for text in texts)


class CountedCopies:
    """What threads counted and did not record, put where it probably was.

    Small copies that are close to each other are counted between two records of the same thread
    and call: here they lie evenly there, and have the mean of their bytes.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[int, int], RingCopies] = {}
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def add_spooled(self, operations: Table, calls: Table, rows: Iterable[Counted]) -> None:
        """Take it that these have been reported already, by a spool that is written on."""
        for row in rows:
            own = np.flatnonzero((calls["thread"] == row.thread) & (calls["name"] == row.call + 1))
            counted = own[(calls["head"]["flags"][own] & COUNTED) != 0]
            key = row.thread, row.call
            self._known[key] = (counted.size, int(operations["bytes"][counted].sum()))
            if own.size:
                self._latest[key] = _unspooled(operations[own[-1:]], calls[own[-1:]])

    def forget_others(self, rows: Iterable[Counted]) -> None:
        """Forget threads that have no row: they may come and go for as long as a program runs."""
        counting = {(row.thread, row.call) for row in rows}
        # copies of one record each: a part of a batch holds all of it
        self._latest = {
            key: one if one.records.base is None else one.copied()
            for key, one in self._latest.items()
            if key in counting
        }
        self._known = {key: known for key, known in self._known.items() if key in counting}

    def with_counted(self, found: RingCopies) -> RingCopies:
        """Return copies that were recorded with those that were counted before each."""
        counted = found.records["counted"].astype(np.int64)
        keys = found.records["thread"].astype(np.int64) << 8 | found.records["call"]
        order = np.argsort(keys, kind="stable")
        ends = np.flatnonzero(np.diff(keys[order], append=-1))
        before_ns, ended_ns = (np.empty(counted.size, np.int64) for _ in range(2))
        before_ns[order[1:]] = found.start_ns[order[:-1]]
        ended_ns[order[1:]] = found.end_ns[order[:-1]]
        for begin, end in itertools.pairwise((0, *(ends + 1).tolist())):
            places = order[begin:end]
            key = divmod(int(keys[places[0]]), 1 << 8)
            latest = self._latest.get(key)
            before_ns[places[0]] = _UNKNOWN if latest is None else latest.start_ns[0]
            ended_ns[places[0]] = _UNKNOWN if latest is None else latest.end_ns[0]
            if count := int(counted[places].sum()):
                size = int(found.records["counted_bytes"][places].sum())
                known, known_bytes = self._known.get(key, (0, 0))
                self._known[key] = (known + count, known_bytes + size)
            self._latest[key] = found.part(slice(places[-1], places[-1] + 1))
        room = np.minimum(
            (found.start_ns - before_ns) // (counted + 1),
            (found.start_ns - ended_ns) // np.maximum(counted, 1),  # a call may have waited
        )
        apart = np.where(before_ns == _UNKNOWN, _APART_NS, np.clip(room, 1, _MOST_APART_NS))
        return _repeated(found, counted, apart) if counted.any() else found

    def rest(self, rows: Iterable[Counted]) -> tuple[RingCopies | None, int]:
        """Return those that are in no record, at last, and how many were lost with records."""
        parts, lost = [], 0
        for row in rows:
            key = row.thread, row.call
            known, known_bytes = self._known.get(key, (0, 0))
            count, latest = row.copies - known, self._latest.get(key)
            if count <= 0:
                continue
            if latest is None or count > MOST_COUNTED:
                lost += count
                continue
            one = latest.records.copy()
            size = min(max(row.bytes - known_bytes, 0), count * MOST_COUNTED_BYTES)
            one["counted"], one["counted_bytes"] = count, size
            later = (count + 1) * _APART_NS
            end = RingCopies(one, latest.start_ns + later, latest.end_ns + later)
            after = _repeated(end, np.array([count]), np.array([_APART_NS]))
            parts.append(after.part(slice(-1)))
        return _joined(parts) if parts else None, lost


def _repeated(found: RingCopies, counted: IntArray, apart: IntArray) -> RingCopies:
    """Return each copy behind as many as were counted before it, so far apart."""
    of = np.repeat(np.arange(counted.size), counted + 1)
    number = np.arange(of.size) - np.repeat(np.cumsum(counted + 1) - counted - 1, counted + 1)
    before = counted[of] - number
    records = found.records[of]
    is_counted = before > 0
    total, count = records["counted_bytes"].astype(np.int64), np.maximum(counted[of], 1)
    each = total // count + (number < total % count)
    records["bytes"] = np.where(is_counted, each, records["bytes"])
    records["stack"] = np.where(is_counted, 0, records["stack"])
    records["counted"] = np.where(is_counted, COUNTED, 0)
    start = found.start_ns[of] - before * apart[of]
    lasts = (found.end_ns - found.start_ns)[of]
    end = start + np.where(is_counted, np.minimum(lasts, apart[of]), lasts)
    return RingCopies(records, start, end)


def _joined(parts: Iterable[RingCopies]) -> RingCopies:
    return RingCopies(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def spooled(copies: RingCopies, first: int) -> bytes:
    """Return records of a ring as records of a spool; `first` is of `_spooled`."""
    places = range(0, len(copies.records), _PIECE)
    return b"".join(_spooled(copies.part(slice(at, at + _PIECE)), first + at) for at in places)


def _spooled(copies: RingCopies, first: int) -> bytes:
    """Return records of a ring as records of a spool: operations, calls to them, their lines.

    What the GPU did when is not known. A copy that the call waits for, as it does for pageable
    memory, counts from the call's start to its end; one that it does not, at its start.

    Parameters
    ----------
    first
        Number of the first of them within the process.
    """
    records, start_ns, end_ns = copies
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
    calls["head"]["flags"] = records["counted"]
    calls["start_ns"], calls["end_ns"], calls["correlation"] = start_ns, end_ns, numbers
    calls["thread"], calls["name"] = records["thread"], records["call"].astype(np.uint32) + 1
    return bytes(operations.tobytes() + calls.tobytes() + _spooled_lines(records, calls))


def _unspooled(operations: Table, calls: Table) -> RingCopies:
    """Return what `_spooled` made operations and calls of, but for what was counted before it."""
    records = np.zeros(len(operations), RECORDS)
    for name in ("bytes", "source_kind", "destination_kind", "asynchronous", "stream"):
        records[name] = operations[name]
    for name in ("source_device", "destination_device", "device"):
        records[name] = operations[name]
    records["thread"], records["call"] = calls["thread"], calls["name"] - 1
    return RingCopies(records, calls["start_ns"].copy(), calls["end_ns"].copy())


def _spooled_lines(records: Table, calls: Table) -> bytes:
    """Return what records say of Python's stacks, where those were wanted."""
    wanted = np.flatnonzero(records["stack"])
    lines = np.zeros(len(wanted), LINES)
    lines["head"]["kind"], lines["head"]["size"] = RecordKind.LINE, LINES.itemsize
    for name in ("start_ns", "correlation"):
        lines[name] = calls[name][wanted]
    lines["stack"] = records["stack"][wanted]
    return bytes(lines.tobytes())


@dataclass(frozen=True, slots=True)
class Caveats:
    """What of the copies of processes is in no record of its own.

    Attributes
    ----------
    copies, counted
        How many there are, and how many of these were only counted.
    """

    copies: int = 0
    counted: int = 0
    graph_launches: int = 0

    def __add__(self, other: Caveats) -> Caveats:
        return Caveats(
            self.copies + other.copies,
            self.counted + other.counted,
            self.graph_launches + other.graph_launches,
        )

    def sentences(self) -> Iterator[str]:
        """Yield one for each of them that there is."""
        if self.counted:
            yield (
                f"{self.counted:,} of {self.copies:,} copies were small and so close to each "
                "other that they were only counted: their times are estimates. --trace always "
                "times each."
            )
        if self.graph_launches:
            yield (
                f"{self.graph_launches:,} launches of CUDA graphs: copies in graphs are in no "
                "call and so not recorded; --trace always traces them."
            )


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
        self._counted = CountedCopies()
        self._written = self._left_out = self._lost = 0
        # of these: only counted; and lost according to the spool that is written on
        self._written_counted = self._lost_counted = self._spooled_lost = 0
        #: Whether a copy was large enough for its line of Python to be wanted.
        self.wanted_lines = False
        if path.exists():
            self._written = self._skip_known(read_bytes(path, inner=2))
        else:
            append_whole(self._path, spool_start(ring))

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
        copies = self._counted.with_counted(
            RingCopies(
                taken.records, *(self._times(taken.records[name]) for name in ("start", "end"))
            )
        )
        self._counted.forget_others(self._ring.counted())
        if last:
            copies = self._with_rest(copies)
        content, count = spooled(copies, self._written), len(copies.records)
        counted = int(copies.records["counted"].sum())
        if count and not self._room.has(len(content)):
            self._left_out += count
            content, count, counted = b"", 0, 0
        content = stacks + content
        for lost, flags in ((self._lost, 0), (self._lost_counted, ONLY_COUNTED)):
            if lost:
                content += count_record(RecordKind.LOSS, native.watch_time_ns(), lost, flags)
        if last:
            content += self._end(self._written + count, self._written_counted + counted)
        if not content:
            return
        if append_whole(self._path, content):
            self._written += count
            self._written_counted += counted
            self._lost = self._lost_counted = 0
        else:
            self._lost += count - counted
            self._lost_counted += counted

    def _with_rest(self, copies: RingCopies) -> RingCopies:
        rest, lost = self._counted.rest(self._ring.counted())
        self._lost_counted += max(lost - self._spooled_lost, 0)
        return copies if rest is None else _joined((copies, rest))

    def _times(self, column: npt.NDArray[np.uint64]) -> IntArray:
        if self._ring.has_ticks:
            return self._clock.ns(column)
        return column.astype(np.int64) + native.watch_clock_ahead_ns()

    def _skip_known(self, content: bytes) -> int:
        """Leave out what a spool holds already; return how many records those are."""
        records = WholeRecords.found_in(content, content.find(b"\n") + 1)
        cut_spool(self._path, records.end)  # a kill may have cut off what was being written
        operations = records.table(RecordKind.OPERATION, OPERATIONS)
        calls = records.table(RecordKind.CALL, CALLS)[: len(operations)]
        self._counted.add_spooled(operations, calls, self._ring.counted())
        self._written_counted = int(np.count_nonzero(calls["head"]["flags"] & COUNTED))
        losses = records.table(RecordKind.LOSS, COUNTS)
        of_counted = losses["head"]["flags"] & ONLY_COUNTED != 0
        self._spooled_lost = int(losses["records"][of_counted].sum())
        lost = int(losses["records"][~of_counted].sum())
        self._ring.skip(len(operations) - self._written_counted + lost)
        return len(operations)

    @property
    def caveats(self) -> Caveats:
        """What was not recorded so far, or not each by itself."""
        return Caveats(self._written, self._written_counted, self._ring.graph_launches)

    def _end(self, written: int, counted: int) -> bytes:
        now, content = native.watch_time_ns(), b""
        if self._left_out:
            content += count_record(RecordKind.LOSS, now, self._left_out, NO_ROOM)
        caveats = dataclasses.replace(self.caveats, copies=written, counted=counted)
        for sentence in caveats.sentences():
            content += text_record(RecordKind.NOTE, 0, sentence)
        if self._ring.stack_ns:
            content += count_record(RecordKind.LINE_COST, now, self._ring.stack_ns)
        return content + count_record(RecordKind.END, now, written)


def recover(spools: Path) -> None:
    """Append the rings of a killed watch to its spools; those of programs that run stay."""
    with held_rings(spools) as rings:
        if rings is None or is_held(spools):
            return
        running = []
        for path in rings_in(rings):
            with contextlib.suppress(RingNotReadyError, InputError):
                ring, room = CallRing(path), native.SpoolRoom(str(spools))
                if ring.is_running:  # looked at before: it may copy until then
                    running.append(path)
                if ring.is_used:
                    RingSpool(ring, spool_of(ring, spools), room).read(last=path not in running)
        remove_rings(spools, running)
