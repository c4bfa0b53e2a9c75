"""Threads and memory on machines with several NUMA nodes, by the kernel's own account.

Where there is one node only, all of it is skipped: ``benchmarks/numa-guest`` runs it in
guests that have two and more.
"""

import itertools
import json
import mmap
import subprocess
import sys
import threading
from collections import Counter

import pytest

import lanescope
from lanescope._core import native
from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place
from lanescope.engine.native import NativeBackend
from lanescope.errors import NotMeasuredError
from lanescope.machine.discovery import discover
from lanescope.studies.check import check_experiments
from tests.native import kernel_numa as kernel

WITH_CPU = [n for n in kernel.nodes("has_cpu") if n in kernel.nodes()]
WITH_MEMORY = kernel.nodes("has_memory")
BOTH = [n for n in WITH_CPU if n in WITH_MEMORY]
NO_MEMORY = [n for n in kernel.nodes() if n not in WITH_MEMORY]
pytestmark = [
    pytest.mark.numa,
    pytest.mark.skipif(len(kernel.nodes()) < 2, reason="fewer than two NUMA nodes"),
    pytest.mark.skipif(not kernel.all_allowed(), reason="this process may not use every node"),
    pytest.mark.skipif(not kernel.can_ask(), reason="the kernel does not tell where pages lie"),
]
without_memory = pytest.mark.skipif(not NO_MEMORY, reason="every node has memory")

SIZE = 16 << 20  # whole huge pages
PAGE = mmap.PAGESIZE


@pytest.fixture
def topology():
    return native.Topology()


@pytest.fixture(params=WITH_CPU)
def cpus(request):
    return kernel.cpus_of(request.param)


def spec(source, destination, cpus, operation="copy"):
    places = (native.PlaceSpec(native.Memory.pageable, node) for node in (source, destination))
    return native.HostCopySpec(*places, SIZE, getattr(native.Operation, operation), cpus)


def team_of(topology, *specs):
    return native.HostTeam(topology, native.BufferPool(topology), list(specs))


def pages_by_node(before):
    """Pages of the areas that were bound since `before`, by the node that holds them."""
    where = Counter()
    for begin in set(kernel.bound_areas()) - set(before):
        where += kernel.pages(begin, kernel.size_of_area(begin))
    return {node: count for node, count in where.items() if node >= 0}  # others are untouched


def test_the_machine_is_what_the_kernel_says():
    machine = discover()
    assert [n.index for n in machine.nodes] == kernel.nodes()
    for node in machine.nodes:
        cpus = [cpu for core in node.cores for cpu in core]
        assert sorted(cpus) == kernel.cpus_of(node.index)
        assert (node.memory_bytes > 0) == (node.index in WITH_MEMORY)


def test_threads_run_on_their_cpus(topology, cpus):
    before = kernel.threads()
    team = team_of(topology, spec(BOTH[0], BOTH[0], cpus))
    team.run(3)
    ours = [where for thread, where in kernel.threads().items() if thread not in before]
    assert sorted(ours) == [([cpu], cpu) for cpu in cpus]


