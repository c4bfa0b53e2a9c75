"""What all spools have: the line of JSON that they begin with, two directions, and damage.

What of a watch that was killed, or goes on, is damaged is counted and named; the rest is shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import fields_of, parse_json, require_version
from lanescope.errors import InputError
from lanescope.trace.codes import BoolArray, IntArray
from lanescope.trace.timeline import Counters


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


#: No first line of counters is longer.
LONGEST_HEADER = 4096
_REMEDY = "watch the program again"

T = TypeVar("T")


class CutOffError(InputError):
    """A spool ends in its first line: its writer was killed before it saw anything."""


def header_of(
    path: Path, content: bytes, kind: type[T], version: int, source: str | None = None
) -> tuple[T, int]:
    """Return the first line of a spool, and where its records begin.

    Parameters
    ----------
    kind
        A dataclass of what the line says; what else it says is not looked at.
    version
        Of the layout that is read here.
    source
        Who must have written it; None is anyone.

    Raises
    ------
    CutOffError
        If there is no whole line.
    InputError
        If it is not one of such a spool.
    """
    line, newline, _ = content.partition(b"\n")
    if not newline and not (line.isascii() and line.decode().isprintable()):
        raise InputError(f"{path} is no spool, or is damaged in its first line; {_REMEDY}")
    if not newline:
        raise CutOffError(f"{path} is no spool, or is cut off in its first line; {_REMEDY}")
    name = f"the first line of {path}"
    table: Any = parse_json(line.decode("utf-8", "replace"), name)
    with fields_of(name, _REMEDY):
        if not isinstance(table, dict) or "source" not in table:
            raise FieldError("field 'source' is missing, so this is no spool", "source")
        if source is not None and table["source"] != source:
            raise FieldError(
                f"this is a spool of {shown(table['source'])}, not of {source}", "source"
            )
        require_version(table.get("version"), version, path)
        return build(kind, table, others=True), len(line) + 1


@dataclass(slots=True)
class Damage:
    """Sentences on what is left out.

    Attributes
    ----------
    refuses
        Whether a file that is damaged is an error: before it is removed, say.
    """

    notes: list[str] = field(default_factory=list)
    refuses: bool = False

    @contextlib.contextmanager
    def leaving_out(self, path: Path) -> Iterator[None]:
        """Leave a file out that cannot be read; one without a whole first line holds nothing yet.

        Raises
        ------
        InputError, OSError
            If damage is refused.
        """
        try:
            yield
        except CutOffError:
            return
        except (InputError, OSError) as error:
            if self.refuses:
                raise
            if not path.exists():  # a watch that goes on has just removed it
                return
            self.notes.append(f"{path.name} is left out: {error}.")

    def lost(self, path: Path, what: str, count: int) -> None:
        """Note how many of something are left out of a file.

        Raises
        ------
        InputError
            If damage is refused.
        """
        if count and self.refuses:
            raise InputError(f"{path} is damaged: {count:,} {what}; name another run")
        if count:
            self.notes.append(f"{path.name} is damaged: {count:,} {what}; they are left out.")
