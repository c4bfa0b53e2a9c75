"""Data that is on the GPU already is not sent again, in the advice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pytest

from lanescope.findings.advice import advise
from lanescope.findings.advice.advice import Step
from lanescope.findings.advice.changes import conditions, lines_of
from lanescope.findings.advice.edited import base_seconds, edits_of
from lanescope.findings.advice.edits import keep
from lanescope.findings.advice.phase import Phase
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.resent import (
    Brings,
    Contents,
    Resident,
    most_at_once,
    remembered,
)
from lanescope.findings.advice.schedule import ends_after
from lanescope.trace.side_tables import HostCopies
from lanescope.trace.timeline import Timeline
from tests.findings.advice.made_up import LINK, Simple
from tests.findings.advice.programs import PAGEABLE, PINNED, Program, run_of

MB = 10**6
ROUNDS = 12


@dataclass
class Carrying(Program):
    """A program of which it is known what its copies carry."""

    carried: dict[int, int] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)
    reads: float = 0.0  # µs for a byte

    def carry(
        self,
        size: int,
        content: int | None,
        *,
        down: bool,
        host: int = PINNED,
        wait: bool = True,
        same: int = 0,
    ) -> None:
        """Copy; without a content that is not known, else it is read within the call."""
        self.copy(size, down=down, host=host, wait=wait)
        if content is not None:
            self.carried[self._number] = content
            self.same[self._number] = same
            self.now += size * self.reads
            self.rows[-1]["call_end_ns"] = round(self.now * 1_000)

    def contents(self) -> Contents:
        keys = np.array([(self.pid << 32) + number for number in self.carried], np.int64)
        carried, same = (np.array([*one.values()], np.int64) for one in (self.carried, self.same))
        return Contents(keys, carried, same)

    def phase(self) -> Phase:
        (found,) = find_phases(self.operations(), self.contents(), kernels=True)
        return found


def brought(phase: Phase) -> list[list[int]]:
    """Return what the copies of each round bring."""
    assert phase.schedule is not None
    rounds: list[list[int]] = [[] for _ in range(phase.schedule.rounds)]
    for task in phase.schedule.tasks:
        if task.bytes:
            rounds[task.round].append(task.brings)
    return rounds


def with_a_table(read: int = ROUNDS, **batch: int) -> Carrying:
    """In each round a new batch and the same table, of which the first rounds were read."""
    program = Carrying()
    for number in range(ROUNDS):
        known = number < read
        program.carry(2 * MB, batch.get("same", 100 + number) if known else None, down=True)
        program.carry(50 * MB, 1 if known else None, down=True)
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number if known else None, down=False)
        program.wait()
        program.host(100.0)
    return program


def sending(reads: float, read: int, **copy: object) -> Carrying:
    """In each of 40 rounds a batch of 20 MB, of which the first ones were read."""
    program = Carrying(reads=reads)
    for number in range(40):
        program.carry(20 * MB, 1 + number if number < read else None, down=True, **copy)
        program.kernel(500.0)
        program.carry(20_000, None, down=False)
        program.wait()
        program.host(100.0)
    return program


@pytest.mark.parametrize("copy", [{"host": PAGEABLE}, {"host": PINNED, "wait": False}])
@pytest.mark.parametrize("read", [20, 35])
def test_what_the_watch_takes_to_read_a_copy_is_no_time_of_the_program(copy, read):
    unread, slowed = (sending(reads, read, **copy).phase() for reads in (0.0, 1e-4))
    assert slowed.schedule.measured_ns == pytest.approx(unread.schedule.measured_ns, rel=0.01)
    before, after = base_seconds(unread), base_seconds(slowed)
    assert after == pytest.approx(before, rel=0.01)
    assert not any(task.blocks for task in slowed.schedule.tasks[::3]) or copy["host"] == PAGEABLE
    for one in edits_of(slowed, LINK):
        same = next(other for other in edits_of(unread, LINK) if other.steps == one.steps)
        assert one.after.value == pytest.approx(same.after.value, rel=0.01)


def test_reading_is_known_of_pageable_memory_where_all_was_read():
    # the call had returned with the copy
    unread, slowed = (sending(reads, 40, host=PAGEABLE).phase() for reads in (0.0, 1e-4))
    assert base_seconds(slowed) == pytest.approx(base_seconds(unread), rel=0.01)
    assert slowed.schedule.read_ns / slowed.schedule.rounds == pytest.approx(2_000_000, rel=0.01)
    assert not unread.schedule.read_ns > 0.01 * unread.schedule.measured_ns


def test_a_note_says_what_the_watch_took_to_read():
    program = sending(1e-4, 35, host=PAGEABLE)
    run = run_of(program.operations())
    numbers = list(program.carried)
    columns = {name: np.zeros(len(numbers), np.int64) for name in HostCopies.columns()}
    columns |= {"correlation": np.array(numbers), "hash": np.array(numbers)}
    columns["bytes"] += 20 * MB
    columns["pid"] += program.pid
    columns["hashed"] += 1
    run = replace(run, timeline=replace(run.timeline, host_copies=HostCopies.of(**columns)))
    (found,) = advise(run, LINK, Simple()).phases
    assert found.notes[0] == (
        "Of a round that was measured the watch itself took about 2.00 ms to read what copies "
        "carry; what is predicted is without that."
    )


def test_two_tables_of_one_size_need_not_be_sent_again():
    program = Carrying()
    for number in range(ROUNDS):
        program.carry(50 * MB, 1, down=True)
        program.carry(50 * MB, 2, down=True)
        program.carry(2 * MB, 100 + number, down=True)
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number, down=False)
        program.wait()
    assert brought(program.phase())[-1] == [Brings.SENT, Brings.SENT, 0, 0]


def test_a_copy_that_is_seldom_read_does_not_make_constant_input_vary():
    program = Carrying()
    for number in range(ROUNDS):
        program.carry(50 * MB, 1, down=True)
        if number == 5:
            program.carry(1 * MB, 900, down=True)
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number, down=False)
        program.wait()
    phase = program.phase()
    assert phase.constant_input
    assert set(chain.from_iterable(brought(phase))) == {Brings.UNKNOWN}


@pytest.mark.parametrize("read", [4, ROUNDS])
def test_a_table_that_is_sent_in_each_round_need_not_be(read):
    phase = with_a_table(read).phase()
    assert brought(phase)[-1] == [Brings.UNKNOWN, Brings.SENT, Brings.UNKNOWN]
    found = {one.steps: one for one in edits_of(phase, LINK)}
    kept = found[Step.KEEP,]
    lasted = 50 * MB / 55_500 * 1e-6
    assert kept.before - kept.after.value == pytest.approx(lasted, rel=0.05)
    assert "1 copy that brings what was sent before, 50 MB a round" in kept.remedy


def test_two_rounds_that_were_read_say_nothing():
    assert set(chain.from_iterable(brought(with_a_table(2).phase()))) == {Brings.UNKNOWN}


def test_input_that_never_changes_is_a_note_and_no_advice():
    phase = with_a_table(same=7).phase()
    assert phase.constant_input
    assert set(chain.from_iterable(brought(phase))) == {Brings.UNKNOWN}
    assert not with_a_table().phase().constant_input


def test_data_that_is_sent_many_times_before_it_changes_is_no_test():
    program = Carrying()
    for number in range(3 * ROUNDS):
        program.carry(20 * MB, 1 + number // ROUNDS, down=True)
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number, down=False)
        program.wait()
    phase = program.phase()
    assert not phase.constant_input
    assert set(chain.from_iterable(brought(phase))) == {Brings.SENT, Brings.UNKNOWN}
    assert any(one.steps == (Step.KEEP,) for one in edits_of(phase, LINK))


def test_data_that_repeats_in_some_rounds_is_left_out_in_as_many():
    program = Carrying()
    for number in range(ROUNDS):
        program.carry(2 * MB, 100 + number, down=True)
        program.carry(50 * MB, number // 3, down=True)  # new in each third round
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number, down=False)
        program.wait()
    kept = [one[1] for one in brought(program.phase())]
    assert 0.5 < kept.count(Brings.SENT) / len(kept) < 0.9


def passed_on(pause: float, size: int = 20 * MB, *, same: bool = False) -> Carrying:
    """A result goes to the host and back to the GPU, for a second kernel."""
    program = Carrying()
    for number in range(ROUNDS):
        result = 500 if same else 500 + number
        program.carry(10 * MB, 100 + number, down=True, host=PAGEABLE)
        program.kernel(500.0)
        program.carry(size, result, down=False, host=PAGEABLE)
        program.host(pause)
        program.carry(size, result, down=True, host=PAGEABLE)
        program.kernel(300.0)
        program.carry(4 * MB, 900 + number, down=False, host=PAGEABLE)
        program.host(100.0)
    return program


def copies_of(program: Carrying, size: int) -> set[int]:
    phases = find_phases(program.operations(), program.contents(), kernels=True)
    return {
        task.brings
        for phase in phases
        if phase.schedule is not None
        for task in phase.schedule.tasks
        if task.bytes == size
    }


def test_a_result_that_is_sent_back_at_once_stays_on_the_gpu():
    assert copies_of(passed_on(10.0), 20 * MB) == {Brings.RETURNED, Brings.SENT_BACK}


def test_results_and_constant_data_have_code_of_their_own():
    program = passed_on(10.0)
    (phase,) = find_phases(program.operations(), program.contents(), kernels=True)
    assert lines_of((Step.KEEP, Step.PIN), phase) == ["keep-results", "pin"]
    assert lines_of((Step.KEEP, Step.PIN), with_a_table().phase()) == ["keep", "pin"]


def test_a_result_that_the_host_had_time_to_look_at_still_comes_back():
    assert copies_of(passed_on(30_000.0), 20 * MB) == {Brings.RETURNED, Brings.NEW}


def test_a_few_bytes_that_never_change_are_the_same_by_chance():
    assert copies_of(passed_on(10.0, 8), 8) == {Brings.RETURNED, Brings.NEW}
    assert copies_of(passed_on(10.0, 8, same=True), 8) <= {Brings.UNKNOWN, Brings.NEW}


def test_copies_that_are_left_out_take_no_time():
    program = passed_on(10.0)
    phases = find_phases(program.operations(), program.contents(), kernels=True)
    schedules = [phase.schedule for phase in phases if phase.schedule is not None]
    assert schedules
    for schedule in schedules:
        both = keep(schedule.tasks, lambda kind, size: 0.0)
        sent = keep(schedule.tasks, lambda kind, size: 0.0, back=False)
        assert ends_after(both) < ends_after(sent) < ends_after(schedule.tasks)


def test_contents_come_from_hashes_of_the_same_gpu_and_size():
    program = Carrying()
    for _ in range(4):
        program.copy(MB, down=True)
    rows = program.operations()
    columns = {name: np.zeros(4, np.int64) for name in HostCopies.columns()}
    columns |= {"pid": rows.pid, "correlation": rows.correlation, "bytes": rows.bytes}
    columns |= {"hash": np.array([5, 6, 5, 5]), "hashed": np.array([1, 1, 1, 0])}
    columns |= {"same_bytes": np.array([0, 4096, 0, 8192])}
    damaged = HostCopies.of(**columns | {"bytes": rows.bytes + 1})
    assert not len(Contents.of(Timeline(0, 1, operations=rows, host_copies=damaged)).key)
    timeline = Timeline(0, 1, operations=rows, host_copies=HostCopies.of(**columns))
    numbers, same = (one.tolist() for one in Contents.of(timeline).of_rows(rows))
    assert numbers[0] == numbers[2] != numbers[1]
    assert numbers[3] == 0
    assert same == [0, 4096, 0, 0]
    assert [one.tolist() for one in Contents.none().of_rows(rows)] == [[0] * 4] * 2


def with_a_world(same: float, host: int = PINNED, size: int = 32 * MB) -> Carrying:
    """In each round a world of which so large a share is as it was, and new results."""
    program = Carrying()
    for number in range(ROUNDS):
        of_it = round(same * size) if number else 0
        program.carry(size, 100 + number, down=True, host=host, same=of_it)
        program.kernel(200.0)
        program.carry(1 * MB, 500 + number, down=False)
        program.wait()
    return program


def test_of_data_that_changes_in_part_the_rest_is_sent():
    phase = with_a_world(0.99).phase()
    assert brought(phase) == [[Brings.IN_PART, Brings.UNKNOWN]] * phase.schedule.rounds
    assert phase.resident == Resident(1, 32 * MB)
    kept = {one.steps: one for one in edits_of(phase, LINK)}[Step.KEEP,]
    gained = 0.99 * 32 * MB / 55_500 * 1e-6 - 0.2e-9 * 0.32 * MB  # without what gathering takes
    assert kept.before - kept.after.value == pytest.approx(gained, rel=0.05)
    assert "(send 320 kB that changes of 32 MB a round)" in kept.remedy
    said = conditions((Step.KEEP,), phase)
    assert any("changes as little in the others" in one for one in said)
    assert not any("has not changed" in one for one in said)
    assert lines_of((Step.KEEP, Step.PIN), phase) == ["keep-parts", "pin"]


def test_of_pageable_data_that_changes_in_part_the_rest_is_pinned_and_sent():
    phase = with_a_world(0.9, PAGEABLE).phase()
    found = {one.steps: one.after.value for one in edits_of(phase, LINK)}
    assert found[Step.KEEP, Step.PIN] < found[Step.KEEP,] < base_seconds(phase)


@pytest.mark.parametrize("same", [0.0, 0.4])
def test_of_data_that_changes_for_the_most_part_all_is_sent(same):
    phase = with_a_world(same).phase()
    assert brought(phase) == [[Brings.UNKNOWN] * 2] * phase.schedule.rounds
    assert (Step.KEEP,) not in {one.steps for one in edits_of(phase, LINK)}


def test_of_data_that_hardly_ever_changes_nothing_is_said_of_parts():
    """It looks like a test with one set of data, which a note says."""
    program = Carrying()
    for number in range(40):
        of_it = round(0.99 * 32 * MB) if number else 0
        program.carry(32 * MB, 1 + number // 20, down=True, same=of_it)
        program.kernel(200.0)
        program.carry(1 * MB, 500 + number, down=False)
        program.wait()
    phase = program.phase()
    assert phase.constant_input
    assert set(chain.from_iterable(brought(phase))) == {Brings.UNKNOWN}


def test_two_sets_of_data_that_are_sent_many_times_each_stay_on_the_gpu():
    """They take turns again and again, so that neither is what a test warmed up with."""
    program = Carrying()
    for number in range(60):
        program.carry(32 * MB, 1 + number // 12 % 2, down=True)
        program.kernel(200.0)
        program.carry(1 * MB, 500 + number, down=False)
        program.wait()
    phase = program.phase()
    assert not phase.constant_input
    assert Brings.SENT in chain.from_iterable(brought(phase))
    assert (Step.KEEP,) in {one.steps for one in edits_of(phase, LINK)}


@pytest.mark.parametrize(("host", "least"), [(PINNED, 0.93), (PAGEABLE, 0.7)])
def test_a_part_that_takes_longer_to_gather_than_all_to_copy_hides_no_other_advice(host, least):
    """There is a table, too, which never changes."""

    def with_keep(same: float) -> tuple[set[int], float]:
        program = Carrying()
        for number in range(ROUNDS):
            of_it = round(same * 64 * MB) if number else 0
            program.carry(64 * MB, 100 + number, down=True, host=host, same=of_it)
            program.carry(50 * MB, 1, down=True, host=host)
            program.kernel(200.0)
            program.carry(1 * MB, 500 + number, down=False)
            program.wait()
        phase = program.phase()
        found = {one.steps: one.after.value for one in edits_of(phase, LINK)}
        return set(chain.from_iterable(brought(phase))), found[Step.KEEP,]

    _, alone = with_keep(0.0)
    for same in (0.5, least - 0.05):
        assert with_keep(same) == ({Brings.SENT, Brings.UNKNOWN}, alone)
    brings, both = with_keep(least)
    assert Brings.IN_PART in brings
    assert both < alone


def with_turns(
    tables: int = 5,
    sets: int = 3,
    times: int = 4,
    steps: int = 8,
    renewed: int = 0,
    size: int = 10 * MB,
) -> Carrying:
    """In each step data, of as many sets, and several times all tables, each in its own round.

    The tables are new ones after so many steps.
    """
    program = Carrying()
    for step in range(steps):
        program.carry(4 * size, 900 + step % sets, down=True)
        program.kernel(200.0)
        for number in range(times * tables):
            of = step // renewed if renewed else 0
            program.carry(size, 1 + number % tables + of * tables, down=True)
            program.kernel(100.0)
            program.host(60.0)
        program.carry(4 * size, 2000 + step, down=False)
    return program


def phase_of(program: Carrying, size: int) -> Phase:
    """Return the phase that sends copies of this size alone."""
    phases = find_phases(program.operations(), program.contents(), kernels=True)
    return next(p for p in phases if {c.typical_bytes for c in p.copies} == {size})


@pytest.mark.parametrize("sets", [3, 1000])
def test_tables_that_are_sent_by_turns_stay_on_the_gpu(sets):
    phase = phase_of(with_turns(sets=sets), 10 * MB)
    assert set(chain.from_iterable(brought(phase))) == {Brings.BY_TURNS}
    assert phase.resident == Resident(5, 50 * MB)
    found = {one.steps: one for one in edits_of(phase, LINK)}
    kept = found[Step.KEEP,]
    assert kept.before - kept.after.value == pytest.approx(10 * MB / 55_500 * 1e-6, rel=0.15)
    assert "10 MB a round, by turns from 5 arrays, 50 MB in all" in kept.remedy
    room = "The GPU has room to keep 5 arrays (50 MB), and no kernel writes to them in between."
    assert room in conditions((Step.KEEP,), phase)
    assert lines_of((Step.KEEP,), phase) == ["keep"]


def test_a_few_sets_of_data_by_turns_are_a_test():
    assert copies_of(with_turns(), 40 * MB).isdisjoint({Brings.SENT, Brings.BY_TURNS})
    program = Carrying()
    for number in range(40):
        program.carry(10 * MB, number % 5, down=True)
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number, down=False)
        program.wait()
    assert copies_of(program, 10 * MB) == {Brings.UNKNOWN}


def test_tables_that_give_place_to_new_ones_stay_until_then():
    # nothing else tells that new data comes: the tables have nearly all bytes
    program = with_turns(sets=1, times=6, steps=24, renewed=4)
    phase = phase_of(program, 10 * MB)
    kept = [one for (one,) in brought(phase)]
    assert kept.count(Brings.BY_TURNS) / len(kept) > 0.9
    assert phase.resident == Resident(5, 50 * MB)


def test_small_arrays_of_many_that_change_in_no_order_stay_on_the_gpu():
    """Of a dozen models each round sends one in 16 pieces, and words that are new each time."""
    program = Carrying()
    for number, model in enumerate(np.random.default_rng(0).integers(0, 12, 200).tolist()):
        for piece in range(16):
            program.carry(MB, 1 + 16 * model + piece, down=True)
        program.carry(200_000, 1_000 + number, down=True)
        program.kernel(500.0)
        program.carry(200_000, 2_000 + number, down=False)
        program.wait()
    phase = program.phase()
    assert phase.resident == Resident(192, 192 * MB)
    kept = [brings for one in brought(phase) for brings in one[:16]]
    assert set(kept) == {Brings.BY_TURNS}


@pytest.mark.parametrize(("poses", "is_kept"), [(1_000, True), (4, False)])
def test_data_by_turns_is_kept_where_little_else_is_new(poses, is_kept):
    """In turns, each with 6 KB; where the same poses come again, too, it looks like a test."""
    program = Carrying()
    for number in range(40):
        program.carry(10 * MB, 1 + number % 4, down=True)
        program.carry(6_000, 100 + number % poses, down=True)
        program.kernel(50.0)
        program.carry(10 * MB, 2_000 + number, down=False)
        program.wait()
    kept = copies_of(program, 10 * MB)
    assert (Brings.BY_TURNS in kept) == is_kept
    if is_kept:
        said = " ".join(conditions((Step.KEEP,), program.phase()))
        assert "no test with a few sets of data" in said


def test_more_tables_than_are_remembered_are_new_each_time():
    most = remembered(1000 * MB)
    assert most == 17  # 16 GiB
    few = with_turns(most, times=2, sets=1000, steps=4, size=1000 * MB)
    assert Brings.BY_TURNS in copies_of(few, 1000 * MB)
    many = with_turns(most + 1, times=2, sets=1000, steps=4, size=1000 * MB)
    assert copies_of(many, 1000 * MB) == {Brings.UNKNOWN}


def test_copies_that_change_places_in_a_round_are_known_by_what_they_carry():
    program = Carrying()
    for number in range(ROUNDS):
        for place in range(3):
            program.carry(50 * MB, 1 + (number + place) % 3, down=True)
        program.carry(2 * MB, 100 + number, down=True)
        program.kernel(500.0)
        program.carry(1 * MB, 200 + number, down=False)
        program.wait()
    phase = program.phase()
    assert brought(phase)[-1] == [*[Brings.BY_TURNS] * 3, 0, 0]
    assert phase.resident == Resident(3, 150 * MB)


def test_spans_that_meet_do_not_lie_over_one_another():
    assert most_at_once([(0, 1)]) == 1
    assert most_at_once([(row, row + 12) for row in range(100)]) == 12
