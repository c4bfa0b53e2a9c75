"""Which changes of a phase are tried, and on which conditions each is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from lanescope.errors import NotMeasuredError
from lanescope.findings.advice.advice import MANY_KERNELS, Candidate, Step
from lanescope.findings.advice.edits import (
    OF_DATA,
    PIECE_NS,
    copies_before_kernels,
    look_later,
    no_time,
    read_in_place,
)
from lanescope.findings.advice.lanes import IN
from lanescope.findings.advice.phase import Phase, RoundPredictor, WorkloadState, best_streams
from lanescope.findings.advice.pinned import is_pageable, pin, wait_once
from lanescope.findings.advice.resent import AGAIN, NEEDLESS, Brings
from lanescope.findings.advice.schedule import BYTE_NS, LEAST_ROUNDS, ScheduledTask
from lanescope.prediction.parameters import Direction
from lanescope.prediction.predictor import Method, Workload
from lanescope.trace.codes import MemoryKind
from lanescope.units.sizes import size_text

#: Copies are worth to be gathered where there are so many of a direction, each below a MiB:
#: from there on the bytes take most of the time.
_LEAST_COPIES, _MOST_BYTES = 4, 1 << 20
#: So many copies of a direction are taken for arrays that can be cut each.
_FEW_ARRAYS = 8
#: Bytes per second that the memory of no GPU moves: kernels that took less time than this have
#: not read and written all that was copied.
_MOST_RATE = 25e12
#: What overlaps has to hide so much of a round at best.
_LEAST_HIDDEN = 0.01
#: So many rounds are predicted together where they overlap each other.
_ROUNDS_TOGETHER = 16


def present(phase: Phase) -> WorkloadState | None:
    """Return what a phase does now; None where no model knows it."""
    if phase.method is None:
        return None
    streams = phase.parts if phase.method is Method.STREAMS else 1
    return WorkloadState(phase.workload, phase.method, streams, phase.waited)


def candidates(phase: Phase, predict: RoundPredictor) -> Iterator[tuple[Candidate, WorkloadState]]:
    """Yield changes, and what the phase is after each.

    Only what can be predicted is: memory that the parameters do not know is left out.
    """
    schedule = phase.schedule  # where there is one the replay finds these
    replayed = (_pin, _batch) if schedule is None else ()
    ahead = (_rounds,) if schedule is None or schedule.rounds < LEAST_ROUNDS else ()
    for make in (*replayed, *ahead, _wait_less, _streams, _batch_in_streams, _mapped, _hybrid):
        try:
            found = make(phase, predict)
        except NotMeasuredError:
            continue
        if found is None:
            continue
        steps, sentence, state = found
        yield Candidate(steps, sentence, conditions(steps, phase)), state


Found = tuple[tuple[Step, ...], str, WorkloadState] | None


def _pageable(phase: Phase) -> bool:
    return phase.method is Method.PAGEABLE


def _first(phase: Phase) -> tuple[tuple[Step, ...], str]:
    """Return what any overlap takes before, and its words."""
    steps: tuple[Step, ...] = (Step.PIN,) if _pageable(phase) else ()
    words = ["pin the host memory"] if steps else []
    if phase.synchronous:
        steps, words = (*steps, Step.ASYNC), [*words, "copy asynchronously"]
    return steps, "".join(f"{word}, " for word in words)


def _pin(phase: Phase, predict: RoundPredictor) -> Found:
    if not _pageable(phase):
        return None
    state = WorkloadState(phase.workload, Method.EXPLICIT, waited=phase.waited)
    return (Step.PIN,), "pin the host memory", state


def _wait_less(phase: Phase, predict: RoundPredictor) -> Found:
    """Hand over all of a round, and wait once."""
    work = phase.workload
    arrays = {Direction.H2D: work.h2d_arrays, Direction.D2H: work.d2h_arrays}
    if all(arrays[direction] < 2 for direction in phase.waited):
        return None
    steps, words = _first(phase)
    return steps, f"{words}wait once a round", WorkloadState(work, Method.EXPLICIT)


def _batch(phase: Phase, predict: RoundPredictor) -> Found:
    """Gather small copies of a direction into one, for each part."""
    state, many = present(phase), small_copies(phase)
    if not many or state is None:
        return None
    state = replace(state, workload=_gathered(phase, many), gathering=_gather_seconds(phase, many))
    return (Step.BATCH,), _gathering(phase, many), state


def gathering(phase: Phase) -> str | None:
    """Return in words how the small copies of a round are gathered; None where there are none."""
    many = small_copies(phase)
    return _gathering(phase, many) if many else None


def small_copies(phase: Phase) -> tuple[Direction, ...]:
    """Return the directions with many small copies in a round."""
    work, parts = phase.workload, phase.cut_in
    directions = (
        (Direction.H2D, work.h2d_bytes, work.h2d_arrays),
        (Direction.D2H, work.d2h_bytes, work.d2h_arrays),
    )
    return tuple(
        direction
        for direction, moved, count in directions
        if count >= _LEAST_COPIES and moved < count * parts * _MOST_BYTES
    )


def pins_small_copies(steps: Collection[Step], phase: Phase) -> bool:
    """Whether these steps pin memory, all of it for copies below a MiB in the mean."""
    if Step.PIN not in steps:
        return False
    if phase.schedule is None:
        kinds = [copy for copy in phase.copies if copy.memory is MemoryKind.PAGEABLE]
        return all(copy.bytes < copy.count * _MOST_BYTES for copy in kinds)
    sizes: dict[int, list[int]] = defaultdict(list)
    for task in phase.schedule.tasks:
        needed = Step.KEEP not in steps or task.brings not in NEEDLESS
        if needed and (task.staged or is_pageable(task)):
            sizes[task.kind].append(task.bytes)
    return all(sum(mine) < len(mine) * _MOST_BYTES for mine in sizes.values())


def _gathered(phase: Phase, many: tuple[Direction, ...]) -> Workload:
    fewer = {f"{direction}_arrays": 1 for direction in many}
    return replace(phase.workload, **fewer)  # type: ignore[arg-type]


def _gather_seconds(phase: Phase, many: tuple[Direction, ...]) -> float:
    """Return what the host takes for that in a round, as the replay has it."""
    small = [kind for kind in phase.copies if kind.direction in many]
    between = OF_DATA * (phase.call_gap_seconds or 0.0)
    pieces = sum(PIECE_NS * kind.count + BYTE_NS * kind.bytes for kind in small) * 1e-9
    return pieces + between * sum(max(kind.count - 1, 0) for kind in small)


def _gathering(phase: Phase, many: tuple[Direction, ...]) -> str:
    arrays = {Direction.H2D: phase.workload.h2d_arrays, Direction.D2H: phase.workload.d2h_arrays}
    counts = " and ".join(
        f"{arrays[direction] * phase.cut_in} {direction} copies" for direction in many
    )
    left = phase.cut_in * len(many)
    through = "a pinned buffer" if left == 1 else "pinned buffers"
    return f"gather the {counts} of a round into {left}, through {through}"


def _in_parts(phase: Phase, method: Method) -> Callable[[int], WorkloadState]:
    """Return what makes the state of a round that is cut into so many parts.

    Few arrays are cut each, so that all parts copy a piece of each; of many each part copies
    some. The kernels of all parts take longer together where parts become short.
    """
    work, cut = phase.workload, phase.method is Method.STREAMS

    def arrays(count: int, parts: int) -> int:
        return count if cut or count <= _FEW_ARRAYS else max(round(count / parts), 1)

    def state(parts: int) -> WorkloadState:
        down, up = arrays(work.h2d_arrays, parts), arrays(work.d2h_arrays, parts)
        added = phase.kernels.added_seconds(parts / phase.cut_in) if phase.kernels else 0.0
        kernels = work.kernel_seconds + added
        workload = replace(work, h2d_arrays=down, d2h_arrays=up, kernel_seconds=kernels)
        return WorkloadState(workload, method, parts)

    return state


def _overlaps(phase: Phase) -> bool:
    """Whether there is what could run at the same time, as far as it was traced, and not little."""
    if phase.kernel_seconds is None:
        return False
    times = [one.value for one in (phase.h2d_seconds, phase.d2h_seconds, phase.kernel_seconds)]
    return sum(times) - max(times) >= _LEAST_HIDDEN * phase.seconds.value


def _streams(phase: Phase, predict: RoundPredictor) -> Found:
    """Cut the round into parts that overlap."""
    if not _overlaps(phase):
        return None
    steps, words = _first(phase)
    best = best_streams(predict, _in_parts(phase, Method.STREAMS), phase.workload.most_streams)
    if phase.method is Method.STREAMS:
        what = f"use {best.streams} streams in place of {phase.parts}"
        return ((Step.STREAMS,), what, best) if best.streams != phase.parts else None
    what = f"cut a round into {best.streams} parts on streams of their own"
    ways = phase.h2d_seconds.value, phase.d2h_seconds.value
    if min(ways) > max(0.1 * max(ways), phase.workload.kernel_seconds):
        what += ", so that copies go both ways at once"
    return (*steps, Step.STREAMS), words + what, best


def _batch_in_streams(phase: Phase, predict: RoundPredictor) -> Found:
    """Gather small copies, and cut what is gathered into parts that overlap."""
    many = small_copies(phase)
    if not many or not _overlaps(phase) or phase.method is Method.STREAMS:
        return None
    steps, words = _first(phase)
    gathered = replace(phase, workload=_gathered(phase, many))
    best = best_streams(predict, _in_parts(gathered, Method.STREAMS), None)
    best = replace(best, gathering=_gather_seconds(phase, many))
    what = f"{_gathering(phase, many)}, cut into {best.streams} parts on streams of their own"
    return (*steps, Step.BATCH, Step.STREAMS), words + what, best


def _rounds(phase: Phase, predict: RoundPredictor) -> Found:
    """Let the next round's data go in while this one is worked on and comes back."""
    if not _overlaps(phase) or phase.rounds < 3 or phase.method is Method.STREAMS:
        return None
    count = min(phase.rounds, _ROUNDS_TOGETHER)
    work = phase.workload
    many = replace(
        work,
        h2d_bytes=work.h2d_bytes * count,
        d2h_bytes=work.d2h_bytes * count,
        kernel_seconds=work.kernel_seconds * count,
    )
    steps, words = _first(phase)
    what = "copy the next round's data in while this round computes and comes back"
    state = WorkloadState(many, Method.STREAMS, count, rounds=count)
    return (*steps, Step.PREFETCH), f"{words}{what} (two buffers, two streams)", state


