"""The repeated phases of a watched program: bytes in, kernels, bytes out, again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanescope.findings.advice.kernels import (
    call_gap_seconds,
    kernels_in,
    part_seconds,
    slowed_by_kernels,
)
from lanescope.findings.advice.lanes import (
    IN,
    MOST_OPERATIONS,
    OUT,
    WORK,
    OperationLane,
    Reading,
    Sample,
    lanes,
    samples,
)
from lanescope.findings.advice.phase import CopyKind, Phase
from lanescope.findings.advice.resent import Contents, Sends, with_contents
from lanescope.findings.advice.rounds import Rounds, RoundTimes, like_rounds, round_times, rounds
from lanescope.findings.advice.schedule import Schedule, schedule_of
from lanescope.prediction.parameters import Direction
from lanescope.prediction.predictor import Method, Workload
from lanescope.results import median_interval
from lanescope.trace.codes import IntArray, MemoryKind
from lanescope.trace.operations import Operations
from lanescope.units.estimate import Estimate

#: Of a phase so many rounds, evenly spread, are looked at in detail.
MOST_ROUNDS = 300
#: Where there are more kinds of rounds than this, fewer of each are timed, but so many at least.
_KINDS_IN_FULL, _LEAST_TIMED = 64, 16
#: Of each process and GPU so many phases are told, those with the most time.
MOST_PHASES = 6
#: A phase with less of the time of a process on a GPU is not told, unless all have less.
LEAST_SHARE = 0.02
#: Of fewer values a deviation says nothing.
_FEWEST_OF_A_MEAN = 6
#: So much of what could be hidden has to be for rounds to count as overlapped.
_HIDDEN = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Like rounds of one lane; `moved` are their median bytes each way."""

    lane: OperationLane
    rounds: Rounds
    which: IntArray
    pid: int
    gpu: int
    moved: tuple[float, float]


def find_phases(
    operations: Operations,
    contents: Contents | None = None,
    *,
    kernels: bool,
    most: int = MOST_OPERATIONS,
    reading: Reading | None = None,
) -> tuple[Phase, ...]:
    """Return the phases by process and GPU, of each the one with the most time first.

    Parameters
    ----------
    contents
        What is known of what copies carried.
    kernels
        Whether kernels were traced: without any it cannot be told from the operations.
    most
        Operations of a process and GPU that are looked at from each end of the watch.
    reading
        When the watch held the program up, which no time of a phase contains.
    """
    found = []
    reading = reading or Reading()
    for sample in samples(operations, most, reading):
        known = sample.pid in reading.spans
        mine = _phases_of(sample, contents or Contents.none(), kernels=kernels, knows_reading=known)
        total = sum(phase.run_seconds for phase in mine)
        # where no phase has much of the time, the one with the most is told all the same
        large = [p for p in mine if p.run_seconds >= LEAST_SHARE * total] or mine[:1]
        found += [replace(phase, number=i) for i, phase in enumerate(large[:MOST_PHASES], 1)]
    return tuple(found)


def _phases_of(
    sample: Sample, contents: Contents, *, kernels: bool, knows_reading: bool
) -> list[Phase]:
    """Return all phases of a process on a GPU, the one with the most time first."""
    groups: list[list[_Found]] = []
    for part in sample.parts:
        for lane in lanes(part, contents.of_rows, work=kernels, knows_reading=knows_reading):
            found = rounds(lane)
            for which in like_rounds(lane, found):
                moved = median_copies(lane, found, which)
                new = _Found(lane, found, which, sample.pid, sample.gpu, moved)
                _add(groups, new, apart=len(sample.parts) == 1)
    scale = sample.bytes_in_run / max(sample.bytes_seen, 1)
    most = MOST_ROUNDS * _KINDS_IN_FULL // max(len(groups), _KINDS_IN_FULL)
    most = max(most, _LEAST_TIMED)
    phases = [_phase(group, scale, kernels=kernels, most=most) for group in groups]
    return sorted(phases, key=lambda phase: -phase.run_seconds)


def _add(groups: list[list[_Found]], new: _Found, *, apart: bool) -> None:
    """Put rounds to those of the other end of the watch that are alike, else on their own."""
    if not apart:
        for group in groups:
            if group[0].lane is not new.lane and _alike(group[0], new):
                group.append(new)
                return
    groups.append([new])


def _alike(one: _Found, other: _Found) -> bool:
    pairs = zip(one.moved, other.moved, strict=True)
    return all(abs(a - b) <= 0.1 * max(a, b) for a, b in pairs)


