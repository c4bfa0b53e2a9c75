"""``bench latency``: loads, calls and round trips of GPUs, alone and under load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Timing
from lanescope.copies.patterns import CHASE_BYTES, reach_each_other
from lanescope.copies.requirements import chosen_gpus, missing_part
from lanescope.copies.terms import Memory, Place
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, command
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.studies import gpu_option
from lanescope.studies.study import Study, Work

MIB = 1 << 20

#: Twice what the second-level cache of the largest GPU holds, and more.
LARGE_RING_BYTES = 256 * MIB
#: A load's copy: long enough that the pauses between copies do not count.
LOAD_BYTES = 256 * MIB
#: What a program sends to say that something is done.
MESSAGE_BYTES = 16
_WORD_BYTES = 4

_RINGS = (
    (Operation.CHASE, CHASE_BYTES, "2 MiB by address"),
    (Operation.CHASE_RANDOM, LARGE_RING_BYTES, "256 MiB in random order"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Latency(Study):
    """Measure latencies of a GPU: loads by memory, launches, small copies, round trips.

    Loads and small copies are measured on an idle link and while copies fill it in
    the same and in the opposite direction. Latencies are not predicted, so that a
    described machine has none.

    Attributes
    ----------
    gpus
        Numbers of the GPUs; None takes the first.
    """

    verb: ClassVar[str] = "latency"
    title: ClassVar[str] = "Latency"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.5)
    of_what: ClassVar[str] = "one latency"
    predicted: ClassVar[bool] = False

    gpus: Annotated[int | Sequence[int] | None, gpu_option("GPU to measure")] = None

    def work(self, machine: Machine) -> Work:
        """Return the latencies of the chosen GPUs."""
        if machine.described:
            raise InputError(f"machine {machine.name!r} is described; latencies are only measured")
        if not machine.gpus:
            raise missing_part(
                machine,
                f"machine {machine.name!r} has no GPU to take latencies of; "
                f"{command('check')} measures host memory",
            )
        return Work(latency_experiments(machine, chosen_gpus(machine, self.gpus)))


def latency_experiments(machine: Machine, gpus: Iterable[Gpu]) -> tuple[Experiment, ...]:
    """Return loads, calls and round trips of each GPU, alone and under load.

    What is named twice is measured once: names are unique within a run.
    """
    experiments: list[Experiment] = []
    for gpu in dict.fromkeys(gpus):
        experiments += _chases(machine, gpu)
        experiments += _kernel_calls(machine, gpu)
        experiments += _copy_calls(machine, gpu)
        experiments += [_ping_pong(node, gpu) for node in machine.nodes if node.cores]
        experiments += _under_load(machine, gpu)
    return tuple(experiments)


def _chases(machine: Machine, gpu: Gpu) -> list[Experiment]:
    """Loads from every memory that the GPU reaches: nodes, its own, its peers'."""
    places = [Place(node.id, Memory.PINNED) for node in machine.nodes]
    places += [Place(other.id, Memory.DEVICE) for other in (gpu, *_peers(machine, gpu))]
    experiments = []
    for place in places:
        where = "its own memory" if place.part == gpu.id else place.part
        for operation, size, words in _RINGS:
            name = f"latency/{operation}/{gpu.id}/{place.part}"
            title = f"{gpu.id} loads from {where}, {words}"
            copy = _chase(machine, gpu, place, operation, size)
            experiments.append(Experiment(name, title, (copy,)))
    return experiments


def _kernel_calls(machine: Machine, gpu: Gpu) -> list[Experiment]:
    host = machine.nearest_node(gpu)
    words = {
        Operation.LAUNCH: "call that launches an empty kernel",
        Operation.KERNEL_SYNC: "kernel to its end, cudaStreamSynchronize",
        Operation.KERNEL_SPIN: "kernel to its word in host memory",
    }
    places = (Place(host.id, Memory.MAPPED), Place(gpu.id, Memory.DEVICE))
    return [
        Experiment(
            name=f"latency/{operation}/{gpu.id}",
            title=f"{gpu.id}: {title}",
            copies=(Copy(*places, _WORD_BYTES, Engine.SM, operation, _cpus(host), gpu.id),),
            timing=Timing.HOST,
        )
        for operation, title in words.items()
    ]


