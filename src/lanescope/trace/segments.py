"""What a watch without an end keeps: counters in segments of a minute, the oldest of which go.

Layout of its folder::

    manifest.json, machine.toml   as of every watch; the state stays "running"
    segments/BEGIN-END.parquet    counters of that time, in the layout of counters.parquet
    session/                      the watch that goes on, with the spools that become segments
    session/spool/shift           by how many ns the system's clock was set since the session began

Times are those of the system's clock when a segment was written. Segments whose time is still to
come are of a clock that was set back since: they count neither as the newest ones nor as old.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.codec.files import PART, open_file, opened_folder, replace_when_written
from lanescope.errors import InputError
from lanescope.store.folder import read_manifest
from lanescope.trace.codes import LATEST_NS
from lanescope.trace.columns import read_counter_file, write_counter_file
from lanescope.trace.counter_spool import behind, counters_in, with_both_directions
from lanescope.trace.spool_records import Damage
from lanescope.trace.time_checks import TimeWindow
from lanescope.trace.timeline import Counters, Timeline
from lanescope.trace.watch_folder import SPOOL, WatchManifest, is_held

SEGMENTS, SESSION, SHIFT = "segments", "session", "shift"
#: What is read where nobody says how much.
DEFAULT_LAST_NS = 3600 * 10**9
#: More records are not read at once: 4 GB in memory.
MOST_RECORDS = 100_000_000

#: A segment that ends so much later than now is of a clock that was set back.
_AHEAD_NS = 60 * 10**9

#: What is said of those that are left out.
_RECORDS = "records have times that cannot be"

Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of counters, and what its name says; the end is the last record's."""

    path: Path
    begin_ns: int
    end_ns: int


def is_continuous(folder: Path) -> bool:
    """Whether a run folder is of a watch without an end."""
    return (folder / SEGMENTS).is_dir()


def require_continuous(folder: Path, option: str) -> None:
    """Refuse an option for a folder that is not of a watch without an end; raises InputError."""
    if not is_continuous(folder):
        raise InputError(f"{folder} is no watch that keeps the last of it; leave {option} out")


def was_killed(folder: Path) -> bool:
    """Whether a watch without an end was killed: its session is there, and nobody holds that."""
    spool = folder / SESSION / SPOOL
    return spool.is_dir() and not is_held(spool)


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a folder, the oldest first; raises InputError if that is a link."""
    found = []
    try:
        with opened_folder(folder / SEGMENTS, inner=1) as place:
            names = os.listdir(place)
    except FileNotFoundError:  # nothing is stored yet
        return []
    for path in (folder / SEGMENTS / name for name in names if name.endswith(".parquet")):
        begin, _, end = path.stem.partition("-")
        if begin.isdecimal() and end.isdecimal():
            found.append(Segment(path, int(begin), int(end)))
    return sorted(found, key=lambda one: one.end_ns)


def write_segment(folder: Path, counters: Sequence[Counters]) -> Segment:
    """Write counters as the newest segment.

    Raises
    ------
    OSError
        If there is no room.
    ValueError
        If there are no records.
    """
    begin = min(int(one.end_ns[0]) for one in counters)
    end = max(int(one.end_ns[-1]) for one in counters)
    path = folder / SEGMENTS / f"{begin}-{end}.parquet"
    write_counter_file(path, counters, inner=2)
    return Segment(path, begin, end)


def prune(folder: Path, keep_ns: int, most_bytes: int) -> int:
    """Remove the segments that are too old or too many; return the bytes that are left.

    Parameters
    ----------
    keep_ns
        Segments that ended so long before the newest one go.
    most_bytes
        The oldest go until the others have no more.
    """
    (ahead, past), left = by_clock(segments_in(folder)), stored_bytes(folder)
    newest = [*ahead, *past][-1:]
    for one in (*ahead, *past):
        too_old = one.end_ns < newest[0].end_ns - keep_ns
        if one in newest or (not too_old and left <= most_bytes):
            continue
        with contextlib.suppress(OSError), opened_folder(folder / SEGMENTS, inner=1) as place:
            size = _size(one.path)
            os.unlink(one.path.name, dir_fd=place)
            left -= size
    return left


def remove_parts(folder: Path) -> None:
    """Remove what segments leave whose writer was killed; none may be written meanwhile."""
    with contextlib.suppress(OSError, InputError), opened_folder(folder / SEGMENTS, 1) as place:
        for name in os.listdir(place):
            if name.startswith(".") and name.endswith(PART):
                os.unlink(name, dir_fd=place)


def by_clock(segments: Sequence[Segment]) -> tuple[list[Segment], list[Segment]]:
    """Return segments whose time is still to come, as the clock was set back, and the others."""
    latest = time.time_ns() + _AHEAD_NS
    ahead = [one for one in segments if one.end_ns > latest]
    return ahead, [one for one in segments if one.end_ns <= latest]


def stored_bytes(folder: Path) -> int:
    """Return what the segments of a folder take."""
    return sum(_size(one.path) for one in segments_in(folder))


def disk_bytes(paths: Iterable[Path]) -> int:
    """Return what files take on the disk, holes left out."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):  # it was just removed
            total += path.stat().st_blocks * 512
    return total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_last(
    folder: Path, last_ns: int = DEFAULT_LAST_NS, until_ns: int | None = None
) -> Timeline:
    """Return the last of what is stored, up to what was counted a second ago.

    What is damaged is left out and noted.

    Parameters
    ----------
    until_ns
        The last of what was counted up to then, nanoseconds since 1970.

    Raises
    ------
    InputError
        If nothing is stored that can be read, or that is more than can be read at once.
    """
    (ahead, past), damage = by_clock(segments_in(folder)), Damage()
    segments = past or ahead
    tails = waiting_in(folder, segments, damage)
    if until_ns is not None:
        segments, tails = _before(until_ns, segments, tails)
    newest = segments[-1].end_ns if segments else 0
    end = max([newest, *(int(one.end_ns[-1]) for one in tails)])
    if not end and damage.notes:
        raise InputError(f"{folder} is damaged: {damage.notes[0].rstrip('.')}")
    if not end:
        raise InputError(f"{folder} holds nothing yet; look again in some seconds")
    end = end if until_ns is None else min(end, until_ns)
    begin = end - last_ns
    pieces = _read_after(begin, end, segments, damage)
    whole = joined([*pieces, *tails])
    chosen = tuple(found for one in whole if len(found := _between(one, begin, end)) > 1)
    if not chosen and until_ns is not None and not damage.notes:  # less than a record
        oldest = min((int(one.end_ns[0]) for one in whole), default=until_ns)
        raise _nothing_before(until_ns, oldest)
    first = min((int(one.end_ns[0]) for one in chosen), default=begin)
    if past and ahead:
        damage.notes.append(_of_another_clock(len(ahead)))
    return Timeline(max(first, begin), end, chosen, damage=tuple(damage.notes))