def _phase(group: list[_Found], scale: float, *, kernels: bool, most: int) -> Phase:
    """Return a phase from its rounds, of which at most so many are timed at each end."""
    times = [t for found in group for t in _times_of(found, kernels=kernels, most=most)]
    count = sum(found.which.size for found in group)
    one = max(group, key=lambda found: found.which.size)
    copies = copy_kinds(one.lane, one.rounds, _spread(one.which))
    h2d, d2h, work, hidden, idle, host = (
        _estimate(np.array([getattr(t, name) for t in times]) * 1e-9)
        for name in ("h2d", "d2h", "work", "hidden", "idle", "host")
    )
    parts = _parts(one, (h2d, d2h, work), hidden)
    lane, number = _rows_of(one)
    schedule, sends = _schedule(one) if kernels and parts == 1 else (None, Sends(()))
    lasted = np.array([t.end - t.begin for t in times]) * 1e-9
    return Phase(
        pid=one.pid,
        gpu=one.gpu,
        number=0,
        rounds=count,
        rounds_in_run=max(round(count * scale), 1),
        seconds=_estimate(lasted),
        mean_seconds=_mean(lasted),
        period_seconds=_period(group),
        h2d_seconds=h2d,
        d2h_seconds=d2h,
        kernel_seconds=work if kernels else None,
        hidden_seconds=hidden,
        idle_seconds=idle,
        host_seconds=host,
        copies=copies,
        streams=_typical(one, lambda lane: np.unique(lane.stream).size),
        launches=_typical(one, lambda lane: int((lane.kind == WORK).sum())),
        parts=parts,
        endless=bool(one.rounds.endless[one.which].any()),
        waited=_waited(copies),
        method=_method(copies, parts),
        workload=_workload(copies, work.value if kernels else None, parts),
        schedule=schedule,
        constant_input=sends.constant,
        resident=sends.resident,
        new_bytes=sends.new_bytes,
        call_gap_seconds=call_gap_seconds(lane, number),
        slowed_by_kernels=slowed_by_kernels(lane),
        part_seconds=part_seconds(lane, int(number[-1]) + 1, parts),
        kernels=kernels_in(lane, number),
    )


def _rows_of(found: _Found) -> tuple[OperationLane, IntArray]:
    """Return the operations of at most `MOST_ROUNDS` of the rounds, and the round of each."""
    which = _spread(found.which)
    first, last = found.rounds.first[which], found.rounds.last[which]
    number = np.repeat(np.arange(which.size), last - first)
    before = np.concatenate(([0], np.cumsum(last - first)[:-1]))
    rows = np.arange(number.size) - before[number] + first[number]
    return found.lane.rows(rows), number


def _schedule(found: _Found) -> tuple[Schedule | None, Sends]:
    """Return some rounds, and what their copies bring."""
    lane, rounds = found.lane, found.rounds
    schedule = schedule_of(lane, rounds.first, rounds.last, found.which)
    if schedule is None:
        return None, Sends(())
    sends = with_contents(schedule.tasks, lane, rounds, found.which)
    return replace(schedule, tasks=sends.tasks), sends


