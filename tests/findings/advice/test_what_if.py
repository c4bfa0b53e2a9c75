"""Edits that a user names, replayed, and the critical path of what comes out."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from lanescope.errors import InputError, NotMeasuredError
from lanescope.findings.advice.edited import round_seconds
from lanescope.findings.advice.edits import pin, prefetch
from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.phases import find_phases
from lanescope.findings.advice.schedule import Schedule, replayed
from lanescope.findings.advice.what_if import (
    NAMES,
    Activity,
    critical_path,
    parse_edits,
    shares,
    what_if,
)
from lanescope.studies.advise import Advise
from lanescope.trace.codes import MemoryKind
from tests.findings.advice.made_up import LINK
from tests.findings.advice.programs import PAGEABLE, looped
from tests.findings.advice.test_schedule import lasts, serial, task

MB, PAGED = 10**6, MemoryKind.PAGEABLE


def edited(program, text, parameters=LINK):
    phases = find_phases(program.operations(), kernels=True)
    return what_if(phases, parse_edits(text), parameters)


def spent(tasks):
    """Return the nanoseconds of the critical path by what they are spent on."""
    path = critical_path(replayed(tasks))
    total = path[-1].end - path[0].begin
    return {activity: round(share * total, 6) for activity, share in shares(path).items() if share}


def test_the_path_covers_the_time_from_begin_to_end_without_a_gap():
    for tasks in (serial(), serial()[1:], [task(IN, 5.0, gap=3.0)]):
        placed = replayed(tasks)
        path = critical_path(placed)
        assert path[0].begin == 0.0
        assert path[-1].end == max(one.end for one in placed)
        assert all(one.end == following.begin for one, following in pairwise(path))


def test_what_something_longer_hides_is_not_on_the_path():
    """A copy that the kernel of another stream outlasts, and one that waits for both."""
    tasks = [task(WORK, 100.0), task(OUT, 20.0, waits=True, blocks=True)]
    short = task(IN, 40.0)
    assert spent([short, *tasks]) == {
        Activity.H2D: 40.0,
        Activity.KERNELS: 100.0,
        Activity.D2H: 20.0,
    }
    assert spent([replace(short, stream=2), *tasks]) == {
        Activity.KERNELS: 100.0,
        Activity.D2H: 20.0,
    }


def test_pauses_of_the_host_are_on_the_path_where_the_gpu_waits_for_them():
    late = [task(IN, 10.0, blocks=True), task(WORK, 20.0, gap=50.0)]
    assert spent(late) == {Activity.H2D: 10.0, Activity.HOST: 50.0, Activity.KERNELS: 20.0}
    early = [task(IN, 100.0), task(WORK, 20.0, gap=50.0)]
    assert spent(early) == {Activity.H2D: 100.0, Activity.KERNELS: 20.0}


def test_calls_that_do_not_block_lead_back_to_what_the_host_waited_for():
    tasks = [task(IN, 10.0, blocks=True), task(WORK, 1.0, gap=2.0), task(WORK, 7.0, gap=30.0)]
    assert spent(tasks) == {Activity.H2D: 10.0, Activity.HOST: 32.0, Activity.KERNELS: 7.0}


def test_fetching_ahead_what_is_pageable_changes_nothing():
    program = looped(8, 10 * MB, 500.0, host=PAGEABLE, between=500.0)
    (found,) = edited(program, "prefetch")
    assert found.no_effect == ("prefetch",)
    assert found.after_seconds.value == found.seconds


def test_no_round_is_predicted_to_be_shorter_than_its_work_on_a_stream():
    """Kernels of the first round, which does not count, run while those of others do."""
    tasks = tuple(
        one
        for number in range(8)
        for one in (
            task(IN, 1e3, number, size=50_000),
            replace(task(WORK, 1e6 if number else 5e6, number), stream=number % 4),
        )
    )
    busiest = 5e6 + 1e6  # of rounds 0 and 4
    _, after = round_seconds(Schedule(tasks, 8, 7e6), prefetch, LINK)
    assert after.low == pytest.approx(busiest / 8 * 1e-9, rel=1e-3)
    assert after.low <= after.value <= after.high


def test_no_round_is_predicted_to_be_shorter_than_what_the_host_does_in_it():
    """The first round, which does not count, ends late: the next one's copy goes before its own."""
    tasks = tuple(
        one
        for number in range(3)
        for one in (
            task(IN, 3e4, number, size=1 << 18, gap=7e5 if number else 0.0, memory=PAGED),
            task(IN, 3e5, number, size=1 << 24, blocks=True),
        )
    )
    _, after = round_seconds(Schedule(tasks, 3, 2.4e6), prefetch, LINK)
    assert after.value >= 2 * 7e5 / 3 * 1e-9


