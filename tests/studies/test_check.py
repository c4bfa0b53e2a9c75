import dataclasses

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Place, Timing
from lanescope.copies.limit import limits
from lanescope.engine.base import ModelBackend
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Link, LinkKind
from lanescope.studies.check import check_experiments, select
from lanescope.studies.sweep import sweep_experiments


def test_every_path_of_two_gpus(two_gpus):
    names = [e.name for e in check_experiments(two_gpus)]
    assert len(set(names)) == len(names)
    assert [n for n in names if not n.startswith("host-")] == [
        *("h2d/g0", "d2h/g0", "h2d+d2h/g0"),
        *("h2d/g1", "d2h/g1", "h2d+d2h/g1"),
        *("d2d/g0-g1", "d2d/g1-g0", "d2d-both/g0-g1"),
    ]


def test_host_memory_within_and_between_nodes(two_sockets):
    cases = {e.name: e for e in check_experiments(two_sockets) if e.name.startswith("host-")}
    assert len(cases) == 2 * 4 + 2 * 4  # copy and triad, one core and all, in 2 nodes and 2 ways
    remote = cases["host-copy/h1-h0/all-cores"].copies[0]
    assert remote.cpus == (2, 3)  # the cores of the node it reads
    assert remote.path == "h1 → h0"


def test_memory_without_cores_is_written_and_read(two_sockets):
    far = dataclasses.replace(two_sockets.nodes[1], cores=())
    machine = dataclasses.replace(two_sockets, nodes=(two_sockets.nodes[0], far), gpus=())
    cases = {e.name: e.copies[0].cpus for e in check_experiments(machine)}
    assert cases["host-copy/h0-h1/all-cores"] == cases["host-copy/h1-h0/all-cores"] == (0, 1)
    assert "host-copy/h1/all-cores" not in cases


def test_one_core_is_not_measured_twice(two_gpus):
    node = dataclasses.replace(two_gpus.nodes[0], cores=((0, 1),))
    names = [e.name for e in check_experiments(dataclasses.replace(two_gpus, nodes=(node,)))]
    assert [n for n in names if n.startswith("host-copy")] == ["host-copy/h0/1-core"]


def test_arrays_are_past_the_caches_and_within_memory(two_gpus):
    node = two_gpus.nodes[0]
    copy = check_experiments(two_gpus)[0].copies[0]
    assert copy.bytes >= 4 * node.cache_bytes
    small = dataclasses.replace(node, memory_bytes=600 << 20)
    tight = check_experiments(dataclasses.replace(two_gpus, nodes=(small,)))[0].copies[0]
    assert 3 * tight.bytes <= 300 << 20


def test_copies_are_submitted_next_to_the_gpu(two_sockets):
    down = next(e for e in check_experiments(two_sockets) if e.name == "h2d/g0").copies[0]
    assert down.source.part == "h1"
    assert down.cpus == (2, 3)


def test_every_gpu_copies_with_the_other_nodes_too(two_sockets):
    cases = {e.name: e.copies[0] for e in check_experiments(two_sockets)}
    assert cases["h2d/g0"].path == "h1 → g0"
    assert cases["h2d/g0/h0"].path == "h0 → g0"
    assert cases["d2h/g1/h0"].path == "g1 → h0"
    assert cases["h2d/g0/h0"].cpus == (0, 1)
    assert sum(name.count("/") == 2 and "2" in name[:3] for name in cases) == 4


def test_select(two_gpus):
    cases = check_experiments(two_gpus)
    assert [e.name for e in select(cases, ["h2d/*"])] == ["h2d/g0", "h2d/g1"]
    assert select(cases, []) == cases
    with pytest.raises(InputError, match="did you mean 'h2d/g0'"):
        select(cases, ["h2d/g00"])


def test_sweep_times_pinned_memory_twice_and_pageable_by_the_host(two_gpus):
    points = sweep_experiments(two_gpus, two_gpus.gpus[:1], [16, 1024])
    kinds = {
        (c.source if c.source.is_host else c.destination).memory: set()
        for e in points
        for c in e.copies
    }
    for e in points:
        copy = e.copies[0]
        assert copy.engine is Engine.CE
        host = copy.source if copy.source.is_host else copy.destination
        kinds[host.memory].add(e.timing)
    assert kinds == {Memory.PINNED: {Timing.GATE, Timing.HOST}, Memory.PAGEABLE: {Timing.HOST}}
    assert len({e.name for e in points}) == len(points) == 2 * 2 * 3


@pytest.mark.parametrize("gbs", [10.0, 307.2, 5000.0])
def test_host_memory_of_any_described_speed_is_predicted(two_gpus, gbs):
    node = dataclasses.replace(two_gpus.nodes[0], cache_bytes=None, memory_gbs=gbs)
    far = dataclasses.replace(node, index=1, cores=((8,),), memory_gbs=None)
    socket = Link("h0", "h1", LinkKind.SOCKET, payload_gbs=(200.0, 250.0))
    machine = dataclasses.replace(
        two_gpus, nodes=(node, far), links=(*two_gpus.links, socket), described=True
    )
    for case in select(check_experiments(machine), ["host-*/h0*"]):
        with ModelBackend(machine).prepare(case) as session:
            (seconds,) = session.sample()
        assert case.copies[0].counted_bytes / seconds[0] / 1e9 == pytest.approx(
            limits(machine, case)[0].gbs
        )


def test_a_host_copy_too_short_to_be_predicted_says_what_size_is_not(two_gpus):
    machine = dataclasses.replace(two_gpus, described=True)
    place = Place("h0", Memory.PAGEABLE)
    short = Experiment("x", "x", (Copy(place, place, 1 << 20, Engine.CPU, cpus=(0,)),))
    with (
        pytest.raises(NotMeasuredError, match=r"1 MiB takes .* its limit") as caught,
        ModelBackend(machine).prepare(short),
    ):
        pass
    assert "Predict one of 96 MiB or more" in caught.value.remedy
