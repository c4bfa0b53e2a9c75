"""Edits of a schedule: what a program would submit if it were changed."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.pinned import Lasts, pin
from lanescope.findings.advice.resent import NEEDLESS, Brings
from lanescope.findings.advice.schedule import (
    BYTE_NS,
    PAUSE_NS,
    STAGED_RATES,
    SUBMITS_NS,
    TOUCHES_NS,
    WAKES_NS,
    ScheduledTask,
    changed_part,
    is_staged,
)
from lanescope.findings.trace.copies import LOOKED_AT
from lanescope.trace.codes import MemoryKind

#: Copies are gathered where so many follow each other, smaller than this in the mean.
_LEAST_COPIES, _MOST_BYTES = 4, 1 << 20
#: Copies between which a short kernel or two run are gathered, too, if there are so many of them.
_LEAST_BETWEEN_KERNELS, _FEW_KERNELS, _SHORT_KERNEL_NS = 8, 2, 20_000
#: Where a round sends no more bytes kernels can read them in the host's memory: a read of a line
#: over the link takes so long (`bench latency`), and one thread reads so many one by one; more are
#: read by many.
_MOST_IN_PLACE, _LINE_NS, _LINE_BYTES, _MOST_LINES = 64 << 10, 1_200.0, 128, 4
#: To gather: nanoseconds for a copy, besides those for its bytes.
PIECE_NS = 200.0
#: Of the host's time between two calls of copies so much is for the data, as to make a view of it,
#: which has to be done for what is gathered, too; the rest is for the call.
OF_DATA = 0.5
#: Results of so many bytes a round can stay on the GPU until those of many are read together.
_LEFT_THERE = 64 << 10


def no_time(kind: int, size: int) -> float:
    """Return 0 for any copy, where only what an edit changes matters."""
    return 0.0


def wait_later(tasks: Sequence[ScheduledTask], lasts: Lasts) -> list[ScheduledTask]:
    """Return tasks that do not wait for each copy of pinned memory: what needs it is behind it.

    Calls that are asynchronous already are waited for where what the host submits next began behind
    their end, as after ``tensor.to("cuda")``. Copies back are waited for at the end, where the host
    did nothing with the data before it went on; so are those before a copy that it waits for.
    """
    found: list[ScheduledTask] = []
    back: list[ScheduledTask] = []  # copies back for which the host has not waited yet
    for one, behind in zip(tasks, [*tasks[1:], None], strict=True):
        if one.waits:
            if found and all(_needs_no_wait(copy, one) for copy in (found[-1], *back)):
                one = replace(one, waits=False)
            back = []
        if one.blocks:
            before = [copy for copy in back if copy.stream == one.stream]
            back = [copy for copy in back if copy.stream != one.stream]
            if all(_needs_no_wait(copy, behind) for copy in (one, *before)):
                one = replace(one, blocks=False, hold=SUBMITS_NS)
        elif one.kind == OUT:
            back.append(one)
        found.append(one)
    return found


def _needs_no_wait(copy: ScheduledTask, behind: ScheduledTask | None) -> bool:
    if copy.kind == WORK or copy.memory is not MemoryKind.PINNED:
        return False
    reads = copy.bytes / STAGED_RATES[1]
    went_on = behind is not None and behind.gap < TOUCHES_NS + reads
    return copy.kind == IN or (copy.bytes > LOOKED_AT and went_on)


def prefetch(tasks: Sequence[ScheduledTask], lasts: Lasts) -> list[ScheduledTask]:
    """Return tasks whose copies to the GPU are submitted one round ahead, on their own stream.

    Those of pageable memory stay where they are: the host waits in their calls all the same.
    """
    rounds: dict[int, list[tuple[int, ScheduledTask]]] = defaultdict(list)  # with their places
    ahead: dict[int, list[tuple[int, ScheduledTask]]] = defaultdict(list)
    for place, task in enumerate(tasks):
        moves = task.kind == IN and task.memory is not MemoryKind.PAGEABLE
        (ahead if moves else rounds)[task.round].append((place, task))
    if not ahead:
        return list(tasks)
    stream = max((task.stream for task in tasks), default=0) + 1
    found: list[ScheduledTask] = []
    count = max((task.round for task in tasks), default=-1) + 1
    for number in range(-1, count):
        copies = [
            replace(
                copy,
                stream=stream,
                waits=False,
                blocks=False,
                hold=SUBMITS_NS,
                lag=0.0,
                ahead=True,
                awaits=(),
                number=_number(number + 1, place),
            )
            for place, (_, copy) in enumerate(ahead[number + 1])
        ]
        found += copies + _behind(rounds[number], ahead[number])
    return found


def _behind(
    rest: Sequence[tuple[int, ScheduledTask]], ahead: Sequence[tuple[int, ScheduledTask]]
) -> list[ScheduledTask]:
    """Return what is left of a round whose copies went ahead, both with their places.

    On each stream what was behind a copy needs it. What the host waited for before such a copy it
    waits for before the rest.
    """
    if not (rest and ahead):
        return [task for _, task in rest]
    found: list[ScheduledTask] = []
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


def batch(
    tasks: Sequence[ScheduledTask], lasts: Lasts, most_bytes: int = _MOST_BYTES
) -> list[ScheduledTask]:
    """Return tasks whose small copies that follow each other in a round are one copy.

    They are gathered in a buffer of their own, which is pinned. Short kernels between many copies
    to the GPU run behind that copy.

    Parameters
    ----------
    most_bytes
        Copies are gathered where the mean of those that follow each other is smaller.
    """
    found: list[ScheduledTask] = []
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
                hold=last.hold if last.blocks else SUBMITS_NS,
            )
        )
    return [_renumbered(task, becomes) for task in found] if becomes else found


def _gathering_ns(task: ScheduledTask) -> float:
    """Return what the host takes before a piece lies in the buffer.

    What it makes just before, for as long as a thread takes to write so much at least, it writes
    there at once.
    """
    for_data = task.gap * (1 if task.gap >= PAUSE_NS else OF_DATA)
    gathered = for_data + BYTE_NS * task.bytes
    makes = task.kind == IN and STAGED_RATES[1] * task.gap >= task.bytes
    return min(gathered, task.gap) if makes else gathered


def copies_before_kernels(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return tasks in which copies to the GPU stand before the short kernels between them."""
    found: list[ScheduledTask] = []
    run: list[ScheduledTask] = []

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