def _moved_by_kernels(phase: Phase) -> bool:
    """Whether the kernels took long enough to have read and written all that was copied."""
    work = phase.workload
    return work.kernel_seconds * _MOST_RATE > work.h2d_bytes + work.d2h_bytes


def _mapped(phase: Phase, predict: RoundPredictor) -> Found:
    """Let kernels read and write the host's memory."""
    if not _moved_by_kernels(phase):
        return None
    state = WorkloadState(phase.workload, Method.IMPLICIT)
    predict(state)  # refuses where mapped memory was not measured
    what = "let the kernels read and write mapped host memory, and copy nothing"
    if _pageable(phase):
        return (Step.PIN, Step.MAPPED), f"pin the host memory, {what}", state
    return (Step.MAPPED,), what, state


def _hybrid(phase: Phase, predict: RoundPredictor) -> Found:
    """Copy in by parts, and let kernels write the host's memory."""
    work = phase.workload
    if not _moved_by_kernels(phase) or not work.d2h_bytes or not _overlaps(phase):
        return None
    steps, words = _first(phase)
    best = best_streams(predict, _in_parts(phase, Method.HYBRID), work.most_streams)
    what = (
        f"cut a round into {best.streams} parts on streams of their own, whose kernels write "
        "mapped host memory"
    )
    return (*steps, Step.HYBRID), words + what, best