def _spread(which: IntArray, most: int = MOST_ROUNDS) -> IntArray:
    """Return at most so many of some rounds, evenly spread, the last one among them."""
    step = max(-(-which.size // most), 1)
    return which[::-1][::step][::-1]


def _times_of(found: _Found, *, kernels: bool, most: int) -> list[RoundTimes]:
    times = []
    for number in _spread(found.which, most).tolist():
        first, last = int(found.rounds.first[number]), int(found.rounds.last[number])
        before = int(found.lane.end_ns[max(first - 256, 0) : first].max()) if first else 0
        times.append(round_times(found.lane.rows(slice(first, last)), before, kernels=kernels))
    return times


def _period(group: list[_Found]) -> Estimate | None:
    """Return the time from round to round of those that follow each other."""
    found = []
    for one in group:
        begins = one.lane.start_ns[one.rounds.first[one.which]]
        found.append(np.diff(begins)[np.diff(one.which) == 1])
    periods = np.concatenate(found)
    periods = _spread(periods[periods > 0])
    return _estimate(periods * 1e-9) if periods.size else None


def _estimate(values: npt.NDArray[np.floating[Any]]) -> Estimate:
    low, high = median_interval(values.astype(np.float64))
    middle = float(np.median(values))
    return Estimate(middle, min(low, middle), max(high, middle))


def _mean(values: npt.NDArray[np.floating[Any]]) -> Estimate:
    """Return the mean of times with its 95 % interval; of few with half of their range."""
    mean, error = float(np.mean(values)), float(np.ptp(values)) / 2
    if values.size >= _FEWEST_OF_A_MEAN:
        error = 1.96 * float(np.std(values, ddof=1) / np.sqrt(values.size))
    return Estimate(mean, max(mean - error, 0.0), mean + error)  # no round takes less than nothing


def _typical(found: _Found, count: Callable[[OperationLane], int]) -> int:
    """Return the median of a whole number of each round."""
    counts = [
        count(found.lane.rows(slice(int(found.rounds.first[n]), int(found.rounds.last[n]))))
        for n in _spread(found.which).tolist()
    ]
    return round(float(np.median(counts)))


def _most_bytes(copies: tuple[CopyKind, ...], chosen: Callable[[CopyKind], bool]) -> bool:
    """Whether a choice of copies moves most of the bytes of a round."""
    return sum(c.bytes for c in copies if chosen(c)) * 2 > sum(c.bytes for c in copies)


def _waited(copies: tuple[CopyKind, ...]) -> tuple[Direction, ...]:
    """Return the directions most of whose copies are synchronous."""
    counts = {
        direction: [
            sum(c.count for c in copies if c.direction is direction and c.asynchronous is queued)
            for queued in (False, True)
        ]
        for direction in Direction
    }
    return tuple(direction for direction, (waited, queued) in counts.items() if waited > queued)


def _parts(found: _Found, times: tuple[Estimate, Estimate, Estimate], hidden: Estimate) -> int:
    """Return into how many parts that overlap a round is cut now."""
    values = [time.value for time in times]
    could = sum(values) - max(values)
    if could <= 0 or hidden.value < _HIDDEN * could:
        return 1
    chained = round(float(np.median(found.rounds.parts[found.which])))
    if chained > 1:
        return chained
    streams = _typical(found, lambda lane: np.unique(lane.stream[lane.kind <= OUT]).size)
    return max(streams, 2)


def _method(copies: tuple[CopyKind, ...], parts: int) -> Method | None:
    """Return what a program does now; None where most bytes are of memory no model knows."""
    if _most_bytes(copies, lambda c: c.memory is MemoryKind.PAGEABLE):
        return Method.PAGEABLE
    if not _most_bytes(copies, lambda c: c.memory is MemoryKind.PINNED):
        return None
    return Method.EXPLICIT if parts == 1 else Method.STREAMS


def _workload(copies: tuple[CopyKind, ...], kernel_seconds: float | None, parts: int) -> Workload:
    """Return what the models are asked: copies of a direction are taken as equally large."""
    moved = {
        direction: round(sum(c.bytes for c in copies if c.direction is direction))
        for direction in Direction
    }
    counts = {
        direction: sum(c.count for c in copies if c.direction is direction)
        for direction in Direction
    }
    arrays = {direction: max(round(counts[direction] / parts), 1) for direction in Direction}
    return Workload(
        h2d_bytes=moved[Direction.H2D],
        d2h_bytes=moved[Direction.D2H],
        kernel_seconds=kernel_seconds or 0.0,
        has_kernel=kernel_seconds != 0,  # what was not traced may have been there
        h2d_arrays=arrays[Direction.H2D],
        d2h_arrays=arrays[Direction.D2H],
        mapped_assumed=True,  # a watch does not tell how the kernels reach their memory
    )


_DIRECTIONS = {IN: Direction.H2D, OUT: Direction.D2H}


def copy_kinds(lane: OperationLane, rounds: Rounds, which: IntArray) -> tuple[CopyKind, ...]:
    """Return the kinds of copies of some rounds, those that most rounds lack left out."""
    number = np.full(len(lane), -1)
    for place, one in enumerate(which.tolist()):
        number[rounds.first[one] : rounds.last[one]] = place
    chosen = np.flatnonzero((number >= 0) & (lane.kind <= OUT))
    keys = np.stack((lane.kind, lane.memory, lane.asynchronous.astype(np.int8)), axis=1)[chosen]
    kinds, inverse = np.unique(keys, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    found = [
        _kind(tuple(kind), lane, chosen[inverse == place], number, which.size)
        for place, kind in enumerate(kinds.tolist())
    ]
    return tuple(kind for kind in found if kind.bytes > 0)


def _kind(
    key: tuple[int, ...], lane: OperationLane, rows: IntArray, number: IntArray, count: int
) -> CopyKind:
    sizes, seconds = lane.bytes[rows], (lane.end_ns - lane.start_ns)[rows] * 1e-9
    per_round = [
        float(np.median(np.bincount(number[rows], weights, count)))
        for weights in (None, sizes.astype(np.float64), seconds)
    ]
    return CopyKind(
        _DIRECTIONS[key[0]],
        MemoryKind(key[1]),
        bool(key[2]),
        per_round[0],
        int(sizes.min()),
        int(np.median(sizes)),
        int(sizes.max()),
        per_round[1],
        per_round[2],
    )


def median_copies(lane: OperationLane, rounds: Rounds, which: IntArray) -> tuple[float, float]:
    """Return the median bytes of a round in each direction."""
    found = []
    for kind in (IN, OUT):
        moved = np.add.reduceat(np.where(lane.kind == kind, lane.bytes, 0), rounds.first)
        found.append(float(np.median(moved[which])))
    return found[0], found[1]
