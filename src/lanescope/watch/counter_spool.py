"""Counters as their samplers write them: a line of JSON, then records of 16 bytes.

A record says what crossed the link during (end of the record before, its own end]; bytes of
all ones are unknown. Next to a spool lies what its sampler said at the end; where that is not,
the sampler was cut off, and all that it had written counts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.errors import InputError
from lanescope.watch.codes import BoolArray, IntArray
from lanescope.watch.timeline import Counters

__all__ = [
    "RX",
    "TX",
    "counter_header",
    "merge_directions",
    "read_all_counters",
    "read_counters",
    "read_sidecar",
    "sidecar_of",
]

#: Names of the columns: what the GPU received, and what it sent.
RX, TX = "rx_bytes", "tx_bytes"
VERSION = 1

_RECORD = np.dtype([("end_ns", "<u8"), (RX, "<u4"), (TX, "<u4")])
_UNKNOWN = 0xFFFFFFFF
#: How sources are called that know of one direction only: received, sent.
_HALVES = ("-rx", "-tx")


def counter_header(
    source: str, gpu: int, interval_ns: int, columns: Sequence[str] = (RX, TX)
) -> str:
    """Return the first line of a spool; records always hold both columns."""
    told = {"source": source, "version": VERSION, "gpu": gpu, "interval_ns": interval_ns}
    return json.dumps({**told, "columns": list(columns)}) + "\n"


def sidecar_of(spool: Path) -> Path:
    """Return where a sampler writes what it says at the end, such as ``pm.g0.bin.json``."""
    return spool.with_name(spool.name + ".json")


def read_counters(path: Path) -> Counters:
    """Read a spool of counters, whole or cut off.

    A column that the spool does not have is 0: `merge_directions` brings two such together.

    Raises
    ------
    InputError
        If there is no such file, or it is not a spool of this version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    header, begin = _header(path, content)
    records = np.frombuffer(
        content, _RECORD, count=(len(content) - begin) // _RECORD.itemsize, offset=begin
    )
    known = np.ones(records.size, np.bool_)
    for column in header["columns"]:
        known &= records[column] != _UNKNOWN
    said = read_sidecar(path)
    return Counters(
        source=header["source"],
        gpu=header["gpu"],
        interval_ns=header["interval_ns"],
        end_ns=records["end_ns"].astype(np.int64),
        rx_bytes=_column(records, RX, known),
        tx_bytes=_column(records, TX, known),
        known=known,
        lost_samples=int(said.get("lost_samples", 0)),
        cpu_seconds=said.get("cpu_seconds"),
    )


def read_all_counters(folder: Path) -> tuple[Counters, ...]:
    """Read every spool of counters in a folder, by GPU and source.

    One whose first line is cut off, as nothing had been watched yet, is left out; the two
    halves of a source that has a spool for each direction are brought together.
    """
    found = []
    for path in sorted(folder.glob("*.g*.bin")):
        with contextlib.suppress(InputError):
            found.append(read_counters(path))
    whole = [c for c in found if not c.source.endswith(_HALVES)]
    halves = {(c.source, c.gpu): c for c in found if c.source.endswith(_HALVES)}
    for source, gpu in sorted(halves):
        name = source.removesuffix(_HALVES[0])
        other = halves.get((name + _HALVES[1], gpu))
        if name != source and other is not None:
            whole.append(merge_directions(halves[source, gpu], other, name))
    return tuple(sorted(whole, key=lambda c: (c.gpu, c.source)))


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
    )


def _header(path: Path, content: bytes) -> tuple[dict[str, Any], int]:
    line, newline, _ = content.partition(b"\n")
    try:
        header = json.loads(line) if newline else None
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("version") != VERSION:
        raise InputError(f"{path} is not a spool of counters of version {VERSION}")
    if not {"source", "gpu", "interval_ns", "columns"} <= header.keys():
        raise InputError(f"{path} is not a spool of counters: its first line lacks a key")
    return header, len(line) + 1


def read_sidecar(path: Path) -> dict[str, Any]:
    """Return what the sampler of a spool said at its end; nothing when it was cut off."""
    try:
        said = json.loads(sidecar_of(path).read_text())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _column(records: np.ndarray[Any, Any], name: str, known: BoolArray) -> IntArray:
    values: IntArray = records[name].astype(np.int64)
    return np.where(known & (values != _UNKNOWN), values, 0)


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
