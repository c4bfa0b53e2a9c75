"""Sets of threads and of streams."""

from dataclasses import replace

import pytest

from lanescope.copies import Memory, Timing
from lanescope.studies.taruc import Benchmark, Parameters
from lanescope.studies.taruc.plan_contention import seats, thread_counts
from lanescope.studies.taruc.study import plan_suite
from tests.studies.taruc import machines


def plan(machine, kind, parameters=None):
    (section,) = plan_suite(machine, parameters or Parameters(), (Benchmark.CONTENTION,))
    return {
        e.name.removeprefix(f"contention/{kind}/"): e
        for e in section.experiments
        if e.name.startswith(f"contention/{kind}/")
    }


def test_numbers_of_threads():
    assert thread_counts(4) == (1, 2, 3, 4)
    assert thread_counts(16) == tuple(range(1, 17))
    assert thread_counts(48) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
    assert thread_counts(50)[-1] == 50


def test_cores_come_before_their_other_cpus_and_both_before_any_twice():
    node = machines.paper().nodes[0]
    assert seats(node, 8) == tuple(range(8))
    assert seats(node, 16) == (*range(8), *range(16, 24))
    assert seats(node, 18)[-2:] == (0, 1)
    narrow = machines.in_a_container().nodes[0]
    assert seats(narrow, 4) == (2, 3, 19, 2)


def test_threads_work_on_their_own_node():
    machine = machines.paper()
    found = plan(machine, "memory")
    assert {name.split("/")[0] for name in found} == {"h0", "h1", "h0+h1"}
    assert {name.split("/")[1] for name in found} == {"copy", "scale", "add", "triad"}
    assert max(int(name.split("/")[2]) for name in found) == 32
    for name, e in found.items():
        assert e.timing is Timing.HOST
        assert len(e.copies) == int(name.split("/")[2])
        for copy in e.copies:
            (cpu,) = copy.cpus
            assert copy.source == copy.destination
            assert any(cpu in core for core in machine.node(copy.source.index).cores)
    halves = [c.source.part for c in found["h0+h1/copy/8"].copies]
    assert sorted(halves) == ["h0"] * 4 + ["h1"] * 4


@pytest.mark.parametrize("make", [machines.paper, machines.epyc, machines.one_node])
def test_arrays_together_outgrow_the_caches(make):
    machine = make()
    for e in plan(machine, "memory").values():
        nodes = {c.source.index for c in e.copies}
        caches = sum(machine.node(i).cache_bytes for i in nodes)
        assert sum(c.bytes for c in e.copies) >= 4 * caches


def test_sizes_that_are_given_are_kept_in_whole_words():
    section = replace(Parameters().contention, memory_bytes=1003, socket_bytes=64, pcie_bytes=99)
    parameters = replace(Parameters(), contention=section)
    machine = machines.paper()
    assert {c.bytes for e in plan(machine, "memory", parameters).values() for c in e.copies} == {
        1000
    }
    assert {c.bytes for e in plan(machine, "sockets", parameters).values() for c in e.copies} == {
        64
    }
    assert {c.bytes for e in plan(machine, "pcie", parameters).values() for c in e.copies} == {99}


def test_sockets_each_direction_and_both():
    machine = machines.paper()
    found = plan(machine, "sockets")
    assert {name.split("/")[0] for name in found} == {"h0-h1", "h1-h0", "h0-h1-both"}
    one = found["h0-h1/triad/3"]
    assert [c.cpus for c in one.copies] == [(0,), (1,), (2,)]
    assert {c.source.part for c in one.copies} == {"h1"}
    both = found["h0-h1-both/copy/2"]
    assert [(c.cpus, c.source.part) for c in both.copies] == [
        *(((0,), "h1"), ((1,), "h1")),
        *(((8,), "h0"), ((9,), "h0")),
    ]
    pairs = {name.split("/")[0] for name in plan(machines.epyc(), "sockets")}
    assert len(pairs) == 12 + 6
    assert not plan(machines.one_node(), "sockets")
    alone = {name.split("/")[0] for name in plan(machines.without_cores(), "sockets")}
    assert alone == {"h0-h1"}


def test_gpus_alone_in_pairs_and_all():
    found = plan(machines.paper(), "pcie")
    sets = {name.split("/")[0] for name in found}
    assert sets == {
        *("g0", "g1", "g2", "g3", "g0+g1", "g0+g2", "g0+g3", "g1+g2", "g1+g3", "g2+g3"),
        "g0+g1+g2+g3",
    }
    assert {tuple(name.split("/")[1:3]) for name in found} == {
        (direction, where) for direction in ("h2d", "d2h", "both") for where in ("near", "far")
    }
    assert len(found) == 11 * 3 * 2 * 4
    crossed = found["g0+g2/both/far/3"]
    assert len(crossed.copies) == 2 * 2 * 3
    homes = {(c.destination.part, c.source.part) for c in crossed.copies if c.source.is_host}
    assert homes == {("g0", "h1"), ("g2", "h0")}
    assert {p.memory for c in crossed.copies for p in (c.source, c.destination)} == {
        *(Memory.PINNED, Memory.DEVICE),
    }


def test_more_nodes_than_two_have_their_names():
    where = {name.split("/")[2] for name in plan(machines.epyc(), "pcie")}
    assert where == {"near", "h0", "h1", "h2"}
    assert {name.split("/")[2] for name in plan(machines.one_gpu(), "pcie")} == {"near"}
    assert len(plan(machines.eight_gpus(), "pcie")) == (8 + 28 + 1) * 3 * 2 * 4
