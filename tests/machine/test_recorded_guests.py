"""Machines with several NUMA nodes that QEMU made up, recorded by ``benchmarks/numa-guest``."""

from pathlib import Path

import pytest

from lanescope.copies.requirements import require_room
from lanescope.engine.native import NativeBackend
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import LinkKind
from lanescope.machine.discovery import machine_from_snapshot
from lanescope.machine.files import load_machine, save_machine
from lanescope.machine.snapshot import Snapshot
from lanescope.report.format import bytes_text
from lanescope.report.topology_svg import topology_svg
from lanescope.studies.check import check_experiments
from tests.conftest import experiment_of
from tests.engine.test_native import host_threads

DATA = Path(__file__).parent.parent / "data"


def recorded(name):
    return machine_from_snapshot(Snapshot.load(DATA / name))


@pytest.fixture
def no_memory():
    return recorded("qemu-cpu-only-node")


def directions(machine):
    """Source and destination of the cases, in their order."""
    copies = [copy for e in check_experiments(machine) for copy in e.copies]
    return list(dict.fromkeys((copy.source.part, copy.destination.part) for copy in copies))


def test_two_nodes():
    machine = recorded("qemu-2node")
    assert [n.cores for n in machine.nodes] == [((0,), (1,)), ((2,), (3,))]
    assert [bytes_text(n.memory_bytes) for n in machine.nodes] == ["1.44 GiB", "1.41 GiB"]
    assert [n.cache_bytes for n in machine.nodes] == [16 << 20] * 2
    assert [(ln.a, ln.b, ln.kind) for ln in machine.links] == [("h0", "h1", LinkKind.SOCKET)]
    assert directions(machine) == [("h0", "h0"), ("h1", "h1"), ("h0", "h1"), ("h1", "h0")]


def test_memory_without_cores_is_reached_by_the_others():
    machine = recorded("qemu-memory-only-node")
    assert [len(n.cores) for n in machine.nodes] == [2, 2, 0]
    assert machine.node(2).memory_bytes > 0
    assert ("h2", "h2") not in directions(machine)
    assert {("h0", "h2"), ("h1", "h2"), ("h2", "h0"), ("h2", "h1")} <= set(directions(machine))


def test_cores_without_memory(no_memory):
    assert [len(n.cores) for n in no_memory.nodes] == [2, 2, 2]
    assert no_memory.node(2).memory_bytes == 0
    assert directions(no_memory) == [("h0", "h0"), ("h1", "h1"), ("h0", "h1"), ("h1", "h0")]
    assert "no memory" in topology_svg(no_memory)


def test_no_memory_survives_a_machine_file(no_memory, tmp_path):
    save_machine(no_memory, tmp_path / "machine.toml")
    assert load_machine(tmp_path / "machine.toml").node(2).memory_bytes == 0


def test_no_memory_is_told_in_a_sentence(no_memory):
    experiment = experiment_of(host_threads("h0", "h2", 1 << 20))
    with pytest.raises(InputError, match="h2 has no memory"):
        require_room(no_memory, experiment)
    with (
        pytest.raises(NotMeasuredError, match="h2 has no memory"),
        NativeBackend(no_memory).prepare(experiment),
    ):
        pass