def _before(
    until_ns: int, segments: Sequence[Segment], tails: Sequence[Counters]
) -> tuple[list[Segment], list[Counters]]:
    """Return what begins before a time, of tails no more than that; raises InputError if none."""
    begins = [*(one.begin_ns for one in segments), *(int(one.end_ns[0]) for one in tails)]
    if begins and until_ns <= min(begins):
        raise _nothing_before(until_ns, min(begins))
    cut = (_between(one, 0, until_ns) for one in tails)
    return [one for one in segments if one.begin_ns < until_ns], [one for one in cut if len(one)]


def _nothing_before(until_ns: int, oldest_ns: int) -> InputError:
    return InputError(
        f"nothing is stored of before {time_of(until_ns)}; the oldest record is of "
        f"{time_of(oldest_ns)}"
    )


def _read_after(
    begin_ns: int, end_ns: int, segments: Sequence[Segment], damage: Damage
) -> list[Counters]:
    """Return what segments hold that end after a time, in order; raises InputError at too much."""
    found: list[list[Counters]] = []
    count, whole_ns = 0, end_ns
    for segment in reversed([one for one in segments if one.end_ns > begin_ns]):
        found.append(_read_segment(segment, damage))
        count += sum(map(len, found[-1]))
        if count > MOST_RECORDS:
            fits = f"--last {(end_ns - whole_ns) // 10**9}s" if whole_ns < end_ns else "less"
            raise InputError(
                f"the last {(end_ns - begin_ns) // 10**9} s hold more than {MOST_RECORDS:,} "
                f"records, which are too many to be read at once; {fits} can be read"
            )
        whole_ns = segment.begin_ns
    return [one for pieces in reversed(found) for one in pieces]


def _of_another_clock(count: int) -> str:
    what, whose = ("One segment is", "its") if count == 1 else (f"{count} segments are", "their")
    return f"{what} left out: the clock was set back since, and {whose} time is still to come."


def _read_segment(segment: Segment, damage: Damage) -> list[Counters]:
    """Return what of a segment can be: what its name says, and no more if it cannot be read."""
    with damage.leaving_out(segment.path):
        span = TimeWindow(segment.begin_ns, segment.end_ns)
        found = [span.counters(one) for one in read_counter_file(segment.path, inner=2)]
        damage.lost(segment.path, _RECORDS, span.left_out)
        return [one for one in found if len(one)]
    return []


def joined(pieces: Iterable[Counters]) -> tuple[Counters, ...]:
    """Return pieces of counters, which come in the order of time, as one for each source and link.

    A piece that begins with the last record of the one before goes on from there.
    """
    found: dict[Key, list[Counters]] = {}
    for piece in pieces:
        found.setdefault((piece.source, piece.gpu, piece.link), []).append(piece)
    return tuple(_joined(own) for own in found.values())