@pytest.mark.parametrize("operation", ["copy", "triad"])
@pytest.mark.parametrize(("source", "destination"), [*itertools.product(WITH_MEMORY, repeat=2)])
def test_memory_lies_where_it_is_asked_for(topology, source, destination, operation, cpus):
    before = kernel.bound_areas()
    team = team_of(topology, spec(source, destination, cpus, operation))
    expected = Counter({source: {"copy": 1, "triad": 2}[operation] * SIZE // PAGE})
    expected += Counter({destination: SIZE // PAGE})
    assert pages_by_node(before) == expected
    team.run(2)
    assert team.count_mismatches() == 0
    assert pages_by_node(before) == expected  # nothing wandered off while it ran
    del team
    assert pages_by_node(before) == {}


def test_copies_of_all_nodes_at_once(topology):
    pairs = list(itertools.permutations(WITH_MEMORY, 2))
    specs = [spec(a, b, kernel.cpus_of(WITH_CPU[i % 2])) for i, (a, b) in enumerate(pairs)]
    before = kernel.bound_areas()
    team = team_of(topology, *specs)
    assert all(len(spans) >= 3 for spans in team.run(3))  # who is through goes on
    assert team.count_mismatches() == 0
    each = 2 * (len(WITH_MEMORY) - 1) * SIZE // PAGE
    assert pages_by_node(before) == dict.fromkeys(WITH_MEMORY, each)


def test_memory_stays_bound_when_a_thread_of_another_node_touches_it(topology):
    """The policy of an area counts, not the toucher's: each node's CPUs, the other's memory."""
    for cpu_node, memory_node in itertools.permutations(BOTH, 2):
        before = kernel.bound_areas()
        team = team_of(topology, spec(memory_node, memory_node, kernel.cpus_of(cpu_node)))
        assert set(pages_by_node(before)) == {memory_node}
        del team


@pytest.mark.parametrize("node", WITH_MEMORY)
def test_new_pages_come_from_the_node_of_the_policy(topology, node):
    before = kernel.policy()
    where = native.testing.with_memory_policy(topology, node, lambda: kernel.fresh_pages(SIZE))
    assert where == {node: SIZE // PAGE}
    assert kernel.policy() == before


@pytest.fixture
def own_policy():
    yield kernel.set_policy
    kernel.set_policy(kernel.DEFAULT, set())


@pytest.mark.parametrize(
    "mode", [kernel.PREFERRED, kernel.BIND, kernel.INTERLEAVE, kernel.LOCAL, kernel.PREFERRED_MANY]
)
def test_a_policy_of_the_callers_comes_back(topology, own_policy, mode):
    several = mode in (kernel.INTERLEAVE, kernel.PREFERRED_MANY)
    chosen = set(WITH_MEMORY) if several else {WITH_MEMORY[-1]}
    own_policy(mode, set() if mode == kernel.LOCAL else chosen)
    before = kernel.policy()
    assert before[0] == mode
    node = WITH_MEMORY[0]
    where = native.testing.with_memory_policy(topology, node, lambda: kernel.fresh_pages(SIZE))
    assert where == {node: SIZE // PAGE}
    assert kernel.policy() == before


def test_a_policy_comes_back_after_an_error(topology):
    before = kernel.policy()
    with pytest.raises(ZeroDivisionError):
        native.testing.with_memory_policy(topology, WITH_MEMORY[-1], lambda: 1 // 0)
    assert kernel.policy() == before


def test_a_thread_is_bound_for_a_scope_only(topology, cpus):
    def here():
        return kernel.threads()[threading.get_native_id()]

    before = here()[0]
    allowed, ran_on = native.testing.with_binding(topology, cpus, here)
    assert allowed == cpus
    assert ran_on in cpus
    assert here()[0] == before


def test_only_the_nodes_of_the_cpus_that_this_process_may_use():
    """Bound from outside to one node's CPUs, a process has those cores only."""
    cpus = kernel.cpus_of(WITH_CPU[-1])
    code = f"""
import os, json
os.sched_setaffinity(0, {cpus})
from lanescope.machine.discovery import discover
from lanescope.studies.check import check_experiments
machine = discover()
cores = {{n.index: sorted(c for core in n.cores for c in core) for n in machine.nodes}}
used = {{cpu for e in check_experiments(machine) for c in e.copies for cpu in c.cpus}}
print(json.dumps([cores, sorted(used)]))
"""
    cores, used = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert cores.pop(str(WITH_CPU[-1])) == cpus
    assert not any(cores.values())
    assert set(used) <= set(cpus)


def host_copy(source, destination, size=SIZE):
    places = (Place(f"h{n}", Memory.PAGEABLE) for n in (source, destination))
    copy = Copy(*places, size, Engine.CPU, Operation.COPY)
    return Experiment("here", "here", (copy,))


def overhead(node):
    place = Place(f"h{node}", Memory.HUGE)
    stages = (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)
    cpus = tuple(kernel.cpus_of(BOTH[0])[:1])
    copies = tuple(Copy(place, place, SIZE, Engine.CPU, stage, cpus) for stage in stages)
    return Experiment("here", "here", copies)


@pytest.mark.parametrize(("source", "destination"), [*itertools.permutations(BOTH, 2)])
def test_a_measurement_across_nodes(source, destination):
    result = lanescope.measure(host_copy(source, destination))
    assert result.copies[0].gbs > 0


@pytest.mark.parametrize("node", WITH_MEMORY)
def test_more_than_a_node_has_is_told_in_a_sentence(node):
    total = discover().node(node).memory_bytes
    half = total // 2 >> 20 << 20  # two arrays of this: more than is free, less than all nodes have
    with (
        pytest.raises(NotMeasuredError, match=f"MiB of the memory of h{node}"),
        NativeBackend(discover()).prepare(host_copy(node, node, half)),
    ):
        pass


@pytest.mark.parametrize(("cpu_node", "memory_node"), [*itertools.permutations(BOTH, 2)])
def test_where_binding_is_forbidden_a_thread_of_the_node_touches_first(cpu_node, memory_node):
    """As in a container: the calls are refused, and the pages lie right all the same."""
    code = f"""
import json
from tests.native import kernel_numa as kernel
kernel.forbid_binding()
import lanescope
from lanescope._core import native
from lanescope.errors import NotMeasuredError
from tests.native.test_numa import PAGE, SIZE, overhead, spec, team_of
before = kernel.large_areas(SIZE)
team = team_of(native.Topology(), spec({memory_node}, {memory_node}, [{cpu_node}]))
team.run(2)
after = kernel.large_areas(SIZE)
refused = lanescope.measure(overhead({memory_node})).not_measured
print(json.dumps([after - before, team.count_mismatches(), refused.reason]))
"""
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    where, wrong, reason = json.loads(output)
    assert {int(node): pages for node, pages in where.items()} == {memory_node: 2 * SIZE // PAGE}
    assert wrong == 0
    assert reason.startswith("This process may not bind memory to a NUMA node.")


@without_memory
@pytest.mark.parametrize("node", NO_MEMORY)
def test_a_node_without_memory_is_told_in_a_sentence(node):
    backend = NativeBackend(discover())
    for source, destination in ((node, BOTH[0]), (BOTH[0], node)):
        with (
            pytest.raises(NotMeasuredError, match=f"h{node} has no memory"),
            backend.prepare(host_copy(source, destination)),
        ):
            pass


@without_memory
@pytest.mark.parametrize("node", NO_MEMORY)
def test_memory_cannot_be_bound_to_a_node_without(topology, node):
    with pytest.raises(native.NativeError, match="membind"):
        team_of(topology, spec(node, node, kernel.cpus_of(BOTH[0])[:1]))


@without_memory
def test_no_case_needs_memory_that_is_not_there():
    copies = [copy for e in check_experiments(discover()) for copy in e.copies]
    parts = {place.part for copy in copies for place in (copy.source, copy.destination)}
    assert not parts & {f"h{n}" for n in NO_MEMORY}