def test_no_round_may_be_shorter_than_its_bytes_take_the_link():
    """However far the replay is off from what was measured."""
    tasks = tuple(task(IN, 9e6, number, size=50 * MB, memory=PAGED) for number in range(8))
    _, after = round_seconds(Schedule(tasks, 8, 40 * 9e6), pin, LINK)
    assert after.low == pytest.approx(50 * MB * LINK.h2d.per_byte.low)
    assert after.low <= after.value


def test_pinning_takes_pageable_copies_off_the_path():
    (found,) = edited(looped(20, 100 * MB, 2000.0, host=PAGEABLE), "pin")
    before, after = (shares(one.path) for one in (found.before, found.after))
    assert after[Activity.H2D] < before[Activity.H2D]
    assert found.after_seconds.value < found.seconds
    assert found.no_effect == ()
    assert found.run_gain_seconds == pytest.approx(
        (found.seconds - found.after_seconds.value) * found.phase.rounds_in_run
    )


def test_an_edit_that_changes_nothing_is_named():
    (found,) = edited(looped(20, 100 * MB, 2000.0), "pin,prefetch")
    assert found.no_effect == ("pin",)


@pytest.mark.parametrize("edit", ["kernels=2", "kernels=2x"])
def test_faster_kernels_shorten_kernels_alone_and_need_no_parameters(edit):
    (found,) = edited(looped(20, 10 * MB, 2000.0), edit, parameters=None)
    assert found.seconds - found.after_seconds.value == pytest.approx(1000e-6, rel=0.01)


def test_pinned_copies_cannot_be_predicted_without_parameters():
    with pytest.raises(NotMeasuredError, match="name parameters"):
        edited(looped(20, 10 * MB, 2000.0, host=PAGEABLE), "pin", parameters=None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "what_if names no edit; name one or several of pin, async"),
        ("pinn", "'pinn' is no edit; name one or several of pin, async"),
        ("pin=3", "'pin=3' is no edit"),
        ("pin,pin", "names pin more than once"),
        ("batch=64KB,batch", "names batch more than once"),
        ("batch=many", "what_if: batch takes a size from 1 B to 1 PiB, .* not 'many'"),
        ("batch=0", "what_if: batch takes a size from 1 B to 1 PiB, .* not '0'"),
        ("batch=64Kb", "what_if: batch takes bytes and no bits, as in 64KB, not '64Kb'"),
        ("copies=1e9", "from 0.000001 to 1000000, such as copies=2 or copies=0.5, not '1e9'"),
        ("kernels=fast", "such as kernels=2"),
        ("copies=0", "such as copies=2"),
        ("copies=nan", "such as copies=2"),
        ("kernels=-1", "such as kernels=2"),
    ],
)
def test_edits_that_are_none(text, said):
    with pytest.raises(InputError, match=said):
        parse_edits(text)


def test_every_edit_is_in_the_document_and_the_docstring():
    document = (Path(__file__).parents[3] / "docs" / "advise.md").read_text(encoding="utf-8")
    rows = document.partition("| edit | what it does")[2].partition("\n\n")[0]
    names = {name.partition("=")[0] for name in NAMES.split(", ")}
    assert set(re.findall(r"`(\w+)(?:=\w+)?`", rows)) == names
    edits = Advise.__doc__.partition("Edits in place of advice")[2]
    assert set(re.findall(r"``(\w+)(?:=\w+)?``", edits)) == names


def test_only_copies_below_the_size_that_is_named_are_gathered():
    tasks = [task(IN, 5.0, size=100_000) for _ in range(8)]
    small, large = (parse_edits(f"batch={size}")[0] for size in ("64KiB", "256KiB"))
    assert len(small.edit(tasks, lasts)) == 8
    assert len(large.edit(tasks, lasts)) == 1


def test_too_few_rounds_fetch_nothing_ahead():
    with pytest.raises(InputError, match="three rounds or more"):
        edited(looped(2, 10 * MB, 700.0), "pin,prefetch")
    (one,) = edited(looped(2, 10 * MB, 700.0, host=PAGEABLE), "pin")
    assert one.rounds == 2