def _goes_on(run: Sequence[ScheduledTask], task: ScheduledTask) -> bool:
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


def _renumbered(task: ScheduledTask, becomes: Mapping[int, int]) -> ScheduledTask:
    """Return a task that waits for what copies were gathered in."""
    needs, awaits = (
        tuple(dict.fromkeys(becomes.get(number, number) for number in numbers))
        for numbers in (task.needs, task.awaits)
    )
    return replace(task, needs=needs, awaits=awaits)


def defer(tasks: Sequence[ScheduledTask], lasts: Lasts, *, but: int = 0) -> list[ScheduledTask]:
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
    found: list[ScheduledTask] = []
    total = 0
    left: list[ScheduledTask] = []  # out since the last task that stays
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
        last = ScheduledTask(
            OUT, total, pinned, stream, number, False, 0, 0, seconds, True, WAKES_NS
        )
        found.append(_without(left, last))
    return look_later(found)


def look_later(tasks: Sequence[ScheduledTask]) -> list[ScheduledTask]:
    """Return tasks in which the host works on results while the GPU makes the next ones.

    A long pause behind copies back to pinned memory is taken for that work: the host waits before
    it for the copies before the last such pause alone. Not where anything is sent, as that may come
    of the results, nor where an edit before has copies that are waited for later.
    """
    if any(task.kind == IN or task.number for task in tasks):
        return list(tasks)
    found: list[ScheduledTask] = []
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
            task = replace(task, number=-1 - place, blocks=False, hold=SUBMITS_NS)
        found.append(task)
    return found if before else list(tasks)


def _without(left: Sequence[ScheduledTask], behind: ScheduledTask) -> ScheduledTask:
    """Return what is behind tasks that are left out, with what else the host and it wait for."""
    return replace(
        behind,
        gap=behind.gap + sum(task.gap for task in left if task.gap >= PAUSE_NS),
        needs=(*(number for task in left for number in task.needs), *behind.needs),
        awaits=(*(number for task in left for number in task.awaits), *behind.awaits),
        rounds_back=min(
            (task.rounds_back for task in (*left, behind) if task.rounds_back), default=0
        ),
    )


def is_small_back(task: ScheduledTask) -> bool:
    """Whether it brings back few bytes, as numbers that the host looks at."""
    return task.kind == OUT and task.bytes <= _LEFT_THERE


def keep(tasks: Sequence[ScheduledTask], lasts: Lasts, *, back: bool = True) -> list[ScheduledTask]:
    """Return tasks without copies to the GPU of what is there already.

    Of copies that bring little that is new the rest goes, gathered by the host.

    Parameters
    ----------
    back
        Whether copies back are left out, too, whose data is sent again as it is.
    """
    needless = NEEDLESS if back else NEEDLESS - {Brings.SENT_BACK}
    found: list[ScheduledTask] = []
    left: list[ScheduledTask] = []  # out since the last task that stays
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


def read_in_place(tasks: Sequence[ScheduledTask], lasts: Lasts) -> list[ScheduledTask]:
    """Return tasks without copies: kernels read and write the few bytes in pinned host memory.

    The kernel behind what is no longer sent takes longer by a read over the link for each line of
    it, as far as one thread reads them one by one, and the one before what no longer comes back by
    a write; the host waits for that kernel where it waited for the copy. Not where a round sends
    more, or more comes back, which may be data that kernels add up there, or pageable memory.
    """
    if not _is_little(tasks):
        return list(tasks)
    found: list[ScheduledTask] = []
    left: list[ScheduledTask] = []  # out since the last task that stays
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


def _is_little(tasks: Sequence[ScheduledTask]) -> bool:
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


def _written_in_place(kernel: ScheduledTask, copy: ScheduledTask) -> ScheduledTask:
    """Return a kernel that writes what a copy behind it has brought back."""
    kernel = replace(kernel, lasts=kernel.lasts + _LINE_NS)
    return replace(kernel, blocks=True, hold=WAKES_NS) if copy.blocks else kernel


def faster_copies(
    tasks: Sequence[ScheduledTask], lasts: Lasts, times: float
) -> list[ScheduledTask]:
    """Return tasks whose copies run so many times as fast, as over another link."""
    return [
        replace(task, lasts=task.lasts / times) if task.kind != WORK else task for task in tasks
    ]


def faster_kernels(
    tasks: Sequence[ScheduledTask], lasts: Lasts, times: float
) -> list[ScheduledTask]:
    """Return tasks whose kernels run so many times as fast, as on another GPU."""
    return [
        replace(task, lasts=task.lasts / times) if task.kind == WORK else task for task in tasks
    ]


#: What an edit makes of tasks.
Edit = Callable[[Sequence[ScheduledTask], Lasts], list[ScheduledTask]]
EDITS: dict[str, Edit] = {
    "pin": pin,
    "async": wait_later,
    "prefetch": prefetch,
    "batch": batch,
    "defer": defer,
    "keep": keep,
    "mapped": read_in_place,
}
