"""Measured rounds, replayed as they are and under edits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lanescope.findings.advice.advice import Step
from lanescope.findings.advice.edits import EDITS, batch, defer, prefetch, wait_later
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.pinned import pin, read_sooner_seconds, staged, wait_once
from lanescope.findings.advice.schedule import Schedule, ScheduledTask, ends_after, replayed
from lanescope.trace.codes import MemoryKind
from tests.findings.advice.programs import Program, looped

ROUNDS, MB, PAGEABLE = 10, 10**6, MemoryKind.PAGEABLE


def lasts(kind, size):
    return size / 50.0  # 50 GB/s


def task(kind, lasting, number=0, *, size=0, gap=0.0, blocks=False, waits=False, memory=None):
    kinds = MemoryKind.PINNED if memory is None else memory
    return ScheduledTask(kind, size, kinds, 1, number, waits, gap, 0.0, lasting, blocks, 0.0)


def serial(memory=MemoryKind.PINNED):
    """Rounds of 1 ms in, 3 ms of work and 4 B back, for which the host waits."""
    found = []
    for number in range(ROUNDS):
        found += [
            task(IN, 1e6, number, size=50_000_000, blocks=True, memory=memory),
            task(WORK, 3e6, number),
            task(OUT, 1e3, number, size=4, blocks=True),
        ]
    return found


def test_a_stream_runs_in_order_and_a_call_that_blocks_holds_the_host():
    first, second, third = replayed(
        [task(IN, 10.0, blocks=True), task(WORK, 20.0, gap=5.0), task(OUT, 1.0, gap=1.0)]
    )
    assert (first.start, first.end) == (0.0, 10.0)
    assert (second.submitted, second.start, second.end) == (15.0, 15.0, 35.0)
    assert (third.submitted, third.start) == (16.0, 35.0)


@pytest.mark.parametrize("memory", [MemoryKind.PINNED, PAGEABLE])
def test_without_an_edit_the_replay_takes_what_was_measured(memory):
    program = looped(20, 10 * MB, 700.0, between=300.0, host=int(memory))
    (phase,) = find_phases(program.operations(), kernels=True)
    assert phase.schedule is not None
    assert ends_after(phase.schedule.tasks) == pytest.approx(phase.schedule.measured_ns, rel=1e-6)


def test_of_what_ran_once_and_of_rounds_between_others_one_is_replayed():
    (phase,) = find_phases(looped(1, 10 * MB, 700.0).operations(), kernels=True)
    assert phase.schedule.rounds == 1
    program = Program()
    for _ in range(10):
        for size in (10 * MB, 50 * MB):
            program.copy(size, down=True, wait=True)
            program.kernel(700.0)
            program.copy(size, down=False, wait=True)
    phases = find_phases(program.operations(), kernels=True)
    assert [phase.schedule.rounds for phase in phases] == [1, 1]
    for phase in phases:
        assert phase.schedule.measured_ns == pytest.approx(phase.seconds.value * 1e9, rel=0.01)


def test_what_is_fetched_ahead_is_hidden_but_for_the_first():
    before, after = (ends_after(tasks) for tasks in (serial(), prefetch(serial(), lasts)))
    assert before == pytest.approx(ROUNDS * 4.001e6)
    assert after == pytest.approx(1e6 + ROUNDS * 3.001e6, rel=0.01)


def test_work_waits_for_the_copy_of_its_own_round():
    slow = [replace(one, lasts=9e6) if one.kind == IN else one for one in serial()]
    placed = replayed(prefetch(slow, lasts))
    copies = [one.end for one in placed if one.task.kind == IN]
    works = [one.start for one in placed if one.task.kind == WORK]
    assert len(copies) == len(works) == ROUNDS
    assert all(start >= end for start, end in zip(works, copies, strict=True))


def test_pinning_changes_pageable_copies_alone():
    tasks = serial(PAGEABLE)
    edited = pin(tasks, lasts)
    assert [one for one in edited if one.kind != IN] == [one for one in tasks if one.kind != IN]
    assert {one.memory for one in edited if one.kind == IN} == {MemoryKind.PINNED}
    assert {one.lasts for one in edited if one.kind == IN} == {1e6}
    assert pin(serial(), lasts) == serial()


@pytest.mark.parametrize(
    ("size", "pause", "left"),
    [
        (4_000_000, 1e6, 1e6 - 4e6 * 0.044),  # as much as lies in the cache
        (4_000_000, 1e5, 5e4),  # half of the pause at most
        (4_000_000, 1e4, 1e4),  # the host has not read them
        (64 << 20, 1e7, 1e7),  # nothing stays in the cache until it is read
    ],
)
def test_results_in_pinned_memory_are_read_from_the_cache(size, pause, left):
    back = task(OUT, 1e6, size=size, blocks=True, memory=PAGEABLE)
    work = task(WORK, 1e6, gap=pause)
    edited = pin([back, work], lasts)
    assert edited[1].gap == pytest.approx(left)
    assert pin([replace(back, memory=MemoryKind.PINNED), work], lasts)[1] == work
    sooner = read_sooner_seconds(Schedule((back, work), 1, 2e6))
    assert sooner == pytest.approx((pause - left) * 1e-9)


def test_a_pause_as_long_as_a_copy_in_memory_is_staging():
    copy = task(IN, 1e6, size=50_000_000, gap=5e6)  # 10 GB/s
    assert staged([copy]) == {0}
    for columns in ({"gap": 100.0}, {"gap": 1e9}, {"memory": PAGEABLE}, {"bytes": 1000}):
        assert not staged([replace(copy, **columns)])
    most = [copy, copy, replace(copy, gap=100.0)]
    assert staged(most) == {0, 1}
    assert not staged([*most, most[-1]])  # half of them have no such pause
    small = replace(copy, bytes=500_000, gap=5e4)
    assert staged([copy, small, replace(small, gap=1e3)]) == {0, 1}  # the large one shows it
    assert not staged([small])
    assert staged([copy, small, replace(small, bytes=10_000, gap=1e3)]) == {0, 1}
    (edited,) = pin([replace(copy, staged=True)], lasts)
    assert edited.gap < 1e5
    assert pin([copy], lasts) == [copy]  # what the program's language does not tell


def test_copies_to_the_gpu_are_not_waited_for_once_asynchronous():
    tasks = [
        task(IN, 1e6, 0, blocks=True),
        task(WORK, 1e6, 0, waits=True, gap=1e3),
        task(OUT, 1e3, 0, size=4, blocks=True),
    ] * 3
    copy, kernel, back = wait_later(tasks, lasts)[:3]
    assert (copy.blocks, kernel.waits, back.blocks) == (False, False, True)
    pageable = [replace(one, memory=PAGEABLE) for one in tasks]
    assert wait_later(pageable, lasts) == pageable
    queued = [replace(one, blocks=one.kind == OUT) for one in tasks]  # the host waited by itself
    assert [one.waits for one in wait_later(queued, lasts)] == [False] * 9


def test_copies_back_are_not_waited_for_where_the_host_went_on_at_once():
    def rounds(gap, size=1 << 20):
        return [
            task(WORK, 1e5, gap=gap, waits=True),
            task(OUT, 2e5, size=size, blocks=False),
        ] * ROUNDS

    soon, later = rounds(5e3), rounds(1e5)
    assert not any(one.waits for one in wait_later(soon, lasts)[1:])
    assert wait_later(later, lasts) == later  # it did something with what came
    looked_at = rounds(5e3, size=4)
    assert wait_later(looked_at, lasts) == looked_at  # that is to `defer`
    # a thread reads 64 MiB in 2.7 ms or more
    assert not any(one.waits for one in wait_later(rounds(1e5, size=64 << 20), lasts)[1:])


def test_small_copies_that_follow_each_other_become_one():
    small = [task(IN, 30e3, size=4096, gap=1e3, blocks=True) for _ in range(64)]
    (one,) = batch(small, lasts)
    assert one.bytes == 64 * 4096
    assert ends_after([one]) < ends_after(small) / 5
    large = [replace(copy, bytes=4 << 20) for copy in small]
    assert batch(large, lasts) == large
    assert batch(small[:3], lasts) == small[:3]


def test_results_that_are_looked_at_are_read_once_at_the_end():
    edited = defer(serial(), lasts)
    assert [one.kind for one in edited].count(OUT) == 1
    assert edited[-1].bytes == 4 * ROUNDS
    large = [replace(one, bytes=1 << 20) if one.kind == OUT else one for one in serial()]
    assert defer(large, lasts) == large


def looked_at(gap, *, waits=False, size=1 << 24):
    """Rounds of 2 ms of work and 300 µs back, behind which the host does something."""
    return [
        one
        for number in range(ROUNDS)
        for one in (
            task(WORK, 2e6, number, gap=gap if number else 0.0, waits=waits and number > 0),
            task(OUT, 3e5, number, size=size, blocks=not waits),
        )
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_the_host_looks_at_results_while_the_gpu_makes_the_next_ones(waits):
    tasks = looked_at(1.5e6, waits=waits)  # less than the GPU works: it is never idle
    assert ends_after(defer(tasks, lasts)) == pytest.approx(ROUNDS * 2.3e6, rel=0.01)
    tasks = looked_at(5e6, waits=waits)  # the host is the one that works on and on
    gone = ends_after(tasks) - ends_after(defer(tasks, lasts))
    assert gone == pytest.approx((ROUNDS - 1) * 2.3e6, rel=0.01)  # all rounds but the last
    placed = replayed(defer(tasks, lasts))
    waited = [(one, placed[at - 3]) for at, one in enumerate(placed) if one.task.awaits]
    assert len(waited) == ROUNDS - 2
    assert all(one.submitted >= copy.end + 5e6 for one, copy in waited)  # of the round before


def test_the_host_looks_at_results_at_once_where_the_gpu_may_need_what_it_makes_of_them():
    tasks = looked_at(5e6)
    sends = [task(IN, 1e3, number, size=64) for number in range(ROUNDS)]
    with_sends = [one for pair in zip(sends, tasks[::2], tasks[1::2], strict=True) for one in pair]
    pageable = [replace(one, memory=PAGEABLE) for one in tasks]
    in_turns = [replace(one, number=-7) for one in tasks]  # as of `pin`, whose waits stay
    for stays in (with_sends, pageable, looked_at(5e3), in_turns):
        assert defer(stays, lasts) == stays


def test_small_pieces_of_many_bytes_are_data_and_not_looked_at():
    back = [task(OUT, 1e3, number, size=32 << 10, blocks=True) for number in (0, 0, 1, 1, 1)]
    kept = defer(back, lasts)
    assert [one.round for one in kept] == [1, 1, 1, 1]
    assert kept[:3] == back[2:]
    assert kept[3].bytes == 64 << 10  # of the round that reads no more than that


def back(count, **columns):
    """Copies back whose calls are asynchronous, but last as long as those of pageable memory."""
    copy = task(OUT, 2e6, size=1 << 20, gap=10e3, blocks=True, memory=PAGEABLE)
    return [replace(copy, queued=True, **columns) for _ in range(count)]


def test_copies_that_are_queued_already_are_waited_for_once_when_pinned():
    tasks = back(4)
    assert wait_once(tasks) == {0, 1, 2}
    edited = pin(tasks, lasts)
    assert [one.blocks for one in edited] == [False, False, False, True]
    each = lasts(OUT, 1 << 20)
    assert ends_after(edited) == pytest.approx(4 * each + 10e3, rel=0.01)


@pytest.mark.parametrize(
    "columns",
    [{"queued": False}, {"gap": 60e3}, {"waits": True}, {"blocks": False}],
)
def test_other_copies_are_waited_for_as_before(columns):
    tasks = [replace(one, **columns) for one in back(4)]
    assert not wait_once(tasks)
    assert [one.blocks for one in pin(tasks, lasts)] == [one.blocks for one in tasks]


def test_asynchronous_copies_to_the_gpu_are_not_waited_for_once_pinned():
    tasks = [replace(one, kind=IN) for one in back(4)]
    assert not wait_once(tasks)
    assert not any(one.blocks for one in pin(tasks, lasts))


def test_rounds_that_take_turns_on_streams_are_in_flight_together_once_pinned():
    def tasks(streams):
        rounds = [
            (
                task(IN, 2e6, number, size=1 << 25, blocks=True, memory=PAGEABLE),
                task(WORK, 1e3, number),
                task(OUT, 2e6, number, size=1 << 25, blocks=True, memory=PAGEABLE),
            )
            for number in range(ROUNDS)
        ]
        return [
            replace(one, stream=one.round % streams, queued=one.kind != WORK)
            for tasks in rounds
            for one in tasks
        ]

    each = lasts(IN, 1 << 25)
    one, two = (ends_after(pin(tasks(streams), lasts)) / ROUNDS for streams in (1, 2))
    assert one == pytest.approx(2 * each, rel=0.05)
    assert two == pytest.approx(each, rel=0.15)  # both ways at once, but for the first and last
    unqueued = [replace(one, queued=False) for one in tasks(2)]
    assert ends_after(pin(unqueued, lasts)) / ROUNDS == pytest.approx(one, rel=0.05)


def test_a_launch_that_came_late_does_not_where_the_stream_is_busy():
    late = replace(task(WORK, 50e3), lag=5e3, late=True)
    (alone,) = replayed([late])
    assert (alone.ready, alone.start) == (0.0, 5e3)
    _, behind = replayed([task(WORK, 50e3), late])
    assert (behind.ready, behind.start, behind.after) == (50e3, 51e3, 0)
    _, measured = replayed([task(WORK, 50e3), replace(late, late=False)])
    assert measured.start == 55e3


def test_the_host_waits_for_what_a_task_names_and_for_nothing_ahead():
    first = replace(task(IN, 1e6), number=1, stream=2)
    second = replace(task(IN, 5e6), number=2, stream=3, ahead=True)
    *_, behind = replayed([first, second, replace(task(WORK, 1.0), awaits=(1,))])
    assert behind.submitted == 1e6
    *_, behind = replayed([second, task(WORK, 1.0, waits=True)])
    assert behind.submitted == 0.0


def test_fetching_ahead_is_not_waited_for_by_kernels_of_the_round():
    tasks = [
        replace(one, waits=one.kind == WORK) for one in pin(serial(PAGEABLE), lasts)
    ]  # the host went on when the copy of the round was there
    edited = prefetch(tasks, lasts)
    assert not any(one.waits for one in edited if one.kind == WORK)
    assert ends_after(edited) == pytest.approx(ROUNDS * 3e6 + 1e6, rel=0.01)


def test_gathering_keeps_the_pauses_between_copies():
    small = [task(IN, 2e3, size=4096, gap=gap, blocks=True) for gap in (5e3, 8e3, 3e9, 9e3)]
    (one,) = batch(small, lasts)
    pieces = 4 * (200.0 + 0.2 * 4096)
    # of short ones half is taken to be for the data: views of it are made all the same
    assert one.gap == pytest.approx(5e3 + 3e9 + (8e3 + 9e3) / 2 + pieces)


def test_copies_of_two_rounds_are_not_waited_for_together():
    assert wait_once([*back(2), *back(2, round=1)]) == {0, 2}


def test_edits_are_named_as_steps():
    assert [Step(name).value for name in EDITS] == list(EDITS)


def test_pageable_memory_is_not_fetched_ahead():
    assert prefetch(serial(PAGEABLE), lasts) == serial(PAGEABLE)


def test_what_is_gathered_is_gathered_in_pinned_memory():
    small = [task(IN, 1e3, size=4096, memory=PAGEABLE) for _ in range(64)]
    (one,) = batch(small, lasts)
    assert one.memory is MemoryKind.PINNED


def test_a_long_pause_of_one_round_is_in_no_replay():
    program = Program()
    for number in range(60):
        program.copy(10 * MB, down=True)
        program.kernel(700.0)
        program.copy(10 * MB, down=False, wait=True)
        program.host(500_000.0 if number == 30 else 50.0)
    (phase,) = find_phases(program.operations(), kernels=True)
    mean = ends_after(phase.schedule.tasks) / phase.schedule.rounds
    assert mean * 1e-9 == pytest.approx(phase.period_seconds.value, rel=0.1)


def test_a_wait_that_lets_the_host_work_on_results_stays():
    def rounds(gap, **columns):
        return [
            task(OUT, 2e6, size=1 << 26),
            task(IN, 1e5, size=4096, **columns),
            task(WORK, 1e5, gap=gap, waits=not columns),
        ] * ROUNDS

    for columns in ({}, {"blocks": True}):
        busy, soon = rounds(5e6, **columns), rounds(5e3, **columns)
        assert wait_later(busy, lasts) == busy
        assert not any(one.waits or one.blocks for one in wait_later(soon, lasts))
    elsewhere = [replace(one, stream=int(one.kind == OUT)) for one in rounds(5e6, blocks=True)]
    assert not any(one.blocks for one in wait_later(elsewhere, lasts))


def test_the_hosts_long_pauses_stay_where_results_are_left_on_the_gpu():
    def rounds(gap):
        return [
            task(WORK, 1e5),
            task(OUT, 1e3, size=4, gap=gap, blocks=True, waits=True),
        ] * ROUNDS

    assert ends_after(defer(rounds(1e6), lasts)) >= ROUNDS * 1e6
    assert ends_after(defer(rounds(1e4), lasts)) == pytest.approx(ROUNDS * 1e5, rel=0.01)
    behind = [replace(one, needs=(1,), awaits=(2,)) for one in rounds(0.0)[1:3]]
    (work, _) = defer(behind, lasts)
    assert (work.needs, work.awaits) == ((1, 1), (2, 2))


def in_turns(streams=2, kernel=1e6, back=1):
    """Rounds on another stream each, of pageable memory in asynchronous calls that hold."""
    held = {"blocks": True, "memory": PAGEABLE}
    return [
        replace(one, stream=one.round % streams, queued=one.kind != WORK)
        for number in range(ROUNDS)
        for one in (
            task(IN, 2e6, number, size=1 << 25, **held),
            task(WORK, kernel, number),
            *(task(OUT, 2e6 / back, number, size=(1 << 25) // back, **held) for _ in range(back)),
        )
    ]


def test_fetching_ahead_waits_no_earlier_for_copies_back_of_rounds_in_turns():
    pinned = pin(in_turns(), lasts)
    edited = prefetch(pinned, lasts)
    assert not any(one.awaits for one in edited if one.ahead)
    assert [one.awaits for one in edited if one.awaits] == [
        one.awaits for one in pinned if one.awaits
    ]
    assert ends_after(edited) < 0.9 * ends_after(pinned)


def test_what_was_waited_for_by_itself_still_is_where_rounds_take_turns():
    more = [
        one
        for copy in in_turns()
        for one in (copy, replace(copy, queued=False, bytes=4, hold=-1e3))
        if one.queued or one.kind == OUT
    ]
    assert [one.blocks for one in pin(more, lasts) if one.kind == OUT] == [False, True] * ROUNDS


def test_what_waits_for_gathered_copies_waits_for_all_of_them():
    edited = batch(pin(in_turns(back=64), lasts), lasts)
    assert sum(one.kind == OUT for one in edited) == ROUNDS
    numbers = [one.number for one in edited if one.kind == OUT]
    assert [one.awaits for one in edited if one.awaits] == [(n,) for n in numbers[:-2]]
    small = [
        replace(one, bytes=4096) for one in serial() for _ in range(4 if one.kind == IN else 1)
    ]
    ahead = batch(prefetch(small, lasts), lasts)
    needed = [one.needs for one in ahead if one.kind == WORK and one.needs]
    assert needed == [(one.number,) for one in ahead if one.kind == IN]


def test_work_on_each_stream_waits_for_the_copies_before_it():
    streams = [
        replace(one, stream=stream)
        for number in range(ROUNDS)
        for stream in (7, 8)
        for one in (task(IN, 1e6, number, size=1 << 25), task(WORK, 1e5, number))
    ]
    placed = replayed(prefetch(streams, lasts))
    copies = [one.end for one in placed if one.task.kind == IN]
    works = [one.start for one in placed if one.task.kind == WORK]
    assert all(start >= end for start, end in zip(works, copies, strict=True))
    assert works[0] < copies[1]  # and for no copy behind it


def test_threads_of_a_round_submit_at_the_same_time():
    def rounds(threads):
        return [
            replace(task(IN, 10.0, number, gap=5.0, blocks=True), stream=thread, thread=new)
            for number in range(2)
            for thread in range(threads)
            for new in [number * threads + thread + 1]  # made anew for each round
        ]

    assert ends_after(rounds(1)) == 30.0
    ended = [one.end for one in replayed(rounds(3))]
    assert ended == [15.0, 25.0, 35.0, 50.0, 60.0, 70.0]  # one engine, and rounds are joined


def test_threads_that_are_made_anew_each_round_copy_at_the_same_time():
    program = Program()
    for number in range(10):
        begin = round(program.now * 1_000)
        for stream in range(1, 5):
            program.copy(4 * MB, down=True, host=int(PAGEABLE), wait=True, stream=stream)
            program.rows[-1] |= {"thread": 10 * number + stream, "call_start_ns": begin}
        for stream in range(1, 5):
            program.kernel(5.0, stream=stream)
            program.copy(8192, down=False, wait=True, stream=stream)
            program.rows[-1]["thread"] = 10 * number + stream
        program.host(500.0)
    (phase,) = find_phases(program.operations(), kernels=True)
    schedule = phase.schedule
    assert len({one.thread for one in schedule.tasks}) == 4 * schedule.rounds
    assert ends_after(schedule.tasks) == pytest.approx(schedule.measured_ns, rel=1e-3)
    sent = [one for one in replayed(pin(schedule.tasks, lasts)) if one.task.kind == IN]
    for number in range(schedule.rounds):
        mine = [one for one in sent if one.task.round == number]
        assert len({one.submitted for one in mine}) == 1
        assert mine[-1].end - mine[0].start == pytest.approx(4 * 80e3)


@pytest.mark.parametrize("works", [20.0, 900.0])
def test_a_host_that_is_a_round_ahead_waits_for_the_gpu(works):
    """By an event, which no trace shows; what it does for long itself is no wait."""
    program, ends = Program(), []
    for number in range(20):
        if number >= 2:
            program.now = max(program.now, ends[number - 2])
        program.host(works)
        program.copy(50 * MB, down=True)
        program.kernel(100.0)
        program.copy(50 * MB, down=False)
        ends.append(program.streams[7])
    (phase,) = find_phases(program.operations(), kernels=True)
    tasks = phase.schedule.tasks
    ahead = [one for one in tasks if one.rounds_back]
    assert {one.rounds_back for one in ahead} == ({2} if works == 20.0 else set())
    assert ends_after(tasks) == pytest.approx(phase.schedule.measured_ns, rel=1e-6)
    if ahead:
        assert all(one.gap == pytest.approx(works * 1e3, abs=10) for one in ahead)
        each = ends_after(prefetch(tasks, lasts)) / phase.schedule.rounds
        assert each == pytest.approx(1.1e6, rel=0.1)  # of 2 ms


@pytest.mark.parametrize(
    ("pause", "each"),
    [
        (12_000.0, 12_000.0),  # the host makes 64 KiB, there at once
        (40_000.0, 0.5 * 40_000 + 0.2 * 65_536),  # and does other things: to gather takes less
        (500.0, 0.5 * 500 + 0.2 * 65_536),  # too short to make it: it lies there, and is gathered
    ],
)
def test_what_is_made_just_before_it_is_sent_is_not_gathered(pause, each):
    pieces = [task(IN, 5e3, size=65_536, gap=pause, blocks=True) for _ in range(8)]
    (one,) = batch(pieces, lasts)
    first = max(each - pause, 0.0)
    assert one.gap == pytest.approx(pause + first + 8 * 200.0 + 7 * each)
