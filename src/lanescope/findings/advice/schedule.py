"""The rounds of a phase as they were measured, and what they would take after an edit.

Each operation keeps what was measured of it: the host's time before its call, the pause until it
starts, how long it runs. An edit changes some operations; the replay then tells when everything
would have happened. What is not edited is taken as measured and never predicted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lanescope.findings.advice.lanes import IN, WORK, OperationLane
from lanescope.trace.codes import IntArray, MemoryKind

#: From a kernel's launch to its start on an idle GPU, and what a launch takes of the host's time;
#: kernels have no calls in a trace.
_LAUNCH_LAG_NS, _LAUNCH_NS = 5_000, 3_000
#: The host does something else where it takes longer from launch to launch.
_MOST_LAUNCH_NS = 50_000
#: The least between the end of what is before on a stream and a start.
_BETWEEN_NS = 1_000
#: A call returns with its copy if it ends no earlier before it than this, or this share of it.
_RETURNS_NS, _RETURNS_SHARE = 20_000, 0.05
#: The host does something else, or waits, where it takes longer between two submissions.
PAUSE_NS = 50_000
#: Nanoseconds that the host spends to submit a copy, or to go on when one that it waited for ended.
SUBMITS_NS, WAKES_NS = 4_000, 6_000
#: The host has done nothing with data that came back where it goes on sooner than this and than
#: one thread reads them.
TOUCHES_NS = 20_000
#: It waits for a round before if that is so in this share of the rounds, none further back than
#: these, and it goes on in so short a share of the pause after its end.
_NEARLY_EACH, _MOST_AHEAD, _SOON = 0.8, 3, 0.15
#: A schedule has so many rounds and operations at most, and no fewer rounds than the least.
_MOST_ROUNDS, _MOST_ROWS, LEAST_ROUNDS = 64, 4_000, 3
#: Rounds in a row are cut into so many pieces, none shorter than the other number, of which the
#: one that is nearest to the median time is taken: a pause in one piece is in no other.
_PIECES, _SHORTEST_PIECE = 5, 8
#: So many operations before a schedule are looked at for the last end.
_BEFORE = 256
#: What a copy of a few bytes lasts at least.
_SHORTEST_NS = 2_000
#: To gather: nanoseconds for a byte (5 GB/s, one thread).
BYTE_NS = 0.2
#: Bytes a nanosecond (GB/s) that one thread of the host copies, from and to, and the least bytes
#: for which that is assumed.
STAGED_RATES, STAGED_BYTES = (2.0, 25.0), 1 << 20


@dataclass(frozen=True, slots=True)
class ScheduledTask:
    """One operation of a schedule; times are nanoseconds.

    Attributes
    ----------
    kind
        `IN`, `OUT` or `WORK`.
    round
        Its number in the schedule.
    waits
        Whether the host has waited for all that was submitted before, but for what is `ahead`.
    gap
        Of the host, from that or from the call before until it submits this.
    lag
        From when it could start, submitted and its stream free, until it starts; from its
        submission alone where it is `late`.
    lasts
        On the GPU.
    blocks
        Whether the host stays in the call until it has ended.
    hold
        Of the host: in the call, or behind the end where it blocks.
    needs
        Copies, by their number, which it waits for on other streams.
    number
        Of a copy that others need; 0 for none.
    name
        Of a kernel, as in `Operations`; 0 for none.
    queued
        Of a copy: whether its call is asynchronous, though the host may stay in it.
    late
        Whether its stream was free already when it was submitted.
    ahead
        Whether it is for a later round, so that the host waits for it in none before.
    staged
        Whether the host copies the data into pinned memory itself in the pause before.
    awaits
        Copies, by their number, for whose end the host waits before it submits this.
    brings
        Of a copy: what it brings, as in `contents.Brings`; 0 where that is not known.
    fresh
        Of one that brings little that is new: how many bytes are in parts that changed.
    thread
        Which submits it; one that submits nothing before begins when all have ended the rounds
        before.
    rounds_back
        The host waits before it submits this until all has ended of the round so many before it,
        and of those before that; 0: it does not.
    """

    kind: int
    bytes: int
    memory: MemoryKind
    stream: int
    round: int
    waits: bool
    gap: float
    lag: float
    lasts: float
    blocks: bool
    hold: float
    needs: tuple[int, ...] = ()
    number: int = 0
    name: int = 0
    queued: bool = False
    late: bool = False
    ahead: bool = False
    staged: bool = False
    awaits: tuple[int, ...] = ()
    brings: int = 0
    fresh: int = 0
    thread: int = 0
    rounds_back: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Consecutive rounds in the order of submission.

    Attributes
    ----------
    measured_ns
        From the first submission to the last end, less `read_ns`.
    read_ns
        What the watch took of that to read what copies carried; no program has that without.
    """

    tasks: tuple[ScheduledTask, ...]
    rounds: int
    measured_ns: float
    read_ns: float = 0.0

    @property
    def unread_share(self) -> float:
        """Share of the time, as it was watched, that `read_ns` leaves."""
        watched = self.measured_ns + self.read_ns
        return self.measured_ns / watched if watched else 1.0


