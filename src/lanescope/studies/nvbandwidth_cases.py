"""All cases of nvbandwidth 0.8, those that 0.10 added, and some of ours, under their names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lanescope.calls import checked, shown
from lanescope.codec.fields import from_attributes
from lanescope.copies.copy import DEFAULT_BYTES, Engine
from lanescope.copies.experiment import Case, CaseSet, Experiment, Matrix
from lanescope.copies.kernel_shapes import LOADS, has_bulk_copies
from lanescope.copies.patterns import Patterns, usable, why_no_pairs, why_unusable
from lanescope.copies.requirements import missing_part
from lanescope.copies.terms import HOST_MEMORIES, UNPINNED, Memory, Operation
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.units.sizes import Bytes

Build = Callable[[Patterns], tuple[Matrix, ...]]

#: nvbandwidth's kernel for both directions copies each 16 KiB so often before the next.
_SPLIT_WARP_REPEATS = 16
#: Bulk copies within a GPU are of so many bytes.
_LOCAL_CHUNK = 32 << 10
#: What nvbandwidth's cases of several processes begin with.
_MULTINODE = "multinode_"
_NO_MULTICAST = (
    "it needs NVLink multicast objects, which have put hosts out of service; lanescope makes none"
)


@dataclass(frozen=True, slots=True)
@checked
class CaseOptions:
    """What a user may choose about the copies of the cases.

    Attributes
    ----------
    bytes
        Size of each copy.
    memory
        Kind of host memory.
    node
        NUMA node of the host memory; None takes the one nearest to each GPU.
    pairs
        How many pairs of GPUs to draw; None takes all.
    pair
        The only two GPUs that cases of pairs take: names such as ``g0``, or UUIDs.
    """

    bytes: Bytes = DEFAULT_BYTES
    memory: Memory = Memory.PINNED
    node: int | None = None
    pairs: int | None = None
    pair: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise InputError(f"copies of {self.bytes} bytes cannot be measured; give 1 B or more")
        if self.memory not in HOST_MEMORIES:
            raise InputError(
                f"{self.memory} is no memory of the host; give one of {', '.join(HOST_MEMORIES)}"
            )
        if self.pairs is not None and self.pairs < 1:
            raise InputError(f"{self.pairs} pairs cannot be drawn; give 1 or more, or None for all")


@dataclass(frozen=True, slots=True)
class _Spec:
    name: str
    description: str
    engine: Engine
    build: Build
    takes_pairs: bool = False
    takes_host: bool = False
    waived: str | None = None
    takes_bulk: bool = False


def _host_specs(engine: Engine, *, streaming: bool = False) -> list[_Spec]:
    """The cases between host and GPUs; `streaming` copies no chunk again before all others."""

    def spec(name: str, words: str, caption: str, *, down: bool, both: bool, every: bool) -> _Spec:
        def build(p: Patterns) -> tuple[Matrix, ...]:
            if both and engine is Engine.SM and not streaming:
                p = replace(p, chunk_repeats=_SPLIT_WARP_REPEATS)
            pattern = p.all_host if every else p.host
            return (pattern(caption, down=down, both=both),)

        if streaming:
            name = f"streaming_{name.removesuffix('_memcpy')}"
            words = f"{words[:-1]}; every byte comes from memory."
        return _Spec(f"{name}_{engine}", words, engine, build, takes_host=True)

    to, fro, duplex = (
        "CPU(row) -> GPU(column)",
        "CPU(row) <- GPU(column)",
        "CPU(row) <-> GPU(column)",
    )
    others = "All other GPUs copy at the same time."
    opposed = "Copies run both ways at the same time"
    return [
        spec("host_to_device_memcpy", "From the host to each GPU, one after the other.",
             to, down=True, both=False, every=False),
        spec("device_to_host_memcpy", "From each GPU to the host, one after the other.",
             fro, down=False, both=False, every=False),
        spec("host_to_device_bidirectional_memcpy", f"{opposed}; host to GPU is shown.",
             duplex, down=True, both=True, every=False),
        spec("device_to_host_bidirectional_memcpy", f"{opposed}; GPU to host is shown.",
             duplex, down=False, both=True, every=False),
        spec("all_to_host_memcpy", f"From each GPU to the host. {others}",
             fro, down=False, both=False, every=True),
        spec("all_to_host_bidirectional_memcpy", f"{opposed} on all GPUs; GPU to host is shown.",
             duplex, down=False, both=True, every=True),
        spec("host_to_all_memcpy", f"From the host to each GPU. {others}",
             to, down=True, both=False, every=True),
        spec("host_to_all_bidirectional_memcpy", f"{opposed} on all GPUs; host to GPU is shown.",
             duplex, down=True, both=True, every=True),
    ]  # fmt: skip


def _pair_specs(engine: Engine) -> list[_Spec]:
    specs = []
    for read in (True, False):
        verb = "read" if read else "write"
        who = "Each GPU reads from" if read else "Each GPU writes to"
        arrow = "->" if read else "<-"

        def alone(p: Patterns, read: bool = read, arrow: str = arrow) -> tuple[Matrix, ...]:
            return (p.pairs_matrix(f"GPU(row) {arrow} GPU(column)", read=read),)

        def both(p: Patterns, read: bool = read) -> tuple[Matrix, ...]:
            return p.both_directions("GPU(row) <-> GPU(column)", read=read)

        specs += [
            _Spec(f"device_to_device_memcpy_{verb}_{engine}", f"{who} each other, pair by pair.",
                  engine, alone, takes_pairs=True),
            _Spec(f"device_to_device_bidirectional_memcpy_{verb}_{engine}",
                  f"{who} its partner while the partner does the same, pair by pair.",
                  engine, both, takes_pairs=True),
        ]  # fmt: skip
    return [specs[0], specs[2], specs[1], specs[3]]


def _all_specs(engine: Engine) -> list[_Spec]:
    def spec(name: str, words: str, arrow: str, *, towards_one: bool, one_works: bool) -> _Spec:
        def build(p: Patterns) -> tuple[Matrix, ...]:
            caption = f"GPU(row) {arrow} GPU(column)"
            return (p.one_and_all(caption, towards_one=towards_one, one_works=one_works),)

        return _Spec(f"{name}_{engine}", f"{words}; the sum.", engine, build, takes_pairs=True)

    return [
        spec("all_to_one_write", "All other GPUs write to one", "<-",
             towards_one=True, one_works=False),
        spec("all_to_one_read", "All other GPUs read from one", "->",
             towards_one=False, one_works=False),
        spec("one_to_all_write", "One GPU writes to all others", "->",
             towards_one=False, one_works=True),
        spec("one_to_all_read", "One GPU reads from all others", "<-",
             towards_one=True, one_works=True),
    ]  # fmt: skip


def _specs() -> list[_Spec]:
    """All cases in nvbandwidth's order."""
    specs = []
    for engine in (Engine.CE, Engine.SM):
        host = _host_specs(engine)
        specs += [*host[:4], *_pair_specs(engine), *host[4:], *_all_specs(engine)]
    return [
        *specs,
        _Spec("host_device_latency_sm", "One dependent load of a GPU from host memory, 2 MiB ring.",
              Engine.SM, lambda p: (p.host_latency(),)),
        _Spec("device_to_device_latency_sm",
              "One dependent load of a GPU from another GPU's memory, 2 MiB ring.",
              Engine.SM, lambda p: (p.peer_latency(),), takes_pairs=True),
        _Spec("device_local_copy", "Within each GPU's own memory, by its copy engine.",
              Engine.CE, lambda p: (p.local(),)),
    ]  # fmt: skip


