"""A watch without an end: what it counts becomes segments, of which the newest stay."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.interruption import ENDING
from lanescope.machine import Machine
from lanescope.trace.codes import IntArray
from lanescope.trace.link_error_log import LinkErrors, Reading, read_now
from lanescope.trace.segments import (
    Key,
    disk_bytes,
    prune,
    recover,
    release,
    stored_bytes,
    write_segment,
)
from lanescope.trace.timeline import Counters
from lanescope.watching.live import LiveDirection, LiveWatch
from lanescope.watching.live_findings import LiveFindings
from lanescope.watching.signals import handling

#: How often is looked at what was counted.
LOOK_SECONDS = 1.0
SEGMENT_SECONDS = 60.0
#: A segment ends before its time where there are so many records: 130 MB in memory.
MOST_PENDING = 4_000_000
#: Sources that say nothing for so long are begun anew: the driver was reset, or a GPU is gone.
SILENT_SECONDS = 30.0
#: Upper edges of the histogram of a link's use, as shares of what it can carry.
EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
#: What is said where a disk, or a share of it, is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: The clock of the watch and the system's are compared to this.
_SHIFTED_NS = 1_000_000_000


@dataclass
class Totals:
    """What was counted of one link since the start.

    Attributes
    ----------
    received_bytes, sent_bytes
        On the wire, protocol included.
    """

    received_bytes: int = 0
    sent_bytes: int = 0


@dataclass
class Use:
    """How many seconds a direction of a link was used up to each of `EDGES`, and in sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(EDGES) + 1))
    total: float = 0.0

    def add(self, share: float) -> None:
        """Add a second."""
        self.counts[int(np.searchsorted(EDGES, share))] += 1
        self.total += share