@dataclass(frozen=True, slots=True)
class Placed:
    """When a replayed task was submitted, started and ended; nanoseconds from the begin.

    Attributes
    ----------
    begun
        When the host began with what it does before it submits the task.
    host_after
        Number of the task for whose end the host waited before; None: for none.
    ready
        When it could start, but for its lag.
    after
        Number of the task for whose end it waited, on its stream, its engine or as it needs it;
        None: it waited for the host alone.
    """

    task: ScheduledTask
    begun: float
    submitted: float
    ready: float
    start: float
    end: float
    host_after: int | None
    after: int | None


def schedule_of(
    lane: OperationLane, first: IntArray, last: IntArray, which: IntArray
) -> Schedule | None:
    """Return some of those rounds that follow each other; None where there are too few.

    What ran once or twice has a schedule of as many rounds, and one whose rounds lie between others
    of one typical round.

    Parameters
    ----------
    first, last
        Rows at which each round of the lane begins, and behind its end.
    which
        Numbers of the rounds of a phase.
    """
    if not which.size:
        return None
    run = _typical_run(lane, first, last, which)
    if run is None:
        return None
    begin, end = int(first[run[0]]), int(last[run[-1]])
    number = np.searchsorted(first[run], np.arange(begin, end), "right") - 1
    before = int(lane.end_ns[max(begin - _BEFORE, 0) : begin].max()) if begin else 0
    return _measured(lane.rows(slice(begin, end)), number, run.size, before)


