"""Copies of unequal speed and size at once: each has its rate under full load."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lanescope.copies.experiment import experiment_of
from lanescope.copies.grammar import parse_copies
from lanescope.copies.limit import limits
from lanescope.engine.sampling import Plan, measure_all
from tests.engines import Engines
from tests.findings.machine.simulator import nvswitched
from tests.torture.test_turns import Backend

SETS = [
    "h0 <-> g0, h0 <-> g1, g0 <-> g1",
    "h0 -> g0, g0 -> g1",
    "h0 -> g0 1GiB, h0 -> g1 16MiB, g1 -> g0 4GiB",
    "g0 -> g1 8MiB, h0 -> g0 1GiB",
    "h0 -> g0 2MiB, g0 -> h0 2GiB, h0 -> g1, g1 -> h0 1MiB",
    "h0 <-> g0 @sm, g0 <-> g1, h0 -> g1 @sm 1GiB",
    "g0 <-> g1, h0 -> g0 512MiB, h0 -> g2, g2 <-> g3, h0 <-> g3 8MiB",
]


def rates(machine, copies):
    """GB/s of copies that run at the same time, as the links share it between them."""
    made = experiment_of(copies)
    return [limit.gbs for limit in limits(machine, made)]


@pytest.mark.parametrize("text", SETS)
@pytest.mark.parametrize("first", [1.0, 3.0], ids=["", "a slow start"])
def test_each_copy_has_its_rate_under_full_load(text, first):
    machine = nvswitched(4)
    copies = parse_copies(text, machine)
    alone = [rates(machine, [copy])[0] for copy in copies]

    def paces(running):
        numbers = sorted(running)
        found = rates(machine, [copies[n] for n in numbers])
        return {n: gbs / alone[n] for n, gbs in zip(numbers, found, strict=True)}

    seconds = [copy.bytes / gbs * 1e-9 for copy, gbs in zip(copies, alone, strict=True)]
    engines = Engines(seconds, [[n] for n in range(len(copies))], paces, first=first)
    results = []
    plan = Plan(budget_seconds=0.2)
    measure_all([experiment_of(copies)], Backend(engines), machine, plan, results.append)
    (result,) = results
    wanted = rates(machine, copies)
    assert [copy.gbs for copy in result.copies] == pytest.approx(wanted, rel=0.01)
    assert result.groups_in_turns == ()
    assert not any(copy.verdict.failed for copy in result.copies)


def test_copies_too_short_to_submit_are_not_measured():
    machine = nvswitched(2)
    copies = parse_copies("g0 -> g1 256KiB, h0 -> g0 1GiB", machine)
    engines = Engines([0.6e-6, 18e-3], [[0], [1]])
    results = []
    plan = Plan(budget_seconds=0.2)
    measure_all([experiment_of(copies)], Backend(engines), machine, plan, results.append)
    why = results[0].not_measured.reason
    assert why == (
        "Copies of 256 KiB end faster than they can be submitted while one of 1 GiB runs."
    )


def test_only_the_slow_link_is_blamed():
    machine = nvswitched(2)
    copies = parse_copies("h0 -> g0, h0 -> g1, g0 -> g1", machine)
    gbs = [*rates(machine, copies)]
    gbs[1] /= 2
    seconds = [copy.bytes / rate * 1e-9 for copy, rate in zip(copies, gbs, strict=True)]
    engines = Engines(seconds, [[0], [1], [2]])
    results = []
    measure_all(
        [replace(experiment_of(copies), title="three")],
        Backend(engines),
        machine,
        Plan(budget_seconds=0.2),
        results.append,
    )
    assert [copy.verdict.failed for copy in results[0].copies] == [False, True, False]
