"""Spools of counters from their beginning to their end, piece by piece, also while they grow."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from lanescope.codec.files import open_file
from lanescope.trace.codes import IntArray
from lanescope.trace.counter_spool import RECORD, VERSION, CounterHeader, counters_of
from lanescope.trace.spool_header import LONGEST_HEADER, header_of, merge_directions
from lanescope.trace.timeline import Counters

#: Records that are read at once: 1 MiB.
_MOST_RECORDS = 1 << 16
#: Of a direction whose other half does not come so many records are kept: 20 s of throughput.
_MOST_PENDING = 1000


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


class HalvesTail:
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
        self._pending = [_since(rx, both.end_ns[-1]), _since(tx, both.end_ns[-1])]
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


def _since(one: Counters, end_ns: int) -> Counters:
    """Return the records after a time, and the one before them, where the next piece begins."""
    first = max(int(np.searchsorted(one.end_ns, end_ns, "right")) - 1, 0)
    return one.rows(slice(first, None))