#: Bytes that a host may have made of results that it has looked at.
_MOST_FED_BACK = 64 << 10
#: Stands where nobody knows what pinning takes.
REUSED = "The same buffers are used again and again: pinning takes longer than copying."
#: The same of what ran once.
REPEATED = (
    "The program does this again with the same buffers: it ran once here, and to pin memory for "
    "one round takes longer than it gains."
)
#: Of `Step.KEEP`.
_UNCHANGED = (
    "What is sent has not changed since it was on the GPU last, by a hash of all bytes of some "
    "rounds; it is so in the others, too."
)
_CHANGED_IN_PART = (
    "Of data that changes in part, by hashes of 4 KiB each in some rounds, it changes as little in "
    "the others, and the program can tell where, without reading all of it."
)
_NO_TEST = (
    "What comes again is no test with a few sets of data: nearly all that a round sends was sent "
    "before."
)
#: With a smaller share of what a round sends that is new, or is not known, it may be such a test.
_LEAST_NEW = 0.01
#: Data whose code is not that of data that is sent again whole.
_OTHERWISE_KEPT = frozenset((Brings.RETURNED, Brings.IN_PART))
_OF_STEPS = {
    Step.PIN: (
        REUSED,
        "The memory may be pinned: the machine can spare it, and limits (ulimit -l, of a "
        "container) allow it.",
    ),
    Step.ASYNC: ("The host does not touch a buffer before it has waited for its copy.",),
    Step.BATCH: (
        "What is copied can lie in one buffer, or be gathered there for less than is gained.",
        "Nothing waits for one of the copies before the next is made.",
    ),
    Step.STREAMS: (
        "The work can be cut into parts that do not need each other's results.",
        "Nothing else waits between the copies and kernels of a round.",
    ),
    Step.DEFER: (
        "Nothing on the host depends on a result before all of them are there.",
        "The GPU keeps the results until they are read together.",
    ),
    Step.PREFETCH: (
        "A round does not need what the one before it returns.",
        "The host can prepare the next round's input before this one has ended, and waits for "
        "what this one returns only behind that.",
        "There is memory for the data of two rounds, on the GPU and pinned.",
    ),
    Step.MAPPED: (
        "The kernels read and write each byte once, in order: each further time crosses the "
        "link again.",
        "The kernels hide the link's latency by many accesses at the same time.",
    ),
    Step.HYBRID: (
        "The work can be cut into parts that do not need each other's results.",
        "The kernels write each byte of the results once, in order.",
    ),
    Step.PLACE: (),
}