def _copy_calls(machine: Machine, gpu: Gpu) -> list[Experiment]:
    experiments = []
    for down in (True, False):
        experiments += [
            _call(machine, gpu, down, Operation.COPY_SUBMIT, "call of cudaMemcpyAsync"),
            _call(machine, gpu, down, Operation.COPY_SYNC, "cudaStreamSynchronize"),
        ]
    call = _call(machine, gpu, False, Operation.COPY_SPIN, "until it is seen in host memory")
    return [*experiments, call]


def _call(machine: Machine, gpu: Gpu, down: bool, operation: Operation, words: str) -> Experiment:
    copy = _message(machine, gpu, down, operation)
    return Experiment(
        name=f"latency/{operation}/{gpu.id}/{_direction(down)}",
        title=f"{copy.path}, {MESSAGE_BYTES} B copy: {words}",
        copies=(copy,),
        timing=Timing.HOST,
    )


def _ping_pong(node: NumaNode, gpu: Gpu) -> Experiment:
    places = (Place(node.id, Memory.MAPPED), Place(gpu.id, Memory.DEVICE))
    copy = Copy(*places, _WORD_BYTES, Engine.SM, Operation.PING_PONG, _cpus(node), gpu.id)
    return Experiment(
        name=f"latency/ping-pong/{gpu.id}/{node.id}",
        title=f"{node.id} ⇄ {gpu.id}, a word there and back",
        copies=(copy,),
        timing=Timing.HOST,
    )


def _under_load(machine: Machine, gpu: Gpu) -> list[Experiment]:
    """Loads and small copies while a copy engine fills the same link."""
    host = machine.nearest_node(gpu)
    near = Place(host.id, Memory.PINNED)
    probes = [(_chase(machine, gpu, near, Operation.CHASE, CHASE_BYTES), "", Timing.GATE)]
    for down in (True, False):
        message = _message(machine, gpu, down, Operation.COPY_SYNC)
        probes.append((message, f"/{_direction(down)}", Timing.HOST))
    for peer in _peers(machine, gpu):
        there = Place(peer.id, Memory.DEVICE)
        probes.append((_chase(machine, gpu, there, Operation.CHASE, CHASE_BYTES), "", Timing.GATE))
    return [
        _loaded(probe, end, timing, same) for probe, end, timing in probes for same in (True, False)
    ]


def _loaded(probe: Copy, end: str, timing: Timing, same: bool) -> Experiment:
    """Return a probe with a load that goes the way of its data, or the other way."""
    ends = (probe.source, probe.destination)
    source, destination = ends if same else ends[::-1]
    load = Copy(source, destination, LOAD_BYTES, Engine.CE, cpus=probe.cpus)
    gpu = str(probe.executing_gpu)
    other = probe.source.part if probe.source.part != gpu else probe.destination.part
    what = f"{gpu} loads from {other}" if probe.operation.is_chase else f"{probe.path}, 16 B copy"
    relation = "same" if same else "opposite"
    return Experiment(
        name=f"latency/loaded/{probe.operation}/{gpu}/{other}{end}/{relation}",
        title=f"{what}, while copies go {load.path}",
        copies=(probe, load),
        timing=timing,
    )


def _chase(machine: Machine, gpu: Gpu, place: Place, operation: Operation, size: int) -> Copy:
    node = machine.node(place.index) if place.is_host else machine.nearest_node(gpu)
    own = Place(gpu.id, Memory.DEVICE)
    return Copy(place, own, size, Engine.SM, operation, _cpus(node), gpu.id)


def _message(machine: Machine, gpu: Gpu, down: bool, operation: Operation) -> Copy:
    node = machine.nearest_node(gpu)
    ends = (Place(node.id, Memory.PINNED), Place(gpu.id, Memory.DEVICE))
    source, destination = ends if down else ends[::-1]
    return Copy(source, destination, MESSAGE_BYTES, Engine.CE, operation, _cpus(node), gpu.id)


def _peers(machine: Machine, gpu: Gpu) -> list[Gpu]:
    return [g for g in machine.gpus if g.index != gpu.index and reach_each_other(gpu, g)]


def _cpus(node: NumaNode) -> tuple[int, ...]:
    return tuple(cpu for core in node.cores for cpu in core)


def _direction(down: bool) -> str:
    return "h2d" if down else "d2h"
