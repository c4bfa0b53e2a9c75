"""Edits of a schedule: what a program would submit if it were changed."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from lanescope.findings.advice.contents import NEEDLESS, Brings
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.schedule import (
    BYTE_NS,
    PAUSE_NS,
    STAGED_BYTES,
    STAGED_RATES,
    Schedule,
    Task,
    changed_part,
    is_staged,
)
from lanescope.findings.trace.copies import LOOKED_AT
from lanescope.trace.codes import MemoryKind

#: Nanoseconds of a copy of pinned memory, by its kind (`IN`, `OUT`) and bytes.
Lasts = Callable[[int, int], float]
#: Nanoseconds that the host spends to submit a copy, or to go on when one that it waited for ended.
_SUBMITS_NS, _WAKES_NS = 4_000, 6_000
#: Copies are gathered where so many follow each other, smaller than this in the mean.
_LEAST_COPIES, _MOST_BYTES = 4, 1 << 20
#: Copies between which a short kernel or two run are gathered, too, if there are so many of them.
_LEAST_BETWEEN_KERNELS, _FEW_KERNELS, _SHORT_KERNEL_NS = 8, 2, 20_000
#: Where a round sends no more bytes kernels can read them in the host's memory: a read of a line
#: over the link takes so long (`bench latency`), and one thread reads so many one by one; more are
#: read by many.
_MOST_IN_PLACE, _LINE_NS, _LINE_BYTES, _MOST_LINES = 64 << 10, 1_200.0, 128, 4
#: So many rounds on streams of their own show that they take turns.
_LEAST_TURNS = 4
#: To gather: nanoseconds for a copy, besides those for its bytes.
PIECE_NS = 200.0
#: Of the host's time between two calls of copies so much is for the data, as to make a view of it,
#: which has to be done for what is gathered, too; the rest is for the call.
OF_DATA = 0.5


#: The host has done nothing with data that came back where it goes on sooner than this and than
#: one thread reads them.
_TOUCHES_NS = 20_000
#: Results in pinned memory are read faster than those in pageable memory, by so many nanoseconds a
#: byte; of more than these bytes less stays in the cache, and of as many as the others nothing.
_CACHED_NS, _CACHED_BYTES, _UNCACHED_BYTES = 0.044, 16 << 20, 64 << 20
#: Results of so many bytes a round can stay on the GPU until those of many are read together.
_LEFT_THERE = 64 << 10
#: Where large copies show that a library stages, these smaller ones are, too.
_STAGED_WITH = 64 << 10


def no_time(kind: int, size: int) -> float:
    """Return 0 for any copy, where only what an edit changes matters."""
    return 0.0


def staged(tasks: Sequence[Task]) -> frozenset[int]:
    """Return the places of copies whose data the library seems to copy into pinned memory first.

    The pause before such a copy is as long as that takes; none where most of the large ones have no
    such pause.
    """
    into = [
        place
        for place, task in enumerate(tasks)
        if task.kind == IN and task.memory is MemoryKind.PINNED and task.bytes >= _STAGED_WITH
    ]
    large = [at for at in into if tasks[at].bytes >= STAGED_BYTES]
    if 2 * sum(is_staged(tasks[at]) for at in large) <= len(large):
        return frozenset()
    return frozenset(at for at in into if is_staged(tasks[at], _STAGED_WITH))


def pin(tasks: Sequence[Task], lasts: Lasts) -> list[Task]:
    """Return tasks with pinned memory in place of pageable; what waits still does.

    Where the host stages the data itself, it no longer does. The host stays in no asynchronous call
    that copies to the GPU. For copies back it waits at once, but for those that `wait_once` finds,
    and where rounds take turns on streams: there before the stream's next round.
    """
    once = wait_once(tasks)
    tasks = [replace(task, gap=_SUBMITS_NS) if task.staged else task for task in tasks]
    queued = {at for at, t in enumerate(tasks) if t.kind == IN and t.queued and is_pageable(t)}
    unblocked = once | queued
    tasks = [
        replace(task, blocks=False) if task.blocks and at in unblocked else task
        for at, task in enumerate(tasks)
    ]
    return [
        replace(
            task,
            memory=MemoryKind.PINNED,
            lag=0.0,
            lasts=lasts(task.kind, task.bytes),
            hold=_WAKES_NS if task.blocks else _SUBMITS_NS,
        )
        if is_pageable(task)
        else task
        for task in _waits_in_turns(_read_from_cache(tasks))
    ]


def _read_from_cache(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks whose host reads results of pageable copies as it would those of pinned ones.

    The library stores results past the host's caches, while a GPU writes into the last level of
    them. So what the host does behind copies back takes less, by `_CACHED_NS` a byte for as much as
    stays in the cache, and by half of it at most.
    """
    found: list[Task] = []
    all_unread: dict[int, int] = defaultdict(int)  # by thread
    for task in tasks:
        unread = all_unread[task.thread]
        if unread and task.gap >= _TOUCHES_NS:
            left = 1 - max(unread - _CACHED_BYTES, 0) / (_UNCACHED_BYTES - _CACHED_BYTES)
            sooner = _CACHED_NS * min(unread, _CACHED_BYTES) * max(left, 0)
            task = replace(task, gap=task.gap - min(sooner, task.gap / 2))
            all_unread[task.thread] = 0
        if task.kind == OUT and is_pageable(task):
            all_unread[task.thread] += task.bytes
        found.append(task)
    return found