#: Of `Step.MAPPED` where a round copies little.
_OF_FEW_BYTES = (
    "The kernels write each byte of the results once: what they add up there crosses the link each "
    "time.",
    "One thread reads no more than 512 bytes of what is sent one after the other.",
)
#: Of `Step.DEFER` where results are looked at while the GPU makes the next ones.
_OF_LOOKING_LATER = (
    "Nothing that the GPU does next depends on what the host makes of the results.",
    "There is pinned memory for the results of two rounds.",
)


def looks_later(phase: Phase, steps: Collection[Step]) -> bool:
    """Whether `Step.DEFER`, one of the steps, has the host look at results a round later.

    It does so while the GPU makes the next ones, and only at what comes to pinned memory.
    """
    return Step.DEFER in steps and _changes(look_later, steps, phase)


def in_place(phase: Phase, steps: Collection[Step]) -> bool:
    """Whether `Step.MAPPED`, one of the steps, has kernels read and write a few bytes in place.

    Of many kernels nobody knows which of them read what was sent.
    """
    few = Step.MAPPED in steps and phase.launches < MANY_KERNELS
    return few and _changes(lambda tasks: read_in_place(tasks, no_time), steps, phase)


def _changes(
    edit: Callable[[Sequence[ScheduledTask]], list[ScheduledTask]],
    steps: Collection[Step],
    phase: Phase,
) -> bool:
    """Whether an edit changes the schedule of a phase, pinned if that is one of the steps."""
    tasks = [] if phase.schedule is None else list(phase.schedule.tasks)
    if Step.PIN in steps:
        tasks = pin(tasks, no_time)
    return edit(tasks) != tasks


def waited_once(steps: tuple[Step, ...], phase: Phase) -> int:
    """Return how many copies back of a round are waited for once, as they become pinned.

    Their calls are asynchronous already, so that `Step.ASYNC` is no step of its own; 0: none.
    """
    if phase.schedule is None or Step.PIN not in steps or {Step.ASYNC, Step.BATCH} & {*steps}:
        return 0
    covered = round(len(wait_once(phase.schedule.tasks)) / phase.schedule.rounds)
    return covered + 1 if covered else 0


def conditions(steps: tuple[Step, ...], phase: Phase) -> tuple[str, ...]:
    """Return what has to hold for these steps, for a phase as it is."""
    waits = (Step.ASYNC,) if waited_once(steps, phase) else ()
    of_steps = _OF_STEPS | ({Step.DEFER: _OF_LOOKING_LATER} if looks_later(phase, steps) else {})
    of_steps |= {Step.MAPPED: _OF_FEW_BYTES} if in_place(phase, steps) else {}
    of_steps |= {Step.KEEP: (*_unchanged(phase), _room(phase))}
    found = [sentence for step in (*steps, *waits) for sentence in of_steps[step]]
    if phase.rounds_in_run == 1:
        found = [REPEATED if sentence == REUSED else sentence for sentence in found]
    found += _of_phase(steps, phase)
    return tuple(dict.fromkeys(found))


