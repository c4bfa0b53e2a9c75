"""Counters as their samplers write them: a line of JSON, then records of 16 bytes.

The line names the link if that is not PCIe. A record says what crossed the link during (end of
the record before, its own end]; bytes of all ones are unknown, and the highest bit of the time
says that the sampler itself used the link meanwhile. Next to a spool lies what its sampler said
at the end; where that is not, the sampler was cut off, and all that it had written counts. Spools
are read at once, or piece by piece from their beginning to their end, also while they grow.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from lanescope._core import native
from lanescope.codec.fields import Bound, PositiveInt, from_attributes
from lanescope.codec.files import open_file, reading
from lanescope.trace.codes import LATEST_NS, BoolArray, IntArray
from lanescope.trace.spool_records import LONGEST_HEADER, Damage, Said, header_of, read_sidecar
from lanescope.trace.stored_columns import MOST_IN_MEMORY, SpoolRecords, in_memory, with_stored
from lanescope.trace.timeline import LINKS, PCIE, CountedLink, Counters

#: Names of the columns: what the GPU received, and what it sent.
RX, TX = "rx_bytes", "tx_bytes"
CounterColumn = Annotated[str, Bound(f"{RX} or {TX}", lambda value: value in (RX, TX))]
VERSION = 1

#: How a record lies in a spool.
RECORD = np.dtype([("end_ns", "<u8"), (RX, "<u4"), (TX, "<u4")])
RecordArray = np.ndarray[Any, np.dtype[np.void]]
#: For an interval with more digits than the first one has.
_BLANKS = " " * 8
#: How sources are called that know of one direction only: received, sent.
HALVES = ("-rx", "-tx")
#: Records that are read at once: 1 MiB.
_MOST_RECORDS = 1 << 16
#: Of a direction whose other half does not come so many records are kept: 20 s of throughput.
_MOST_PENDING = 1000


@dataclass(frozen=True, slots=True)
class CounterHeader:
    """The first line of a spool; see `counter_header`."""

    source: str
    version: int
    gpu: int
    interval_ns: PositiveInt
    columns: tuple[CounterColumn, ...]
    link: CountedLink = PCIE
    own: bool = False


def counter_header(
    source: str,
    gpu: int,
    interval_ns: int,
    columns: Sequence[str] = (RX, TX),
    link: str = PCIE,
    *,
    own: bool = False,
    may_lengthen: bool = False,
) -> str:
    """Return the first line of a spool; records always hold both columns.

    Parameters
    ----------
    own
        Whether the records say when the sampler itself used the link.
    may_lengthen
        Whether the sampler may lengthen the interval, and then writes this line anew in its place
        (native/src/watch/counter_spool.cpp).
    """
    header: dict[str, Any] = {
        "source": source,
        "version": VERSION,
        "gpu": gpu,
        "interval_ns": interval_ns,
    }
    header |= {} if link == PCIE else {"link": link}
    header |= {"own": True} if own else {}
    line = json.dumps({**header, "columns": list(columns)})
    return line + (_BLANKS if may_lengthen else "") + "\n"


def read_counters(path: Path) -> Counters:
    """Read a spool of counters, whole or cut off.

    Long ones are read as they are used, see `lanescope.trace.stored_columns`. A column that the
    spool does not have is 0: `merge_directions` brings two such together.

    Raises
    ------
    InputError
        If there is no such file, or it is not a spool of this version.
    """
    with reading(path), open_file(path, inner=2) as file:
        content = file.read(LONGEST_HEADER)
        header, begin = header_of(path, content, CounterHeader, VERSION)
        count = (os.fstat(file.fileno()).st_size - begin) // RECORD.itemsize
        file.seek(begin)
        short = count <= MOST_IN_MEMORY
        records: RecordArray = np.fromfile(file, RECORD, count if short else 0)
    found = counters_of(header, records, read_sidecar(path))
    if short:
        return found
    stored = SpoolRecords(path, RECORD, begin, lambda part: counters_of(header, part))
    return with_stored(found, stored, 0, count)


def counters_in(path: Path) -> Counters:
    """Return what a spool holds whose beginning may have been released.

    Raises
    ------
    InputError, OSError
        As `read_counters`.
    """
    with open_file(path, inner=2) as file:
        header, begin = header_of(path, file.read(LONGEST_HEADER), CounterHeader, VERSION)
        size = RECORD.itemsize
        if begin + size > os.fstat(file.fileno()).st_size:
            return counters_of(header, np.empty(0, RECORD))
        data = os.lseek(file.fileno(), begin, os.SEEK_DATA)
        file.seek(begin + -(-(data - begin) // size) * size)
        records: RecordArray = np.fromfile(file, RECORD)
    written = records["end_ns"] != 0  # zeros are what was released of a block
    return counters_of(header, records[written])


def counters_of(header: CounterHeader, records: RecordArray, said: Said | None = None) -> Counters:
    """Return records of a spool as counters.

    Parameters
    ----------
    header
        The first line of the spool.
    said
        What its sampler said at the end; None when it has said nothing.

    Returns
    -------
    Counters
        A time that cannot be is 0, which `Span.counters` leaves out.
    """
    said = said or Said()
    pairs = np.ascontiguousarray(records).view(np.uint64).reshape(-1, 2)
    rx, tx = RX in header.columns, TX in header.columns
    end_ns, rx_bytes, tx_bytes, known, own = native.take_apart(pairs, rx, tx, LATEST_NS)
    return from_attributes(
        Counters,
        *(header, said),
        end_ns=end_ns,
        rx_bytes=rx_bytes,
        tx_bytes=tx_bytes,
        known=known,
        own=own if header.own else None,
    )


def read_all_counters(folder: Path, damage: Damage | None = None) -> tuple[Counters, ...]:
    """Read every spool of counters in a folder, by GPU, source and link.

    One whose first line is cut off, as nothing had been watched yet, is left out; the two
    halves of a source that has a spool for each direction are brought together.

    Parameters
    ----------
    damage
        What to do where one cannot be read; None: it is an error.
    """
    damage = damage or Damage(refuses=True)
    found = []
    for path in sorted(folder.glob("*.g*.bin")):
        if path.name.startswith("probe."):
            continue  # see probe.py
        with damage.leaving_out(path):
            found.append(read_counters(path))
    whole = with_both_directions(found)
    return tuple(sorted(whole, key=lambda c: (c.gpu, c.source, LINKS.index(c.link))))


def with_both_directions(found: Sequence[Counters]) -> list[Counters]:
    """Return counters, of which those that know one direction alone are brought together."""
    whole = [c for c in found if not c.source.endswith(HALVES)]
    # of 50 records a second: ten hours of a GPU take 90 MB
    halves = {(c.source, c.gpu): in_memory(c) for c in found if c.source.endswith(HALVES)}
    for source, gpu in sorted(halves):
        name = source.removesuffix(HALVES[0])
        other = halves.get((name + HALVES[1], gpu))
        if name != source and other is not None:
            whole.append(merge_directions(halves[source, gpu], other, name))
    return whole


def merge_directions(rx: Counters, tx: Counters, source: str) -> Counters:
    """Bring together what one spool knows of one direction, and another of the other.

    Their records end at different times. Those of the result end wherever one of both does,
    and the bytes of a record are spread evenly over it; no byte is lost or made up.
    """
    ends = np.union1d(rx.end_ns, tx.end_ns)
    # before both have begun, and after one has ended, only half is known: left out
    if len(rx) and len(tx):
        first, last = max(rx.end_ns[0], tx.end_ns[0]), min(rx.end_ns[-1], tx.end_ns[-1])
        ends = ends[(ends >= first) & (ends <= last)]
    else:
        ends = ends[:0]
    known = _known_at(rx, ends) & _known_at(tx, ends)
    known[:1] = False
    seconds = [c.cpu_seconds for c in (rx, tx) if c.cpu_seconds is not None]
    return Counters(
        source=source,
        gpu=rx.gpu,
        interval_ns=max(rx.interval_ns, tx.interval_ns),
        end_ns=ends,
        rx_bytes=np.where(known, _spread(rx, rx.rx_bytes, ends), 0),
        tx_bytes=np.where(known, _spread(tx, tx.tx_bytes, ends), 0),
        known=known,
        lost_samples=rx.lost_samples + tx.lost_samples,
        cpu_seconds=sum(seconds) if seconds else None,
        link=rx.link,
    )


def _known_at(counters: Counters, ends: IntArray) -> BoolArray:
    """Whether the record is known that each of `ends` lies in."""
    holder = np.searchsorted(counters.end_ns, ends, side="left")
    found: BoolArray = counters.known[np.minimum(holder, max(len(counters) - 1, 0))]
    return found.copy()


def _spread(counters: Counters, column: IntArray, ends: IntArray) -> IntArray:
    """Return the bytes between each of `ends` and the one before; the first has none."""
    if ends.size == 0:
        return ends
    base = counters.end_ns[0]  # doubles hold what has passed since, not today's time
    total = np.interp(ends - base, counters.end_ns - base, np.cumsum(column))
    passed = np.rint(total).astype(np.int64)
    spread: IntArray = np.diff(passed, prepend=passed[:1])
    return spread


class Tail(Protocol):
    """Something that yields what has come since the last look."""

    def read(self) -> Iterator[Counters]:
        """Yield the records since the last look, some at a time; those of a look follow on."""


class SpoolTail:
    """Reads a spool that grows.

    What is there in part only, its first line or its last record, is left for the next look.

    Parameters
    ----------
    most_records
        How many are in memory at once.
    """

    def __init__(self, path: Path, most_records: int = _MOST_RECORDS) -> None:
        self._path = path
        self._most_bytes = most_records * RECORD.itemsize
        self._header: CounterHeader | None = None
        self._line = b""
        self._offset = 0

    @property
    def done(self) -> tuple[Path, int]:
        """The spool, and up to which byte it has been read."""
        return self._path, self._offset

    def read(self) -> Iterator[Counters]:
        """Yield the records since the last look, some at a time.

        Raises
        ------
        InputError
            If it is no spool of counters of this version.
        OSError
            If it cannot be read.
        """
        with open_file(self._path, inner=2) as file:
            begin = file.read(LONGEST_HEADER)
            if b"\n" not in begin and len(begin) < LONGEST_HEADER:
                return
            header = self._header_of(begin)
            while True:
                file.seek(self._offset)  # behind a record that was there in part
                content = file.read(self._most_bytes)
                count = len(content) // RECORD.itemsize
                if not count:
                    return
                self._offset += count * RECORD.itemsize
                records = np.frombuffer(content, RECORD, count=count)
                yield counters_of(header, records)

    def _header_of(self, begin: bytes) -> CounterHeader:
        """Return the first line, which a sampler may write anew: see `counter_header`."""
        line = begin.partition(b"\n")[0]
        if self._header is not None and line == self._line:
            return self._header
        header, offset = header_of(self._path, begin, CounterHeader, VERSION)
        self._header, self._line, self._offset = header, line, max(self._offset, offset)
        return header


class DuplexTail:
    """Reads two spools that grow, of which each knows one direction, as one.

    Parameters
    ----------
    source
        The name of both together.
    """

    def __init__(self, rx: Tail, tx: Tail, source: str) -> None:
        self._tails = (rx, tx)
        self._source = source
        self._pending: list[Counters | None] = [None, None]

    def read(self) -> Iterator[Counters]:
        """Yield what both know since the last look; raises as `SpoolTail.read` does."""
        for side, tail in enumerate(self._tails):
            for more in tail.read():
                self._pending[side] = _joined(self._pending[side], more)
        rx, tx = self._pending
        if rx is None or tx is None:
            return
        both = merge_directions(rx, tx, self._source)
        if len(both) < 2:
            return
        self._pending = [behind(rx, both.end_ns[-1]), behind(tx, both.end_ns[-1])]
        yield both


def _joined(one: Counters | None, more: Counters) -> Counters:
    """Two pieces of a spool as one; the oldest records of very many are left out."""
    if one is None:
        return more
    columns: dict[str, IntArray] = {
        name: np.concatenate((getattr(one, name), getattr(more, name)))[-_MOST_PENDING:]
        for name in ("end_ns", "rx_bytes", "tx_bytes", "known")
    }
    return dataclasses.replace(one, **columns)  # type: ignore[arg-type]


def behind(one: Counters, end_ns: int) -> Counters:
    """Return the records after a time, from the last one before it on, of which nothing is known.

    That is how each piece begins that goes on from another.
    """
    first = max(int(np.searchsorted(one.end_ns, end_ns, "right")) - 1, 0)
    return one.rows(slice(first, None))