def _multinode_specs() -> list[_Spec]:
    """nvbandwidth's cases of several processes, each with a GPU."""
    specs = []
    for engine in (Engine.CE, Engine.SM):
        for spec in _pair_specs(engine):
            words = f"{spec.description[:-1]}; a process for each GPU."
            specs.append(replace(spec, name=f"{_MULTINODE}{spec.name}", description=words))
    pair = f"{_MULTINODE}device_to_device"

    def one(name: str, words: str, arrow: str, *, towards_one: bool, one_works: bool) -> _Spec:
        def build(p: Patterns) -> tuple[Matrix, ...]:
            caption = f"All Gpus {arrow} GPU(column) total"
            return (p.one_and_all(caption, towards_one=towards_one, one_works=one_works),)

        return _Spec(f"{pair}_{name}_sm", words, Engine.SM, build, takes_pairs=True)

    def broadcast(name: str, words: str) -> _Spec:
        return _Spec(f"{pair}_broadcast_{name}_sm", words, Engine.SM, lambda p: (),
                     takes_pairs=True, waived=_NO_MULTICAST)  # fmt: skip

    specs += [
        one("all_to_one_write", "All other GPUs' processes write to one; the sum.", "->",
            towards_one=True, one_works=False),
        one("all_from_one_read", "All other GPUs' processes read from one; the sum.", "<-",
            towards_one=False, one_works=False),
        broadcast("one_to_all", "One GPU writes to all by multicast."),
        broadcast("all_to_all", "Every GPU writes to all by multicast."),
        _Spec(f"{_MULTINODE}bisect_write_ce",
              "Each process' GPU writes to the one that is half of them away, all at once.",
              Engine.CE,
              lambda p: (p.bisection("Bisect benchmarking, simultaneous write CE BW"),),
              takes_pairs=True),
    ]  # fmt: skip
    return [replace(spec, build=_in_processes(spec.build)) for spec in specs]