def _typical_run(
    lane: OperationLane, first: IntArray, last: IntArray, which: IntArray
) -> IntArray | None:
    """Return rounds that follow each other and take, in the mean, the median of such rounds."""
    runs = np.split(which, np.flatnonzero(np.diff(which) != 1) + 1)
    longest = max(map(len, runs))
    if longest < LEAST_ROUNDS <= which.size:  # others lie between these rounds: one is replayed
        each = lane.end_ns[last[which] - 1] - lane.start_ns[first[which]]
        return which[[int(np.argmin(np.abs(each - np.median(each))))]]
    least = min(max(LEAST_ROUNDS, min(longest, _MOST_ROUNDS) // 2), longest)
    typical = max(longest // _PIECES, _SHORTEST_PIECE)
    found = []
    for run in runs:
        rows = int((last[run] - first[run]).max())
        size = max(min(_MOST_ROUNDS, _MOST_ROWS // rows, typical), 1)
        pieces = [run[at : at + size] for at in range(0, run.size, size)]
        for piece in pieces:
            if piece.size < min(least, size):
                continue
            lasted = int(lane.end_ns[last[piece[-1]] - 1] - lane.start_ns[first[piece[0]]])
            found.append((lasted / piece.size, piece))
    between = np.concatenate([np.diff(lane.start_ns[first[run]]) for run in runs])
    middle = float(np.median(between if between.size else [mean for mean, _ in found] or [0.0]))
    return min(found, key=lambda one: abs(one[0] - middle))[1] if found else None


def _measured(lane: OperationLane, number: IntArray, rounds: int, before_ns: int) -> Schedule:
    """Return each operation with the host's times, as far as calls and starts tell them.

    It begins with the first call, but not before `before_ns`, when what was before has ended: calls
    may run far ahead of the GPU.
    """
    tasks: list[ScheduledTask] = []
    free: dict[int, float] = {}
    engines: dict[int, float] = {}
    first = min(lane.start_ns[0], lane.call_start_ns[0] or lane.start_ns[0])
    zero = float(min(max(first, before_ns), lane.start_ns[0]))
    hosts, several = _Hosts(), bool(lane.thread.any())
    behind = _copies_behind(lane)
    for row in range(len(lane)):
        thread = int(lane.thread[row])
        host, latest = hosts.of(thread, int(number[row]))
        start, end = float(lane.start_ns[row]) - zero, float(lane.end_ns[row]) - zero
        stream = int(lane.stream[row])
        kind = int(lane.kind[row])
        ready = max(free.get(stream, 0.0), engines.get(kind, 0.0))
        launch = _LAUNCH_NS if several else _launch_ns(lane, row, behind, zero, host)
        called, returned = _call(lane, row, zero, host, ready, launch)
        went_on, returned = returned, returned - float(lane.reading_ns[row])
        # Between kernels nothing tells a wait from a launch that comes late, which is common.
        after_kernel = kind == WORK and bool(tasks) and tasks[-1].kind == WORK
        waits = host < latest <= called + 1_000 and not after_kernel
        blocks = bool(kind != WORK and returned >= end - _early_ns(end - start))
        tasks.append(
            ScheduledTask(
                kind,
                int(lane.bytes[row]),
                MemoryKind(int(lane.memory[row])),
                stream,
                int(number[row]),
                waits,
                max(called - (latest if waits else host), 0.0),
                max(start - max(called, ready), 0.0),
                end - start,
                blocks,
                returned - end if blocks else returned - called,
                name=int(lane.name[row]),
                queued=bool(kind != WORK and lane.asynchronous[row]),
                late=called >= ready and start >= ready + _BETWEEN_NS,
                thread=thread,
            )
        )
        hosts.times[thread] = max(host, went_on)
        hosts.latest[thread] = max(latest, end)
        free[stream] = max(ready, end)
        if kind != WORK:
            engines[kind] = free[stream]
    last = max(hosts.latest.values())
    tasks = _with_waits_for_rounds(tasks)
    if not lane.reading_ns.any():
        return Schedule(tuple(tasks), rounds, last)
    unread = min(ends_after(tasks), last)
    return Schedule(tuple(tasks), rounds, unread, last - unread)


@dataclass(slots=True)
class _Hosts:
    """By thread: when it goes on, and when all has ended that it submitted."""

    times: dict[int, float] = field(default_factory=dict)
    latest: dict[int, float] = field(default_factory=dict)
    round: int = 0
    joined: float = 0.0

    def of(self, thread: int, round_: int) -> tuple[float, float]:
        """Return both; a thread that is new in a round begins when all have ended the last one."""
        if round_ != self.round:
            self.round, self.joined = round_, max(self.times.values())
        return self.times.get(thread, self.joined), self.latest.get(thread, 0.0)


def _early_ns(lasts: float) -> float:
    """Return how long before its end a copy's call may return that waits for it."""
    return max(_RETURNS_SHARE * lasts, _RETURNS_NS if lasts > _RETURNS_NS else 0)


def _with_waits_for_rounds(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return tasks of a host that is some rounds ahead of the GPU, and waits there for their end.

    It waits by an event that no trace shows. So a long pause is taken for that if, in nearly each
    round, it is over soon after what was submitted so many rounds before has ended.
    """
    placed = replayed(tasks)
    ends = np.maximum.accumulate(_round_ends(placed))
    found: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    begins = _round_begins(tasks)
    for at, one in enumerate(placed):
        task = one.task
        if task.gap < PAUSE_NS or task.waits:
            continue
        for rounds in range(1, min(task.round, _MOST_AHEAD) + 1):
            ended = float(ends[task.round - rounds])
            if one.begun < ended <= one.submitted + _BETWEEN_NS:
                left = max(one.submitted - ended, 0.0)
                found[at - begins[task.round], rounds].append((at, left))
                break
    edited = list(tasks)
    for (_, rounds), mine in found.items():
        pause = float(np.median([tasks[at].gap for at, _ in mine]))
        late = float(np.median([left for _, left in mine]))
        if len(mine) >= _NEARLY_EACH * (len(begins) - rounds) and late <= _SOON * pause:
            for at, left in mine:
                edited[at] = replace(tasks[at], gap=left, rounds_back=rounds)
    return edited


def _round_begins(tasks: Sequence[ScheduledTask]) -> list[int]:
    """Return the place of the first task of each round."""
    numbers = np.array([task.round for task in tasks])
    return [int(at) for at in np.flatnonzero(np.diff(numbers, prepend=-1))]


def _round_ends(placed: Sequence[Placed]) -> NDArray[np.float64]:
    """Return when all of each round has ended."""
    found = np.zeros(placed[-1].task.round + 1)
    np.maximum.at(found, [one.task.round for one in placed], [one.end for one in placed])
    return found


def _copies_behind(lane: OperationLane) -> IntArray:
    """Return the row of the next copy of each row, itself included; the length where none is."""
    rows = np.where(lane.kind == WORK, len(lane), np.arange(len(lane)))
    return np.minimum.accumulate(rows[::-1])[::-1]


def _launch_ns(lane: OperationLane, row: int, behind: IntArray, zero: float, host: float) -> float:
    """Return what the host takes for a launch.

    Where it calls the next copy before the last kernel has ended, it has waited for none: its time
    until then is that of the launches.
    """
    copy = int(behind[row])
    if copy in (row, len(lane)) or not lane.call_start_ns[copy]:
        return _LAUNCH_NS
    if lane.call_start_ns[copy] >= lane.end_ns[copy - 1]:
        return _LAUNCH_NS
    each = (float(lane.call_start_ns[copy]) - zero - host) / (copy - row + 1)  # and to call it
    return min(max(each, 0.0), _MOST_LAUNCH_NS)


def _call(
    lane: OperationLane, row: int, zero: float, host: float, ready: float, launch_ns: float
) -> tuple[float, float]:
    """Return when the host submitted an operation and went on."""
    if lane.call_start_ns[row]:
        called = max(float(lane.call_start_ns[row]) - zero, host)
        return called, max(float(lane.call_end_ns[row]) - zero, called)
    start = float(lane.start_ns[row]) - zero
    held_up = start - ready > _LAUNCH_LAG_NS  # by the host: its stream was free
    called = start - _LAUNCH_LAG_NS if held_up else host
    called = max(min(called, start), host)
    # how long this launch took is in the pause before the next one that the GPU waited for
    return called, called + (min(launch_ns, _LAUNCH_NS) if held_up else launch_ns)


@dataclass(slots=True)
class _Thread:
    """Of a thread: since when it can go on, the task that it waited for, and its latest end."""

    time: float = 0.0
    after: int | None = None
    latest: int | None = None


def replayed(tasks: Sequence[ScheduledTask]) -> list[Placed]:
    """Return when each task would be submitted, start and end, and what it waits for."""
    placed: list[Placed] = []
    last_of: dict[object, int] = {}  # by stream, engine and number: the last task there
    threads: dict[int, _Thread] = {}
    joined, round_ = _Thread(), None
    lasts: dict[int, int] = {}  # by round: its task that ends last
    for place, task in enumerate(tasks):
        if task.round != round_:
            joined = replace(max(threads.values(), key=lambda one: one.time, default=joined))
            round_ = task.round
        own = threads.setdefault(task.thread, _Thread(joined.time, joined.after))
        awaited = [last_of[key] for n in task.awaits if (key := ("copy", n)) in last_of]
        if task.waits and own.latest is not None:
            awaited.append(own.latest)
        if task.rounds_back:
            awaited += [
                last for number, last in lasts.items() if number <= task.round - task.rounds_back
            ]
        for other in awaited:
            if placed[other].end > own.time:
                own.time, own.after = placed[other].end, other
        one = _placed(task, own.time, own.after, placed, last_of)
        placed.append(one)
        returns = one.submitted + (0.0 if task.blocks else task.hold)
        own.time, own.after = returns, None
        if task.blocks:
            own.time, own.after = max(one.end + task.hold, returns), place
        for key in (("stream", task.stream), ("engine", task.kind), ("copy", task.number)):
            last_of[key] = place
        if not task.ahead and (own.latest is None or one.end > placed[own.latest].end):
            own.latest = place
        if task.round not in lasts or one.end > placed[lasts[task.round]].end:
            lasts[task.round] = place
    return placed


def _placed(
    task: ScheduledTask,
    host: float,
    host_after: int | None,
    placed: Sequence[Placed],
    last_of: Mapping[object, int],
) -> Placed:
    """Return when a task starts that the host submits next; `host` is where it stands."""
    submitted = host + task.gap
    keys = [("stream", task.stream), *(("copy", number) for number in task.needs)]
    if task.kind != WORK:
        keys.append(("engine", task.kind))
    others = [last_of[key] for key in keys if key in last_of]
    after = max(others, key=lambda other: placed[other].end, default=None)
    free = 0.0 if after is None else placed[after].end
    lag = min(task.lag, _BETWEEN_NS) if task.late else task.lag
    if free <= submitted or (task.late and free + lag <= submitted + task.lag):
        after, free, lag = None, submitted, task.lag
    start = free + lag
    return Placed(task, host, submitted, free, start, start + task.lasts, host_after, after)


def ends_after(tasks: Sequence[ScheduledTask]) -> float:
    """Return the nanoseconds from the first submission to the last end."""
    return max((one.end for one in replayed(tasks)), default=0.0)


def changed_part(task: ScheduledTask) -> ScheduledTask:
    """Return the copy of what has changed of a copy's data, which the host gathers."""
    share = task.fresh / task.bytes
    staged = task.staged or is_staged(task)
    in_call = task.memory is MemoryKind.PAGEABLE and not task.blocks
    return replace(
        task,
        bytes=task.fresh,
        lasts=max(task.lasts * share, min(task.lasts, _SHORTEST_NS)),
        gap=task.gap * (share if staged else 1) + BYTE_NS * task.fresh,
        hold=task.hold * (share if in_call else 1),
    )


def pays(tasks: Iterable[ScheduledTask]) -> bool:
    """Whether to gather what has changed takes less than to copy the rest."""
    return sum(_taken(changed_part(task)) - _taken(task) for task in tasks) < 0


def _taken(task: ScheduledTask) -> float:
    """Return what a copy takes; the host may stay in its call for as long."""
    return task.gap + max(task.lasts, task.hold)


def is_staged(task: ScheduledTask, least: int = STAGED_BYTES) -> bool:
    """Whether the pause before a copy to the GPU is as long as copying its data on the host."""
    slowest, fastest = STAGED_RATES
    large = task.kind == IN and task.bytes >= least
    return large and slowest * task.gap <= task.bytes <= fastest * task.gap