class SegmentWriter:
    """Makes segments of what sources count, and sums it up.

    Attributes
    ----------
    stored_bytes, waiting_bytes
        What segments take on the disk, and what spools take that are to become one.

    Parameters
    ----------
    folder
        That of the segments.
    keep_ns, most_bytes
        How much of it stays: the last so long, and no more than so many bytes.
    look_seconds, segment_seconds, read_errors, findings
        For tests.
    """

    def __init__(
        self,
        folder: Path,
        keep_ns: int,
        most_bytes: int,
        look_seconds: float = LOOK_SECONDS,
        segment_seconds: float = SEGMENT_SECONDS,
        read_errors: Reading = read_now,
        findings: LiveFindings | None = None,
    ) -> None:
        self.totals: dict[Key, Totals] = {}
        self.use: dict[tuple[int, str], Use] = {}
        self.directions: tuple[LiveDirection, ...] = ()
        self.stored_bytes = stored_bytes(folder)
        self.waiting_bytes = 0
        self.lost_records = 0
        self.lost_samples: dict[tuple[int, str], int] = {}
        self.link_errors: tuple[LinkErrors, ...] = ()
        self.findings = LiveFindings() if findings is None else findings
        self.problem: str | None = None
        self._spool = folder
        self._folder, self._keep_ns, self._most_bytes = folder, keep_ns, most_bytes
        self._look_seconds, self._segment_seconds = look_seconds, segment_seconds
        self._read_errors = read_errors
        self._pending: dict[Key, list[Counters]] = {}
        self._last: dict[Key, Counters] = {}
        self._count = 0
        self._heard = self._begun = time.monotonic()
        self._releases = True

    @property
    def is_silent(self) -> bool:
        """Whether nothing has been counted for long."""
        return time.monotonic() - self._heard > SILENT_SECONDS

    def recover(self) -> None:
        """Make a segment of what a watch before this one had counted when it was killed."""
        self._written(lambda: recover(self._folder), "the end of the watch before is lost")
        self.stored_bytes = prune(self._folder, self._keep_ns, self._most_bytes)

    @contextlib.contextmanager
    def writing(self, spool: Path, machine: Machine) -> Iterator[None]:
        """Write what sources append to a folder, until the block is left; then no spool is left."""
        watch = LiveWatch(spool, machine, take=self._take)
        self._spool = spool
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(watch, machine, ended))
        thread.name = "lanescope-segments"
        self._heard = self._begun = time.monotonic()
        self.findings.begin(machine)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        thread.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._last.clear()
            for path in spool.glob("*.g*.bin*"):
                path.unlink(missing_ok=True)
            self.waiting_bytes = 0

    def _run(self, watch: LiveWatch, machine: Machine, ended: threading.Event) -> None:
        self._take_errors(machine)
        while not ended.wait(self._look_seconds):
            self._look(watch)
            if time.monotonic() - self._begun > self._segment_seconds or self._count > MOST_PENDING:
                self._write(watch)
                self._take_errors(machine)
        self._look(watch)
        self._write(watch)

    def _take_errors(self, machine: Machine) -> None:
        self.link_errors = self._read_errors(machine)
        self.findings.take_errors(self.link_errors)

    def _look(self, watch: LiveWatch) -> None:
        frame = watch.look(native.watch_time_ns())
        self.findings.look(frame.directions, time.monotonic())
        self.waiting_bytes = disk_bytes(self._spool.glob("*.g*.bin"))
        self.directions = frame.directions
        self.problem = frame.problems[0] if frame.problems else self.problem
        for one in frame.directions:
            key = (one.gpu, one.direction)
            self.lost_samples[key] = one.lost_samples
            if one.share_of_limit is not None:
                self.use.setdefault(key, Use()).add(one.share_of_limit)

    def _take(self, counters: Counters) -> None:
        key = (counters.source, counters.gpu, counters.link)
        self._heard = time.monotonic()
        self._pending.setdefault(key, []).append(counters)
        self._count += len(counters)
        totals = self.totals.setdefault(key, Totals())
        totals.received_bytes += _sum(counters, counters.rx_bytes)
        totals.sent_bytes += _sum(counters, counters.tx_bytes)

    def _write(self, watch: LiveWatch) -> None:
        """Make a segment of what is pending; where there is no room, the oldest segments go."""
        self._begun = time.monotonic()
        pieces = [self._whole(key) for key in self._pending]
        if not pieces:
            return
        self._store(pieces)
        self._last = {key: _end_of(parts[-1]) for key, parts in self._pending.items()}
        self._pending, self._count = {}, 0
        self.stored_bytes = prune(self._folder, self._keep_ns, self._most_bytes)
        for path, end in watch.done():
            with contextlib.suppress(OSError):
                self._releases = release(path, end) and self._releases
        if not self._releases:
            self.problem = (
                f"{self._folder} is on a file system that does not give back parts of files, so "
                "that spools grow until the watch ends; name another place by --out"
            )

    def _store(self, pieces: list[Counters]) -> None:
        write = lambda: write_segment(self._folder, pieces)  # noqa: E731
        if not self._written(write, "a segment cannot be written"):
            self.lost_records += self._count

    def _written(self, write: Callable[[], object], problem: str) -> bool:
        """Write something; where there is no room, the oldest segments go first."""
        for room_made in (False, True):
            try:
                write()
                return True
            except (OSError, InputError) as error:
                self.problem = f"{problem}: {error}"
                if room_made or not isinstance(error, OSError) or error.errno not in _FULL:
                    break
                self.stored_bytes = prune(self._folder, self._keep_ns, self.stored_bytes // 2)
        return False

    def _whole(self, key: Key) -> Counters:
        """Return what is pending of a source, from the end of the segment before on."""
        parts = self._pending[key]
        before = [self._last[key]] if key in self._last else []
        names = ("end_ns", "rx_bytes", "tx_bytes", "known")
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in (*before, *parts)])
            for name in names
        }
        columns["end_ns"] = columns["end_ns"] + _shift_ns()
        own = np.concatenate([part.maybe_own for part in (*before, *parts)])
        return dataclasses.replace(
            parts[0],
            **columns,
            interval_ns=max(part.interval_ns for part in parts),
            own=None if parts[0].own is None else own,
            lost_samples=int(np.rint(_unknown_ns(parts) / parts[0].interval_ns)),
        )


def _unknown_ns(parts: list[Counters]) -> int:
    """Return how long nothing was known, beyond the beginnings of the pieces."""
    total = 0
    for part in parts:
        lasted = np.diff(part.end_ns, prepend=part.end_ns[:1])
        total += int(lasted[~part.known].sum())
    return total


def _end_of(counters: Counters) -> Counters:
    """Return the last record, where the next segment begins, as one of which nothing is known."""
    last = slice(len(counters) - 1, None)
    return counters.rows(last)


def _sum(counters: Counters, column: IntArray) -> int:
    return int(column[counters.known].sum())


def _shift_ns() -> int:
    """Return by how much the system's clock is ahead of the watch's; 0 where that is little.

    It was set meanwhile, or the machine was suspended.
    """
    shift = time.time_ns() - native.watch_time_ns()
    return shift if abs(shift) > _SHIFTED_NS else 0


@dataclass
class ContinuousWait:
    """What ends a watch without an end: Ctrl-C, SIGTERM, or sources that say nothing any more.

    Attributes
    ----------
    signal
        Which has come; None before, and where sources are to be begun anew.
    """

    writer: SegmentWriter
    signal: int | None = None
    program: tuple[str, ...] = ()
    traceable: bool = False
    notes: tuple[str, ...] = ()

    def wait(self, environment: Mapping[str, str]) -> None:
        """Wait for one of them."""
        with handling(ENDING, self._ended):
            while self.signal is None and not self.writer.is_silent:
                time.sleep(0.1)

    def _ended(self, number: int, _: FrameType | None) -> None:
        self.signal = number
