"""A watch without an end: what it counts becomes segments, of which the newest stay.

What is wrong with links meanwhile is found, too, as far as that can be known cheaply.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import math
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.interruption import ENDING
from lanescope.machine import Link, Machine, PcieLink
from lanescope.machine.pcie import is_trained_down
from lanescope.machine.snapshot import link_states
from lanescope.trace.codes import IntArray
from lanescope.trace.limits import DIRECTIONS, pcie_links
from lanescope.trace.link_error_log import FAULTS, LinkErrors, Reading, read_now, risen
from lanescope.trace.segments import (
    SHIFT,
    Key,
    disk_bytes,
    prune,
    recover,
    release,
    remove_parts,
    stored_bytes,
    write_segment,
    write_shift,
)
from lanescope.trace.timeline import Counters
from lanescope.watching.live import LiveDirection, LiveWatch
from lanescope.watching.signals import handling

TRAINED_DOWN, ERRORS, LOST, FULL = "trained-down", "link-errors", "lost-samples", "link-full"
#: A link that is used less may sleep: it slows down at rest, to save power.
USED_SHARE = 0.05
#: States of links are read so often, and only where they are used.
STATE_SECONDS = 10.0
#: A link is full above this share of what it can carry, for more than half of so many looks.
FULL_SHARE, FULL_LOOKS = 0.9, 60
#: Samples that were lost count for so long.
LOST_SECONDS = 60.0
#: Nothing is known of a longer pause between two looks: the machine was suspended.
_LONGEST_SECONDS = 10.0
States = Callable[[Machine], Mapping[str, PcieLink]]
_Key = tuple[int, str]
#: How often is looked at what was counted.
LOOK_SECONDS = 1.0
SEGMENT_SECONDS = 60.0
#: A segment ends before its time where there are so many records: 130 MB in memory.
MOST_PENDING = 4_000_000
#: Sources that say nothing for so long are begun anew: the driver was reset, or a GPU is gone.
SILENT_SECONDS = 30.0
#: The same where the disk was nearly full, which ends a spool for good.
SILENT_WHEN_FULL_SECONDS = 3.0
#: Spools of a watch without an end leave so much free, or half of what is free if that is less;
#: older segments go before that.
CONTINUOUS_RESERVED_BYTES = 64 << 20
#: A segment ends before its time where spools take so much of what is allowed, as a divisor.
_SPOOLS_SHARE = 4
#: Upper edges of the histogram of a link's use, as shares of what it can carry.
EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
#: What is said where a disk, or a share of it, is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: The clock of the watch and the system's are compared to this.
_SHIFTED_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LiveFinding:
    """Something that may be wrong with a GPU's links.

    Attributes
    ----------
    kind
        ``trained-down``, ``link-errors``, ``lost-samples`` or ``link-full``.
    active
        Whether it holds now.
    seconds
        For how long it has held since the start, in sum.
    """

    gpu: int
    kind: str
    active: bool
    seconds: float


@dataclass(slots=True)
class _Loss:
    """How many samples were lost, and when that last became more."""

    count: int = 0
    risen_at: float | None = None


@dataclass
class LiveFindings:
    """Findings of a watch that goes on; what is not known yet is none of them.

    Attributes
    ----------
    states
        Reads what links run at; for tests.
    found
        By GPU and kind.
    links
        PCIe links as they were when last read in use, with the part below each.
    """

    states: States = link_states
    found: tuple[LiveFinding, ...] = ()
    links: tuple[Link, ...] = ()
    _machine: Machine | None = None
    _active: dict[_Key, bool] = field(default_factory=dict)
    _seconds: dict[_Key, float] = field(default_factory=dict)
    _full: dict[_Key, deque[bool]] = field(default_factory=dict)
    _lost: dict[tuple[int, str, str], _Loss] = field(default_factory=dict)
    _down: dict[int, int] = field(default_factory=dict)
    _read: dict[str, Link] = field(default_factory=dict)
    _errors: dict[int, LinkErrors] = field(default_factory=dict)
    _looked_at: float | None = None
    _states_at: float | None = None

    def begin(self, machine: Machine) -> None:
        """Look at a machine from now on; what was counted goes on."""
        self._machine, self._states_at, self._looked_at = machine, None, None
        self._read.clear()
        self._down.clear()
        self._lost.clear()

    def look(self, directions: Sequence[LiveDirection], now: float) -> None:
        """Take what links carry at a time, seconds of any steady clock."""
        self._count_seconds(now)
        for one in directions:
            self._take_loss(one, now)
        self._note_losses(now)
        self._take_use(directions)
        used = {one.gpu for one in directions if (one.share_of_limit or 0.0) >= USED_SHARE}
        due = self._states_at is None or now - self._states_at >= STATE_SECONDS
        if used and due and self._machine is not None:
            self._states_at = now
            self._take_states(self._machine, sorted(used), directions)
        self.found = tuple(
            LiveFinding(gpu, kind, active, self._seconds.get((gpu, kind), 0.0))
            for (gpu, kind), active in sorted(self._active.items())
        )

    def take_errors(self, readings: Sequence[LinkErrors]) -> None:
        """Take error counters as they are now; those that rose since the last time count."""
        self._active |= {key: False for key in self._active if key[1] == ERRORS}
        for now in readings:
            if (before := self._errors.get(now.gpu)) is not None:
                more = [getattr(risen(before, now), name) for name in FAULTS]
                if known := [count for count in more if count is not None]:
                    self._active[now.gpu, ERRORS] = any(known)
            self._errors[now.gpu] = now

    def _count_seconds(self, now: float) -> None:
        lasted = 0.0 if self._looked_at is None else min(now - self._looked_at, _LONGEST_SECONDS)
        self._looked_at = now
        for key, active in self._active.items():
            self._seconds[key] = self._seconds.get(key, 0.0) + (lasted if active else 0.0)

    def _take_loss(self, one: LiveDirection, now: float) -> None:
        loss = self._lost.setdefault((one.gpu, one.direction, one.source), _Loss())
        if one.lost_samples > loss.count:
            loss.risen_at = now
        loss.count = one.lost_samples

    def _note_losses(self, now: float) -> None:
        """Tell which GPUs lost samples lately; those that are not counted any more did not."""
        at = {gpu: -math.inf for gpu, kind in self._active if kind == LOST}
        for (gpu, *_), of in self._lost.items():
            risen_at = -math.inf if of.risen_at is None else of.risen_at
            at[gpu] = max(at.get(gpu, -math.inf), risen_at)
        self._active |= {(gpu, LOST): now - one < LOST_SECONDS for gpu, one in at.items()}

    def _take_use(self, directions: Sequence[LiveDirection]) -> None:
        """Note which directions are full; where that is not known any more, a look is of none."""
        shares = {(one.gpu, one.direction): one.share_of_limit for one in directions}
        known = {key for key, share in shares.items() if share is not None}
        full: dict[int, bool] = {}
        for key in known | self._full.keys():
            looks = self._full.setdefault(key, deque(maxlen=FULL_LOOKS))
            looks.append((shares.get(key) or 0.0) >= FULL_SHARE)
            full[key[0]] = full.get(key[0], False) or 2 * sum(looks) > FULL_LOOKS
        self._active |= {(gpu, FULL): one for gpu, one in full.items()}

    def _take_states(
        self, machine: Machine, gpus: Sequence[int], directions: Sequence[LiveDirection]
    ) -> None:
        states = self.states(machine)
        for gpu in gpus:
            rates = _pcie_rates(directions, gpu)
            below = list(_links_now(machine, gpu, states))
            self._read |= {link.b: link for link in below}
            if not below:
                continue
            down = any(link.pcie and is_trained_down(link.pcie, rates) for link in below)
            # once may be a link that has not woken up yet
            self._down[gpu] = self._down.get(gpu, 0) + 1 if down else 0
            self._active[gpu, TRAINED_DOWN] = self._down[gpu] > 1
        self.links = tuple(self._read[part] for part in sorted(self._read))


def _links_now(machine: Machine, gpu: int, states: Mapping[str, PcieLink]) -> Iterator[Link]:
    for link in pcie_links(machine, gpu):
        if (now := states.get(link.b)) is not None:
            yield Link.of_pcie(link.a, link.b, now)


def _pcie_rates(directions: Sequence[LiveDirection], gpu: int) -> list[float | None]:
    own = {one.direction: one.rates.now_gbs for one in directions if one.gpu == gpu}
    return [own.get(direction) for direction in DIRECTIONS]


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
    lost_records
        That were not stored as there was no room: those of segments that could not be written, and
        those that samplers could not write, by the time until they could again.

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
        # of each source: records lost since its latest segment; the end of its latest record, in
        # this session and in one that a full disk ended
        self._lost: dict[Key, int] = {}
        self._latest_ns: dict[Key, int] = {}
        self._full_since_ns: dict[Key, int] = {}
        self._count = 0
        self._heard = self._begun = time.monotonic()
        self._heard_at: dict[Key, float] = {}
        self._releases = True
        self._noted_shift_ns = 0
        self._room_bytes = 0
        self._was_full = False

    @property
    def is_silent(self) -> bool:
        """Whether nothing has been counted for long; by one source, if the disk was nearly full."""
        now = time.monotonic()
        heard = tuple(self._heard_at.values()) if self._was_full else ()
        if any(now - at > SILENT_WHEN_FULL_SECONDS for at in heard):
            return True
        longest = SILENT_WHEN_FULL_SECONDS if self._was_full else SILENT_SECONDS
        return now - self._heard > longest

    @property
    def is_overgrown(self) -> bool:
        """Whether spools take too much that cannot be given back until they are removed."""
        return not self._releases and self.waiting_bytes > self._most_bytes // _SPOOLS_SHARE

    def make_room_after(self, error: InputError) -> bool:
        """Remove half of the segments if an error is of a full disk; return whether it is."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__
        if cause is None or cause.errno not in _FULL:
            return False
        self.problem = str(error.__cause__ or error)
        self.stored_bytes = prune(self._folder, self._keep_ns, self.stored_bytes // 2)
        return True

    def recover(self) -> None:
        """Make a segment of what a watch before this one had counted when it was killed."""
        remove_parts(self._folder)
        self._written(lambda: recover(self._folder), "the end of the watch before is lost")
        self.stored_bytes = prune(self._folder, self._keep_ns, self._most_bytes)

    @contextlib.contextmanager
    def writing(self, spool: Path, machine: Machine) -> Iterator[None]:
        """Write what sources append to a folder, until the block is left; then no spool is left."""
        watch = LiveWatch(spool, machine, take=self._take)
        self._spool, self._noted_shift_ns = spool, 0
        ended = threading.Event()
        thread = threading.Thread(target=self._run, args=(watch, machine, ended))
        thread.name = "lanescope-segments"
        self._heard = self._begun = time.monotonic()
        self._releases, self._was_full = True, False
        self._room_bytes = min(_free_bytes(spool), 2 * CONTINUOUS_RESERVED_BYTES) * 3 // 4
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
            if self._was_full and self.is_silent:
                self._full_since_ns |= self._latest_ns
            self._latest_ns.clear()
            self._heard_at.clear()
            for path in (*spool.glob("*.g*.bin*"), spool / SHIFT):
                path.unlink(missing_ok=True)
            self.waiting_bytes = 0

    def _run(self, watch: LiveWatch, machine: Machine, ended: threading.Event) -> None:
        self._take_errors(machine)
        errors_at = time.monotonic()
        while not ended.wait(self._look_seconds):
            self._look(watch)
            late = time.monotonic() - self._begun > self._segment_seconds
            if late or self._count > MOST_PENDING or self._spools_are_large:
                self._write(watch)
            if time.monotonic() - errors_at > self._segment_seconds:
                self._take_errors(machine)
                errors_at = time.monotonic()
        self._look(watch)
        self._write(watch)

    def _take_errors(self, machine: Machine) -> None:
        self.link_errors = self._read_errors(machine)
        self.findings.take_errors(self.link_errors)

    def _look(self, watch: LiveWatch) -> None:
        frame = watch.look(native.watch_time_ns())
        self.findings.look(frame.directions, time.monotonic())
        self.waiting_bytes = disk_bytes(self._spool.glob("*.g*.bin"))
        self._make_room()
        self.directions = frame.directions
        self.problem = frame.problems[0] if frame.problems else self.problem
        self._note_shift()
        for one in frame.directions:
            key = (one.gpu, one.direction)
            self.lost_samples[key] = one.lost_samples
            if one.share_of_limit is not None:
                self.use.setdefault(key, Use()).add(one.share_of_limit)

    @property
    def _spools_are_large(self) -> bool:
        share = self._most_bytes // _SPOOLS_SHARE
        return self._releases and self.waiting_bytes > share

    def _make_room(self) -> None:
        """Remove the oldest segments where all takes too much, or the disk is nearly full."""
        free = _free_bytes(self._folder)
        self._was_full = self._was_full or free < self._room_bytes
        if free < self._room_bytes:
            self.problem = (
                f"the disk of {self._folder} is nearly full: the oldest segments went, and where "
                "that was not enough nothing was counted"
            )
        over = self.stored_bytes + self.waiting_bytes - self._most_bytes
        most = self.stored_bytes - max(over, self._room_bytes - free)
        if most < self.stored_bytes:
            self.stored_bytes = prune(self._folder, self._keep_ns, most)

    def _note_shift(self) -> None:
        """Tell who reads the spools meanwhile that the clock was set."""
        shift_ns = _shift_ns()
        if abs(shift_ns - self._noted_shift_ns) > _SHIFTED_NS:
            with contextlib.suppress(OSError, InputError):
                write_shift(self._spool, shift_ns)
                self._noted_shift_ns = shift_ns

    def _take(self, counters: Counters) -> None:
        key = (counters.source, counters.gpu, counters.link)
        self._heard = time.monotonic()
        self._pending.setdefault(key, []).append(counters)
        self._count += len(counters)
        if len(counters):
            self._count_dropped(key, counters)
            self._latest_ns[key] = int(counters.end_ns[-1])
            self._heard_at[key] = self._heard
        totals = self.totals.setdefault(key, Totals())
        totals.received_bytes += _sum(counters, counters.rx_bytes)
        totals.sent_bytes += _sum(counters, counters.tx_bytes)

    def _count_dropped(self, key: Key, counters: Counters) -> None:
        """Count what a sampler could not write since a full disk ended its spool."""
        if (since_ns := self._full_since_ns.pop(key, None)) is not None:
            lasted_ns = max(int(counters.end_ns[0]) - since_ns, 0)
            self._lose(key, round(lasted_ns / counters.interval_ns))

    def _lose(self, key: Key, records: int) -> None:
        self.lost_records += records
        self._lost[key] = self._lost.get(key, 0) + records

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
                "that sources begin anew each time that theirs take a quarter of --max-spool; name "
                "another place by --out"
            )

    def _store(self, pieces: list[Counters]) -> None:
        write = lambda: write_segment(self._folder, pieces)  # noqa: E731
        if self._written(write, "a segment cannot be written"):
            for key in self._pending:
                self._lost.pop(key, None)
            return
        for key, parts in self._pending.items():
            self._lose(key, sum(map(len, parts)))

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
        unknown = int(np.rint(_unknown_ns(parts) / parts[0].interval_ns))
        return dataclasses.replace(
            parts[0],
            **columns,
            interval_ns=max(part.interval_ns for part in parts),
            own=None if parts[0].own is None else own,
            lost_samples=unknown + self._lost.get(key, 0),
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


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 1 << 60


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
    overgrown
        Whether they are to be begun anew as their spools take too much.
    """

    writer: SegmentWriter
    signal: int | None = None
    overgrown: bool = False
    program: tuple[str, ...] = ()
    traceable: bool = False
    notes: tuple[str, ...] = ()

    def wait(self, environment: Mapping[str, str]) -> None:
        """Wait for one of them."""
        with handling(ENDING, self._ended):
            while self.signal is None and not self.writer.is_silent and not self.overgrown:
                time.sleep(0.1)
                self.overgrown = self.writer.is_overgrown

    def _ended(self, number: int, _: FrameType | None) -> None:
        self.signal = number
