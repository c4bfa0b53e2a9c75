"""What is planned, on machines of many shapes."""

import functools
from dataclasses import replace

import pytest

from lanescope.copies import Caches, Engine, Memory, Operation, Pattern, Timing
from lanescope.copies.experiment import taken_bytes
from lanescope.copies.terms import HOST_TIMED
from lanescope.studies.taruc import Benchmark, Only, Parameters, SizeParameters
from lanescope.studies.taruc.axes import memory_of
from lanescope.studies.taruc.parameters import NurmaParameters
from lanescope.studies.taruc.study import machine_notes, plan_suite
from tests.studies.taruc import machines

PARAMETERS = Parameters()
BY_DRIVER = {Memory.PINNED, Memory.WRITE_COMBINED, Memory.MANAGED, Memory.MAPPED}


@pytest.fixture(params=machines.ALL, ids=lambda make: make.__name__)
def machine(request):
    return request.param()


@functools.cache
def plan(machine, benchmark=None, parameters=PARAMETERS, only=None):
    wanted = None if benchmark is None else (Benchmark(benchmark),)
    sections = plan_suite(machine, parameters, wanted, only or Only())
    return [e for section in sections for e in section.experiments]


def notes(machine, benchmark, parameters=PARAMETERS):
    (section,) = plan_suite(machine, parameters, (Benchmark(benchmark),))
    return " ".join(section.notes)


def axis(experiments, position):
    return {e.name.split("/")[position] for e in experiments}


def test_names_are_unique_and_tell_what_is_measured(machine):
    experiments = plan(machine)
    names = [e.name for e in experiments]
    assert len(set(names)) == len(names)
    titles = [e.title for e in experiments]
    assert len(set(titles)) == len(titles)


def test_no_set_of_copies_is_planned_twice(machine):
    seen = [(e.timing, sorted(map(repr, e.copies))) for e in plan(machine)]
    assert len({repr(s) for s in seen}) == len(seen)


def test_threads_run_on_the_node_that_is_named(machine):
    for e in plan(machine):
        for part in e.name.split("/"):
            if part.startswith("by-"):
                here = machine.node(int(part[4:]))
                assert {cpu for c in e.copies for cpu in c.cpus} == {here.cores[0][0]}


def test_nothing_takes_more_memory_than_there_is(machine):
    memory = memory_of(machine)
    for e in plan(machine):
        assert all(taken <= memory[part] for part, taken in taken_bytes(e).items())


def test_memory_is_where_there_is_some(machine):
    places = [p for e in plan(machine) for c in e.copies for p in (c.source, c.destination)]
    for place in set(places):
        part = machine.node(place.index) if place.is_host else machine.gpu(place.index)
        assert part.memory_bytes != 0
        assert machine.gpus or place.memory not in BY_DRIVER


def test_overhead_goes_through_every_place_thread_memory_and_size(machine):
    experiments = plan(machine, "overhead")
    threads = {f"by-{n.id}" for n in machine.nodes if n.cores}
    with_memory = {n.id for n in machine.nodes if n.memory_bytes}
    assert axis(experiments, 1) == with_memory | {g.id for g in machine.gpus}
    assert axis(experiments, 3) == threads
    kinds = {"pageable", "huge"}
    if machine.gpus:
        kinds |= {"pinned", "write-combined", "managed", "device", "pool"}
    assert axis(experiments, 2) == kinds
    for e in experiments:
        stages = [c.operation for c in e.copies]
        touched = [Operation.TOUCH] if e.copies[0].source.is_host else []
        assert stages == [Operation.ALLOCATE, *touched, Operation.RELEASE]
        assert taken_bytes(e) == {e.copies[0].source.part: e.copies[0].bytes}


def test_host_goes_through_every_pair_of_nodes():
    experiments = plan(machines.paper(), "host")
    assert axis(experiments, 1) == {"h0-h0", "h0-h1", "h1-h0", "h1-h1"}
    assert axis(experiments, 3) == {"pageable", "pinned", "write-combined"}
    per_direction = len(experiments) / 4 / 2
    # 10 B to 10 MB: five accesses, the larger ones two; write-combined up to 10 MB
    assert per_direction == 3 * 7 * 5 + 2 * 2 * 2
    small = {e.name.split("/", 3)[3] for e in experiments if e.name.endswith("/10")}
    assert len(small) == 3 * 5
    assert "pageable/random/warm/10" in small