def read_sooner_seconds(schedule: Schedule) -> float:
    """Return how much less of a round the host takes for results that it reads of its cache."""
    tasks = schedule.tasks
    less = sum(one.gap - new.gap for one, new in zip(tasks, _read_from_cache(tasks), strict=True))
    return less * 1e-9 / schedule.rounds


def _waits_in_turns(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks that wait for copies back when their stream is used again, if rounds take turns.

    Calls that are asynchronous, on another stream each round, are those of a program that has
    several rounds in flight; the host stays in them because of pageable memory alone.
    """
    streams: dict[int, set[int]] = defaultdict(set)
    for task in tasks:
        if _is_held_back(task):
            streams[task.round].add(task.stream)
    if not _take_turns(streams):
        return list(tasks)
    found: list[Task] = []
    open_: dict[int, Task] = {}  # by stream: the last copy back of a round before
    for place, task in enumerate(tasks):
        before = open_.get(task.stream)
        if before is not None and before.round < task.round:
            task = replace(task, awaits=(before.number,))
            del open_[task.stream]
        if _is_held_back(task):
            task = replace(task, blocks=False, number=-1 - place)  # no number of `prefetch`
            open_[task.stream] = task
        found.append(task)
    return found


def _take_turns(streams: Mapping[int, set[int]]) -> bool:
    """Whether rounds with one stream each have another one than the round before."""
    if len(streams) < _LEAST_TURNS or any(len(one) != 1 for one in streams.values()):
        return False
    return all(streams[one] != streams[other] for one, other in pairwise(sorted(streams)))


def wait_once(tasks: Sequence[Task]) -> frozenset[int]:
    """Return the places of copies back that a wait for the one behind them covers, once pinned.

    Their calls are asynchronous, and the host stays in them because of the memory alone; it does
    nothing with the data before the next copy.
    """
    return frozenset(
        place
        for place, (one, behind) in enumerate(pairwise(tasks))
        if _is_held_back(one) and _is_held_back(behind)
        and (one.round, one.stream) == (behind.round, behind.stream)
        and not behind.waits and behind.gap < PAUSE_NS
    )  # fmt: skip


def _is_held_back(task: Task) -> bool:
    """Whether the host stays in an asynchronous call that copies back for the memory alone."""
    return task.kind == OUT and task.queued and task.blocks and is_pageable(task)


def is_pageable(task: Task) -> bool:
    """Whether it copies from or to pageable memory."""
    return task.kind <= OUT and task.memory is MemoryKind.PAGEABLE


def wait_later(tasks: Sequence[Task], lasts: Lasts) -> list[Task]:
    """Return tasks that do not wait for each copy of pinned memory: what needs it is behind it.

    Calls that are asynchronous already are waited for where what the host submits next began behind
    their end, as after ``tensor.to("cuda")``. Copies back are waited for at the end, where the host
    did nothing with the data before it went on; so are those before a copy that it waits for.
    """
    found: list[Task] = []
    back: list[Task] = []  # copies back for which the host has not waited yet
    for one, behind in zip(tasks, [*tasks[1:], None], strict=True):
        if one.waits:
            if found and all(_needs_no_wait(copy, one) for copy in (found[-1], *back)):
                one = replace(one, waits=False)
            back = []
        if one.blocks:
            before = [copy for copy in back if copy.stream == one.stream]
            back = [copy for copy in back if copy.stream != one.stream]
            if all(_needs_no_wait(copy, behind) for copy in (one, *before)):
                one = replace(one, blocks=False, hold=_SUBMITS_NS)
        elif one.kind == OUT:
            back.append(one)
        found.append(one)
    return found


def _needs_no_wait(copy: Task, behind: Task | None) -> bool:
    if copy.kind == WORK or copy.memory is not MemoryKind.PINNED:
        return False
    reads = copy.bytes / STAGED_RATES[1]
    went_on = behind is not None and behind.gap < _TOUCHES_NS + reads
    return copy.kind == IN or (copy.bytes > LOOKED_AT and went_on)


def prefetch(tasks: Sequence[Task], lasts: Lasts) -> list[Task]:
    """Return tasks whose copies to the GPU are submitted one round ahead, on their own stream.

    Those of pageable memory stay where they are: the host waits in their calls all the same.
    """
    rounds: dict[int, list[tuple[int, Task]]] = defaultdict(list)  # with their places
    ahead: dict[int, list[tuple[int, Task]]] = defaultdict(list)
    for place, task in enumerate(tasks):
        moves = task.kind == IN and task.memory is not MemoryKind.PAGEABLE
        (ahead if moves else rounds)[task.round].append((place, task))
    if not ahead:
        return list(tasks)
    stream = max((task.stream for task in tasks), default=0) + 1
    found: list[Task] = []
    count = max((task.round for task in tasks), default=-1) + 1
    for number in range(-1, count):
        copies = [
            replace(
                copy,
                stream=stream,
                waits=False,
                blocks=False,
                hold=_SUBMITS_NS,
                lag=0.0,
                ahead=True,
                awaits=(),
                number=_number(number + 1, place),
            )
            for place, (_, copy) in enumerate(ahead[number + 1])
        ]
        found += copies + _behind(rounds[number], ahead[number])
    return found


def _behind(rest: Sequence[tuple[int, Task]], ahead: Sequence[tuple[int, Task]]) -> list[Task]:
    """Return what is left of a round whose copies went ahead, both with their places.

    On each stream what was behind a copy needs it. What the host waited for before such a copy it
    waits for before the rest.
    """
    if not (rest and ahead):
        return [task for _, task in rest]
    found: list[Task] = []
    before = [at for at, _ in ahead]
    needed: dict[int, int] = defaultdict(int)  # by stream: so many of the copies
    for place, task in rest:
        copies = bisect(before, place)
        new = range(needed[task.stream], copies)
        needed[task.stream] = max(copies, needed[task.stream])
        numbers = tuple(_number(task.round, copy) for copy in new)
        found.append(replace(task, needs=(*task.needs, *numbers)) if numbers else task)
    first = found[0]
    # what waits behind the copies that went ahead waited for these
    waits = first.waits and rest[0][0] < ahead[0][0]
    waited = any(copy.waits for _, copy in ahead) or waits
    awaited = (*first.awaits, *(number for _, copy in ahead for number in copy.awaits))
    return [replace(first, waits=waited, awaits=awaited), *found[1:]]


def _number(round_: int, place: int) -> int:
    return 1 + (round_ << 20) + place


def batch(tasks: Sequence[Task], lasts: Lasts, most_bytes: int = _MOST_BYTES) -> list[Task]:
    """Return tasks whose small copies that follow each other in a round are one copy.

    They are gathered in a buffer of their own, which is pinned. Short kernels between many copies
    to the GPU run behind that copy.

    Parameters
    ----------
    most_bytes
        Copies are gathered where the mean of those that follow each other is smaller.
    """
    found: list[Task] = []
    becomes: dict[int, int] = {}  # numbers of copies that are gathered
    ordered = copies_before_kernels(tasks)
    for _, same in groupby(ordered, key=lambda t: (t.kind, t.stream, t.round, t.memory)):
        run = list(same)
        total = sum(task.bytes for task in run)
        if run[0].kind == WORK or len(run) < _LEAST_COPIES or total >= len(run) * most_bytes:
            found += run
            continue
        first, last = run[0], run[-1]
        before = max(_gathering_ns(first) - first.gap, 0.0)
        gathering = PIECE_NS * len(run) + before + sum(map(_gathering_ns, run[1:]))
        number = max((task.number for task in run), key=abs)
        becomes |= {task.number: number for task in run if task.number}
        found.append(
            replace(
                first,
                number=number,
                needs=tuple(other for task in run for other in task.needs),
                awaits=tuple(other for task in run for other in task.awaits),
                bytes=total,
                memory=MemoryKind.PINNED,
                gap=first.gap + gathering,
                lag=0.0,
                lasts=lasts(first.kind, total),
                blocks=last.blocks,
                hold=last.hold if last.blocks else _SUBMITS_NS,
            )
        )
    return [_renumbered(task, becomes) for task in found] if becomes else found


def _gathering_ns(task: Task) -> float:
    """Return what the host takes before a piece lies in the buffer.

    What it makes just before, for as long as a thread takes to write so much at least, it writes
    there at once.
    """
    for_data = task.gap * (1 if task.gap >= PAUSE_NS else OF_DATA)
    gathered = for_data + BYTE_NS * task.bytes
    makes = task.kind == IN and STAGED_RATES[1] * task.gap >= task.bytes
    return min(gathered, task.gap) if makes else gathered


def copies_before_kernels(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in which copies to the GPU stand before the short kernels between them."""
    found: list[Task] = []
    run: list[Task] = []

    def end_run() -> None:
        copies = [task for task in run if task.kind == IN]
        if len(copies) >= _LEAST_BETWEEN_KERNELS:
            found.extend(copies + [task for task in run if task.kind == WORK])
        else:
            found.extend(run)
        run.clear()

    for task in tasks:
        if run and not _goes_on(run, task):
            end_run()
        if run or task.kind == IN:
            run.append(task)
        else:
            found.append(task)
    end_run()
    return found


def _goes_on(run: Sequence[Task], task: Task) -> bool:
    """Whether a task goes on with copies between which short kernels run."""
    first, kernels = run[0], 0
    for before in reversed(run):
        if before.kind == IN:
            break
        kernels += 1
    if (task.round, task.stream) != (first.round, first.stream):
        return False
    if task.kind == WORK:
        return kernels < _FEW_KERNELS and task.lasts <= _SHORT_KERNEL_NS
    return task.kind == IN and task.memory is first.memory


def _renumbered(task: Task, becomes: Mapping[int, int]) -> Task:
    """Return a task that waits for what copies were gathered in."""
    needs, awaits = (
        tuple(dict.fromkeys(becomes.get(number, number) for number in numbers))
        for numbers in (task.needs, task.awaits)
    )
    return replace(task, needs=needs, awaits=awaits)


def defer(tasks: Sequence[Task], lasts: Lasts, *, but: int = 0) -> list[Task]:
    """Return tasks without the few bytes that each round reads back: they are read at the end.

    Pieces of more than `_LEFT_THERE` in a round are data, which stay; so do long pauses of the host
    before what is not read. What more comes back is looked at later, see `look_later`.

    Parameters
    ----------
    but
        Pieces of so many bytes or fewer are read as before.
    """
    small: dict[int, int] = defaultdict(int)
    for task in tasks:
        small[task.round] += task.bytes if is_small_back(task) else 0
    found: list[Task] = []
    total = 0
    left: list[Task] = []  # out since the last task that stays
    for task in tasks:
        if is_small_back(task) and small[task.round] <= _LEFT_THERE and task.bytes > but:
            total += task.bytes
            left.append(task)
            continue
        found.append(_without(left, replace(task, waits=False)) if left else task)
        left = []
    if total:
        stream, number = tasks[-1].stream, tasks[-1].round
        pinned = MemoryKind.PINNED
        seconds = lasts(OUT, total)
        last = Task(OUT, total, pinned, stream, number, False, 0, 0, seconds, True, _WAKES_NS)
        found.append(_without(left, last))
    return look_later(found)


def look_later(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in which the host works on results while the GPU makes the next ones.

    A long pause behind copies back to pinned memory is taken for that work: the host waits before
    it for the copies before the last such pause alone. Not where anything is sent, as that may come
    of the results, nor where an edit before has copies that are waited for later.
    """
    if any(task.kind == IN or task.number for task in tasks):
        return list(tasks)
    found: list[Task] = []
    got: list[int] = []  # numbers of the copies back since the last pause
    before: list[int] = []  # of those between that and the one before it
    for place, task in enumerate(tasks):
        if found and found[-1].number in got:
            task = replace(task, waits=False)
        if got and task.gap >= PAUSE_NS:
            task = replace(task, awaits=(*task.awaits, *before))
            before, got = got, []
        if task.kind == OUT and task.bytes > LOOKED_AT and task.memory is MemoryKind.PINNED:
            got.append(-1 - place)  # no number of `prefetch`
            task = replace(task, number=-1 - place, blocks=False, hold=_SUBMITS_NS)
        found.append(task)
    return found if before else list(tasks)


def _without(left: Sequence[Task], behind: Task) -> Task:
    """Return what is behind tasks that are left out, with what else the host and it wait for."""
    return replace(
        behind,
        gap=behind.gap + sum(task.gap for task in left if task.gap >= PAUSE_NS),
        needs=(*(number for task in left for number in task.needs), *behind.needs),
        awaits=(*(number for task in left for number in task.awaits), *behind.awaits),
        behind=min((task.behind for task in (*left, behind) if task.behind), default=0),
    )


def is_small_back(task: Task) -> bool:
    """Whether it brings back few bytes, as numbers that the host looks at."""
    return task.kind == OUT and task.bytes <= _LEFT_THERE


def keep(tasks: Sequence[Task], lasts: Lasts, *, back: bool = True) -> list[Task]:
    """Return tasks without copies to the GPU of what is there already.

    Of copies that bring little that is new the rest goes, gathered by the host.

    Parameters
    ----------
    back
        Whether copies back are left out, too, whose data is sent again as it is.
    """
    needless = NEEDLESS if back else NEEDLESS - {Brings.SENT_BACK}
    found: list[Task] = []
    left: list[Task] = []  # out since the last task that stays
    for task in tasks:
        if task.brings in needless:
            left.append(replace(task, gap=0.0) if task.staged or is_staged(task) else task)
            continue
        if task.brings is Brings.IN_PART:
            task = changed_part(task)
        waits = task.waits or any(one.waits for one in left if one.kind == IN)
        found.append(_without(left, replace(task, waits=waits)) if left else task)
        left = []
    return found


def read_in_place(tasks: Sequence[Task], lasts: Lasts) -> list[Task]:
    """Return tasks without copies: kernels read and write the few bytes in pinned host memory.

    The kernel behind what is no longer sent takes longer by a read over the link for each line of
    it, as far as one thread reads them one by one, and the one before what no longer comes back by
    a write; the host waits for that kernel where it waited for the copy. Not where a round sends
    more, or more comes back, which may be data that kernels add up there, or pageable memory.
    """
    if not _is_little(tasks):
        return list(tasks)
    found: list[Task] = []
    left: list[Task] = []  # out since the last task that stays
    for task in tasks:
        if task.kind == OUT and found:
            found[-1] = _written_in_place(found[-1], task)
        if task.kind != WORK:
            left.append(task)
            continue
        sent = [one.bytes for one in left if one.kind == IN]
        reads = sum(min(-(-size // _LINE_BYTES), _MOST_LINES) for size in sent)
        waits = task.waits or any(one.waits for one in left)
        gap = task.gap + sum(one.gap for one in left)
        found.append(replace(task, lasts=task.lasts + reads * _LINE_NS, waits=waits, gap=gap))
        left = []
    return found


def _is_little(tasks: Sequence[Task]) -> bool:
    """Whether no round copies more than its kernels can read and write in pinned host memory."""
    moved: dict[tuple[int, int], int] = defaultdict(int)
    for task in tasks:
        if task.kind == WORK:
            continue
        if task.memory is not MemoryKind.PINNED:
            return False
        moved[task.kind, task.round] += task.bytes
    most = {IN: _MOST_IN_PLACE, OUT: LOOKED_AT}
    return all(size <= most[kind] for (kind, _), size in moved.items())


def _written_in_place(kernel: Task, copy: Task) -> Task:
    """Return a kernel that writes what a copy behind it has brought back."""
    kernel = replace(kernel, lasts=kernel.lasts + _LINE_NS)
    return replace(kernel, blocks=True, hold=_WAKES_NS) if copy.blocks else kernel


def faster_copies(tasks: Sequence[Task], lasts: Lasts, times: float) -> list[Task]:
    """Return tasks whose copies run so many times as fast, as over another link."""
    return [
        replace(task, lasts=task.lasts / times) if task.kind != WORK else task for task in tasks
    ]


def faster_kernels(tasks: Sequence[Task], lasts: Lasts, times: float) -> list[Task]:
    """Return tasks whose kernels run so many times as fast, as on another GPU."""
    return [
        replace(task, lasts=task.lasts / times) if task.kind == WORK else task for task in tasks
    ]


#: What an edit makes of tasks.
Edit = Callable[[Sequence[Task], Lasts], list[Task]]
EDITS: dict[str, Edit] = {
    "pin": pin,
    "async": wait_later,
    "prefetch": prefetch,
    "batch": batch,
    "defer": defer,
    "keep": keep,
    "mapped": read_in_place,
}