def _joined(pieces: Sequence[Counters]) -> Counters:
    columns: dict[str, list[Any]] = {}
    last = (int(piece.end_ns[-1]) for piece in pieces)
    ends = itertools.accumulate(last, max, initial=0)  # those of a clock that was set overlap
    for end, piece in zip(ends, pieces, strict=False):
        new = piece.end_ns > end
        for name in ("end_ns", "rx_bytes", "tx_bytes", "known"):
            columns.setdefault(name, []).append(getattr(piece, name)[new])
        if pieces[0].own is not None:
            columns.setdefault("own", []).append(piece.maybe_own[new])
    whole: dict[str, Any] = {name: np.concatenate(parts) for name, parts in columns.items()}
    lost = sum(piece.lost_samples for piece in pieces)
    interval = max(piece.interval_ns for piece in pieces)
    return dataclasses.replace(
        pieces[0], **whole, interval_ns=interval, lost_samples=lost, cpu_seconds=None
    )


def _between(counters: Counters, begin_ns: int, end_ns: int) -> Counters:
    first = int(np.searchsorted(counters.end_ns, begin_ns))
    after = int(np.searchsorted(counters.end_ns, end_ns, "right"))
    return counters.rows(slice(max(first - 1, 0), after))


def time_of(ns: int) -> str:
    """Return the local date and time of nanoseconds since 1970."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ns // 10**9))


def waiting_in(folder: Path, segments: Sequence[Segment], damage: Damage) -> list[Counters]:
    """Return what spools of a session hold that may be in no segment yet.

    Records that are in the newest segment, too, may be among them: `joined` leaves them out.
    """
    after_ns = segments[-1].begin_ns if segments else 0
    start_ns, shift_ns = _session_start(folder), read_shift(folder / SESSION / SPOOL)
    start_ns = None if start_ns is None else start_ns + shift_ns
    found = []
    for path in sorted((folder / SESSION / SPOOL).glob("*.g*.bin")):
        with damage.leaving_out(path):
            counters = counters_in(path)
            if shift_ns:
                counters = dataclasses.replace(counters, end_ns=counters.end_ns + shift_ns)
            found.append(behind(_possible(path, counters, start_ns, damage), after_ns))
    return [one for one in with_both_directions(found) if len(one)]


def write_shift(spool: Path, shift_ns: int) -> None:
    """Note by how much the clock was set since the records in a folder began, ns.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    replace_when_written(spool / SHIFT, lambda file: file.write(b"%d" % shift_ns), inner=3)


def read_shift(spool: Path) -> int:
    """Return what `write_shift` noted; 0 where it did not, or that cannot be."""
    try:
        with open_file(spool / SHIFT, inner=3) as file:
            shift_ns = int(file.read(32))
    except (OSError, ValueError, InputError):
        return 0
    return shift_ns if abs(shift_ns) < LATEST_NS else 0


def _session_start(folder: Path) -> int | None:
    """Return when the session began; None where the manifest cannot be read."""
    try:
        return read_manifest(WatchManifest, folder).start_ns
    except InputError:
        return None


def _possible(path: Path, found: Counters, start_ns: int | None, damage: Damage) -> Counters:
    """Return the records of a spool whose times can be; the others are noted."""
    if not len(found):
        return found
    span = TimeWindow.without_end(int(found.end_ns[0]) if start_ns is None else start_ns, [path])
    found = span.counters(found)
    damage.lost(path, _RECORDS, span.left_out)
    return found


def recover(folder: Path) -> int:
    """Make a segment of what a session that was killed had counted and not stored.

    Returns
    -------
    int
        How many records that are.

    Raises
    ------
    OSError
        If there is no room.
    """
    ahead, past = by_clock(segments_in(folder))
    segments = past or ahead
    waiting = waiting_in(folder, segments, Damage())
    stored, ends = _ends_of(segments[-1]) if segments and waiting else (0, {})
    fresh = [behind(one, ends.get((one.source, one.gpu, one.link), stored)) for one in waiting]
    pieces = [one for one in fresh if len(one) > 1]
    if pieces:
        write_segment(folder, pieces)
    return sum(len(one) - 1 for one in pieces)


def _ends_of(segment: Segment) -> tuple[int, dict[Key, int]]:
    """Return up to when a segment has what others than these count, and these."""
    try:
        found = read_counter_file(segment.path, inner=2)
    except InputError:  # it is damaged: its name says when the last of them ended
        return segment.end_ns, {}
    return 0, {(one.source, one.gpu, one.link): int(one.end_ns[-1]) for one in found}


def release(path: Path, end: int) -> bool:
    """Give the disk back what a file holds between its first 4 KiB and an offset.

    Returns
    -------
    bool
        False where the file system cannot do that.
    """
    import ctypes

    block, punch_hole, keep_size = 4096, 2, 1
    length = end // block * block - block
    if length <= 0:
        return True
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        return bool(libc.fallocate(descriptor, punch_hole | keep_size, block, length) == 0)
    finally:
        os.close(descriptor)