def test_walks_are_of_whole_blocks_that_outgrow_the_cache(machine):
    for e in plan(machine, "host") + plan(machine, "hostdev"):
        (copy,) = e.copies
        assert copy.span_bytes % copy.bytes == 0
        if copy.access.pattern is not Pattern.REPEATED:
            assert 2 <= copy.span_bytes // copy.bytes <= 1 << 20
            assert copy.access.caches is Caches.WARM


def test_hostdev_waits_for_what_the_driver_stages():
    experiments = plan(machines.paper(), "hostdev")
    assert {e.timing for e in experiments} == {Timing.HOST, Timing.GATE}
    for e in experiments:
        (copy,) = e.copies
        host = copy.source if copy.source.is_host else copy.destination
        assert (e.timing is Timing.GATE) == ("/async/" in e.name)
        assert not (host.memory in HOST_TIMED and e.timing is Timing.GATE)
    assert axis(experiments, 1) == {"h2d", "d2h"}
    assert axis(experiments, 2) == {"g0", "g1", "g2", "g3"}
    assert axis(experiments, 3) == {"h0", "h1"}
    assert axis(experiments, 4) == {"by-h0", "by-h1"}


def test_peers_go_by_every_route_that_there_is():
    machine = machines.paper()
    experiments = plan(machine, "peer")
    routes = {tuple(e.name.split("/")[1:3]) for e in experiments}
    assert ("g0-g0", "peer") in routes
    assert ("g0-g0", "staged") not in routes
    assert {r for direction, r in routes if direction == "g1-g0"} == {"peer", "uva", "staged"}
    assert {r for direction, r in routes if direction == "g0-g2"} == {"staged"}
    assert "g0 and g2; g0 and g3; g1 and g2" in notes(machine, "peer")
    assert len({direction for direction, _ in routes}) == 16


def test_nurma_has_a_place_for_each_load(machine):
    experiments = plan(machine, "nurma")
    assert axis(experiments, 4) == {"chase", "random-chase", "gather"}
    assert axis(experiments, 5) == {"8", "64", "4096", "5256", "65536"}
    assert {"small-pages", "huge"} <= axis(experiments, 3)
    for e in experiments:
        (copy,) = e.copies
        stride = copy.access.stride_bytes
        assert copy.bytes % 8 == 0
        assert copy.span_bytes % stride == 0
        assert copy.span_bytes // stride * (stride // 8) >= copy.bytes // 8
    outgrown = max(c.span_bytes for e in experiments for c in e.copies)
    assert outgrown > max(n.cache_bytes or 0 for n in machine.nodes)


def test_a_gap_of_nothing_is_one_load_next_to_the_other():
    nurma = replace(PARAMETERS.nurma, gap_bytes=0)
    found = plan(machines.one_node(), "nurma", replace(PARAMETERS, nurma=nurma))
    assert axis(found, 5) == {"8", "64", "4096", "65536"}


def test_fewer_axes():
    machine = machines.paper()
    narrow = replace(PARAMETERS, all_gpus=False, all_memories=False, patterns=False, sockets=False)
    experiments = plan(machine, parameters=narrow)
    memories = {
        (e.name.split("/")[0], p.memory)
        for e in experiments
        for c in e.copies
        for p in (c.source, c.destination)
        if p.is_host
    }
    assert memories == {
        *(("overhead", Memory.PAGEABLE), ("host", Memory.PAGEABLE), ("hostdev", Memory.PINNED)),
        *(("nurma", Memory.PAGEABLE), ("contention", Memory.PAGEABLE)),
        ("contention", Memory.PINNED),
    }
    assert {p.part for e in experiments for c in e.copies for p in (c.source, c.destination)} == {
        *("h0", "h1", "g0"),
    }
    host = plan(machine, "host", narrow)
    assert axis(host, 2) == {"by-h0"}
    assert axis(host, 4) == {"repeated"}
    assert axis(host, 5) == {"warm"}


