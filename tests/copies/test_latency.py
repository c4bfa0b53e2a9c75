"""Which latencies a machine has, and which cannot be asked for."""

import dataclasses

import pytest

from lanescope.copies import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.copies.limit import limits
from lanescope.copies.terms import ARRAYS
from lanescope.errors import InputError
from lanescope.studies.latency import LOAD_BYTES, latency_experiments

HOST, GPU = Place("h0", Memory.PINNED), Place("g0", Memory.DEVICE)


def names(machine, gpus=None):
    return [e.name for e in latency_experiments(machine, gpus or machine.gpus)]


def test_a_machine_without_gpus_has_none(two_gpus):
    assert latency_experiments(dataclasses.replace(two_gpus, gpus=()), ()) == ()


def test_one_gpu_has_every_kind(two_gpus):
    alone = dataclasses.replace(two_gpus, gpus=two_gpus.gpus[:1])
    assert names(alone) == [
        "latency/chase/g0/h0",
        "latency/random-chase/g0/h0",
        "latency/chase/g0/g0",
        "latency/random-chase/g0/g0",
        "latency/launch/g0",
        "latency/kernel-sync/g0",
        "latency/kernel-spin/g0",
        "latency/copy-submit/g0/h2d",
        "latency/copy-sync/g0/h2d",
        "latency/copy-submit/g0/d2h",
        "latency/copy-sync/g0/d2h",
        "latency/copy-spin/g0/d2h",
        "latency/ping-pong/g0/h0",
        "latency/loaded/chase/g0/h0/same",
        "latency/loaded/chase/g0/h0/opposite",
        "latency/loaded/copy-sync/g0/h0/h2d/same",
        "latency/loaded/copy-sync/g0/h0/h2d/opposite",
        "latency/loaded/copy-sync/g0/h0/d2h/same",
        "latency/loaded/copy-sync/g0/h0/d2h/opposite",
    ]


def test_peers_are_chased_where_they_can_be_reached(two_gpus):
    found = names(two_gpus, two_gpus.gpus[:1])
    assert "latency/chase/g0/g1" in found
    assert "latency/loaded/chase/g0/g1/opposite" in found
    apart = tuple(dataclasses.replace(gpu, peers=()) for gpu in two_gpus.gpus)
    assert not [n for n in names(dataclasses.replace(two_gpus, gpus=apart)) if "g0/g1" in n]


def test_every_node_is_chased_and_played_with(two_sockets):
    found = names(two_sockets)
    for node in ("h0", "h1"):
        assert f"latency/chase/g1/{node}" in found
        assert f"latency/ping-pong/g1/{node}" in found
    assert len(set(found)) == len(found)
    assert not [n for n in found if "loaded" in n and "h0" in n]  # only the near node is loaded


def test_threads_run_next_to_the_memory(two_sockets):
    for experiment in latency_experiments(two_sockets, two_sockets.gpus):
        for copy in experiment.copies:
            hosts = [p for p in (copy.source, copy.destination) if p.is_host]
            near = {
                cpu
                for core in two_sockets.node(hosts[0].index if hosts else 1).cores
                for cpu in core
            }
            assert set(copy.cpus) == near


def test_a_load_goes_its_direction_and_has_the_limit_to_itself(two_gpus):
    by_name = {e.name: e for e in latency_experiments(two_gpus, two_gpus.gpus)}
    for direction, path in (("same", "h0 → g0"), ("opposite", "g0 → h0")):
        experiment = by_name[f"latency/loaded/chase/g0/h0/{direction}"]
        probe, load = experiment.copies
        assert (probe.operation, load.operation) == (Operation.CHASE, Operation.COPY)
        assert (load.path, load.bytes, load.engine) == (path, LOAD_BYTES, Engine.CE)
        alone = Experiment("alone", "alone", (load,))
        none, bound = limits(two_gpus, experiment)
        assert none.gbs is None
        assert bound == limits(two_gpus, alone)[0]


@pytest.mark.parametrize(
    ("source", "destination", "engine", "operation", "message"),
    [
        (HOST, GPU, Engine.CE, Operation.CHASE, "needs engine sm"),
        (HOST, GPU, Engine.SM, Operation.COPY_SYNC, "needs engine ce"),
        (GPU, HOST, Engine.SM, Operation.CHASE, "ends at the GPU"),
        (HOST, GPU, Engine.CE, Operation.COPY_SPIN, "ends in host memory"),
        (Place("h0", Memory.PAGEABLE), GPU, Engine.SM, Operation.CHASE, "pageable"),
    ],
)
def test_what_cannot_be_measured_is_refused(source, destination, engine, operation, message):
    with pytest.raises(InputError, match=message):
        Copy(source, destination, 4096, engine, operation)


def test_two_latencies_at_once_are_refused():
    chase = Copy(HOST, GPU, 4096, Engine.SM, Operation.CHASE)
    with pytest.raises(InputError, match="several latencies"):
        Experiment("two", "two", (chase, chase))


def test_operations_are_copies_or_latencies():
    assert {o for o in Operation if not o.is_latency} == set(ARRAYS)
    assert not any(o.is_of_memory and not o.is_latency for o in Operation)
    assert [o for o in Operation if o.is_chase] == [
        Operation.CHASE,
        Operation.CHASE_RANDOM,
        Operation.CHASE_TMA,
    ]
    experiment = Experiment(
        "x", "x", (Copy(HOST, GPU, 16, Engine.CE, Operation.COPY_SYNC),), Timing.HOST
    )
    assert experiment.has_latency