def is_of_processes(name: str) -> bool:
    """Whether a case takes a process for each GPU, of one node or several."""
    return name.startswith(_MULTINODE)


def _newer_specs() -> list[_Spec]:
    """What nvbandwidth 0.10 added: bulk copies (TMA), and kernels in memory of their own GPU."""
    pairs = [
        replace(
            spec,
            name=f"{spec.name.removesuffix('_sm')}_tma",
            description=f"{spec.description[:-1]}, in bulk copies (TMA).",
            build=_by_bulk(spec.build),
            takes_bulk=True,
        )
        for spec in _pair_specs(Engine.SM)
    ]
    local = "device_local"
    return [
        *pairs,
        _Spec(f"{local}_copy_sm", "Within each GPU's own memory, by a kernel's loads and stores.",
              Engine.SM, lambda p: (p.local(chunk_bytes=LOADS),)),
        _Spec(f"{local}_read_sm", "A kernel reads its GPU's own memory and sums it up.",
              Engine.SM, lambda p: (p.local(Operation.READ),)),
        _Spec(f"{local}_write_sm", "A kernel fills its GPU's own memory.",
              Engine.SM, lambda p: (p.local(Operation.WRITE),)),
        _Spec("device_to_device_latency_tma",
              "One of dependent bulk copies of 16 B from another GPU's memory, 2 MiB ring.",
              Engine.SM, _by_bulk(lambda p: (p.peer_latency(Operation.CHASE_TMA),)),
              takes_pairs=True, takes_bulk=True),
        _Spec(f"{local}_copy_tma", "Within each GPU's own memory, in bulk copies (TMA).",
              Engine.SM, _by_bulk(lambda p: (p.local(chunk_bytes=_LOCAL_CHUNK),)),
              takes_bulk=True),
    ]  # fmt: skip


def _by_bulk(build: Build) -> Build:
    return lambda patterns: build(replace(patterns, mover="TMA"))


def _in_processes(build: Build) -> Build:
    return lambda patterns: build(replace(patterns, processes=True))


def _our_specs() -> list[_Spec]:
    """Cases that nvbandwidth has not.

    Kernels in both directions take their bytes from memory, not from the host's caches.
    """
    streaming = _host_specs(Engine.SM, streaming=True)
    return [
        *(spec for spec in streaming if "bidirectional" in spec.name),
        _Spec("bisect_write_ce",
              "Each GPU writes to the one that is half of them away, all at once.",
              Engine.CE,
              lambda p: (p.bisection("memcpy CE bisection GPU(column) bandwidth (GB/s)"),),
              takes_pairs=True),
    ]  # fmt: skip


def _further_specs() -> list[_Spec]:
    return _multinode_specs() + _our_specs() + _newer_specs()