def test_sizes_are_those_of_the_range_and_the_burst():
    sizes = SizeParameters(min_bytes=10, max_bytes=1000)
    parameters = replace(PARAMETERS, host=sizes, steps_per_decade=2, burst=True, burst_bytes=77)
    one = machines.one_node()
    assert axis(plan(one, "host", parameters), 6) == {"10", "32", "77", "100", "316", "1000"}
    burst = replace(parameters, range=False)
    assert axis(plan(one, "host", burst), 6) == {"77"}
    assert not plan(one, "host", replace(burst, burst=False))


def test_one_sample_unless_sustained():
    sections = plan_suite(machines.one_node(), replace(PARAMETERS, sustained=False, repeats=9))
    assert {s.samples for s in sections} == {1}
    sections = plan_suite(machines.one_node(), replace(PARAMETERS, repeats=9))
    assert {s.benchmark: s.samples for s in sections}[Benchmark.HOST] == 9
    assert {s.benchmark: s.samples for s in sections}[Benchmark.CONTENTION] is None


def test_what_is_asked_for_is_measured_at_all_sizes():
    machine = machines.paper()
    only = Only((Memory.WRITE_COMBINED,), (Pattern.DESCENDING,), (Caches.FLUSHED,), nodes=(1,))
    found = plan(machine, "host", only=only)
    assert axis(found, 1) == {"h1-h1"}
    assert {e.name.split("/", 3)[3] for e in found} >= {
        "write-combined/descending/flushed/10",
        "write-combined/descending/flushed/1500000000",
    }
    assert axis(plan(machine, "hostdev", only=Only(gpus=(2,))), 2) == {"g2"}
    assert axis(plan(machine, "overhead", only=Only(nodes=(1,))), 1) == {"h1"}
    assert axis(plan(machine, "overhead", only=Only(gpus=(1,), nodes=(1,))), 1) == {"h1", "g1"}


def test_what_is_missing_is_told():
    assert "no pinned memory" in " ".join(
        s
        for section in plan_suite(
            machines.one_node(), PARAMETERS, (Benchmark.HOST,), Only((Memory.PINNED,))
        )
        for s in section.notes
    )
    assert "h1 has no memory" in machine_notes(machines.without_memory())[0]
    assert "h1 has no core that this process may use" in machine_notes(machines.in_a_container())[0]
    assert "left out" in notes(machines.little_memory(), "host")
    assert "1024 MiB free" in notes(machines.little_memory(), "overhead")
    assert "write-combined" in notes(machines.paper(), "host")
    assert machine_notes(machines.paper()) == ()


def test_gpus_copy_and_threads_do_the_rest():
    for e in plan(machines.eight_gpus()):
        by_gpu = e.name.startswith(("hostdev/", "peer/", "contention/pcie/"))
        assert {c.engine for c in e.copies} == {Engine.CE if by_gpu else Engine.CPU}


def test_strides_that_leave_the_block_at_once_are_told_and_not_measured():
    small = Parameters(nurma=NurmaParameters(block_bytes=4096))
    assert axis(plan(machines.one_node(), "nurma", small), 5) == {"8", "64", "4096"}
    assert "no loads every 5256 B, 64 KiB" in notes(machines.one_node(), "nurma", small)
    assert "no loads" not in notes(machines.one_node(), "nurma")


def test_without_burst_and_range_there_are_no_sizes():
    neither = Parameters(burst=False, range=False)
    assert plan(machines.one_node(), "host", neither) == []
    assert "no sizes to measure" in notes(machines.one_node(), "host", neither)
    assert plan(machines.one_node(), "contention", neither)


def test_memory_of_gpus_takes_gpus():
    (section,) = plan_suite(
        machines.one_node(), PARAMETERS, (Benchmark.OVERHEAD,), Only((Memory.DEVICE,))
    )
    assert section.experiments == ()
    assert section.notes == ("overhead: no device memory: there is no GPU.",)