def _unchanged(phase: Phase) -> list[str]:
    """Return in sentences what data has to be like that stays on the GPU."""
    brought = _brought(phase)
    in_part = Brings.IN_PART in brought
    whole = brought & NEEDLESS or not in_part
    said = {_UNCHANGED: whole, _NO_TEST: _sends_hardly_new(phase), _CHANGED_IN_PART: in_part}
    return [sentence for sentence, is_so in said.items() if is_so]


def _sends_hardly_new(phase: Phase) -> bool:
    """Whether nearly all that it sends comes by turns."""
    tasks = () if phase.schedule is None else phase.schedule.tasks
    sent = [task for task in tasks if task.kind == IN]
    again = sum(task.bytes for task in sent if task.brings == Brings.BY_TURNS)
    return again > (1 - _LEAST_NEW) * sum(task.bytes for task in sent)


def _room(phase: Phase) -> str:
    """Return in a sentence what the GPU has to keep."""
    stays = phase.resident
    if stays is None:
        return "The GPU has room to keep it, and no kernel writes to it in between."
    arrays, it = ("1 array", "it") if stays.arrays == 1 else (f"{stays.arrays} arrays", "them")
    besides = " and what comes back" if phase.schedule is not None and comes_back(phase) else ""
    return (
        f"The GPU has room to keep {arrays} ({size_text(stays.bytes)}){besides}, and no kernel "
        f"writes to {'them' if besides else it} in between."
    )


def may_feed_back(phase: Phase) -> bool:
    """Whether the host sends little in each round, as what it makes of the results of the last."""
    sent = sum(copy.bytes for copy in phase.copies if copy.direction is Direction.H2D)
    return 0 < sent <= _MOST_FED_BACK


def feeds_back(steps: Collection[Step], phase: Phase) -> bool:
    """Whether steps have to know before what the host sends, though it may come of results.

    A round sends little, new each time, and reads as little.
    """
    if not {Step.DEFER, Step.PREFETCH} & {*steps} or Step.KEEP in steps:
        return False
    read = sum(copy.bytes for copy in phase.copies if copy.direction is Direction.D2H)
    return may_feed_back(phase) and phase.new_bytes > 0 and 0 < read <= _MOST_FED_BACK


def lines_of(steps: tuple[Step, ...], phase: Phase) -> list[str]:
    """Return of what lines of code are shown with these steps."""
    brought = _brought(phase)
    of_keep = [
        *(("keep-results",) if Brings.RETURNED in brought else ()),
        *(("keep-parts",) if Brings.IN_PART in brought else ()),
        *((Step.KEEP,) if brought & {*AGAIN} or not brought & _OTHERWISE_KEPT else ()),
    ]
    lines = {Step.KEEP: of_keep}
    if looks_later(phase, steps):
        lines[Step.DEFER] = ["defer-results"]
    return [what for step in steps for what in lines.get(step, [step])]


def comes_back(phase: Phase) -> bool:
    """Whether copies back are taken for needless, as their data is sent again unchanged."""
    return Brings.SENT_BACK in _brought(phase)


def _brought(phase: Phase) -> set[int]:
    """Return what the copies of a phase bring, as far as it is known."""
    return set() if phase.schedule is None else {task.brings for task in phase.schedule.tasks}


def _of_phase(steps: tuple[Step, ...], phase: Phase) -> list[str]:
    found = []
    if Step.KEEP in steps and comes_back(phase):
        found.append("The host does not look at what comes back to be sent again.")
    if Step.DEFER in steps and Step.KEEP not in steps and may_feed_back(phase):
        found.append("What a round sends to the GPU does not come of what it has read back.")
    tasks = () if phase.schedule is None else phase.schedule.tasks
    if Step.BATCH in steps and copies_before_kernels(tasks) != [*tasks]:
        found.append("What all of the copies send is there before the kernels between them run.")
    cut = Step.STREAMS in steps or Step.HYBRID in steps
    works = phase.kernel_seconds is not None and phase.kernel_seconds.value > 0
    if cut and works:
        found.append("The kernels take as long in parts as in one, in sum.")
    if cut and phase.launches > 1:
        found.append(
            f"Each part can go through all {phase.launches} kernels of a round on its own."
        )
    return found