def case_list(*, further: bool = False) -> tuple[tuple[str, str], ...]:
    """Return name and description of nvbandwidth's cases of one process, in order.

    Parameters
    ----------
    further
        In their place its cases of several processes, ours, and those that 0.10 added.
    """
    specs = _further_specs() if further else _specs()
    return tuple((spec.name, spec.description) for spec in specs)


def choose(names: Sequence[str] = (), prefixes: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the names of the cases asked for, by name, number or prefix.

    Without any, all of nvbandwidth with one process.

    Raises
    ------
    InputError
        If a name, number or prefix fits no case.
    """
    usual = [name for name, _ in case_list()]
    known = usual + [name for name, _ in case_list(further=True)]
    chosen: list[str] = []
    for name in names:
        if re.fullmatch("[0-9]{1,3}", name) and int(name) < len(known):
            chosen.append(known[int(name)])
        elif name in known:
            chosen.append(name)
        else:
            near = difflib.get_close_matches(name, known, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else "'lanescope bench --list' shows them"
            )
            raise InputError(f"there is no case {shown(name)}; {hint}")
    for prefix in prefixes:
        fitting = [name for name in known if prefix and name.startswith(prefix)]
        if not fitting:
            raise InputError(
                f"no case begins with {shown(prefix)}; 'lanescope bench --list' shows them"
            )
        chosen += fitting
    return tuple(dict.fromkeys(chosen)) if names or prefixes else tuple(usual)


def build_cases(machine: Machine, names: Sequence[str], options: CaseOptions) -> CaseSet:
    """Return cases for a machine with their experiments, each set of copies once.

    Raises
    ------
    InputError
        If the machine has no GPU or not the NUMA node asked for.
    """
    if options.node is not None and options.node not in [n.index for n in machine.nodes]:
        nodes = ", ".join(str(n.index) for n in machine.nodes)
        raise missing_part(
            machine, f"there is no NUMA node {options.node}; this machine has {nodes}"
        )
    specs = {spec.name: spec for spec in _specs() + _further_specs()}
    pair = None if options.pair is None else _named_pair(machine, options.pair)
    experiments: dict[str, Experiment] = {}
    cases = tuple(_case(machine, specs[name], options, pair, experiments) for name in names)
    return CaseSet(cases, tuple(experiments.values()))


def _case(
    machine: Machine,
    spec: _Spec,
    options: CaseOptions,
    pair: frozenset[str] | None,
    experiments: dict[str, Experiment],
) -> Case:
    if reason := _why_not(machine, spec, options):
        return Case(spec.name, spec.description, (), reason)
    patterns = from_attributes(
        Patterns, options, machine=machine, engine=spec.engine, experiments=experiments, pair=pair
    )
    return Case(spec.name, spec.description, spec.build(patterns))


def _named_pair(machine: Machine, named: tuple[str, str]) -> frozenset[str]:
    """Return the names of two GPUs; raise `InputError` where they are not two of the machine."""
    known = {one: gpu.id for gpu in machine.gpus for one in (gpu.id, gpu.uuid) if one is not None}
    for one in named:
        if one not in known:
            has = ", ".join(f"{g.id} ({g.uuid})" if g.uuid else g.id for g in machine.gpus)
            raise missing_part(
                machine, f"there is no GPU {shown(one)}; this machine has {has or 'none'}"
            )
    found = frozenset(known[one] for one in named)
    if len(found) < 2:
        raise InputError(f"{shown(named[0])} and {shown(named[1])} are one GPU; name two")
    return found


def _why_not(machine: Machine, spec: _Spec, options: CaseOptions) -> str | None:
    if not machine.gpus:
        return "there is no GPU"
    if not usable(machine.gpus):
        return why_unusable(machine)
    if spec.waived is not None:
        return spec.waived
    if spec.takes_bulk and not all(map(has_bulk_copies, usable(machine.gpus))):
        return "it takes bulk copies (TMA), which came with compute capability 9.0"
    by_kernel = spec.takes_host and spec.engine is Engine.SM
    if by_kernel and machine.confidential:
        return "with Confidential Computing no kernel reaches host memory"
    if by_kernel and options.memory in UNPINNED:
        return "a kernel cannot reach pageable memory"
    return why_no_pairs(machine) if spec.takes_pairs else None
