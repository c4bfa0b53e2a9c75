"""``check``: every path of a machine, and whether it is healthy."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, ClassVar

from lanescope.calls import checked, shown
from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Timing
from lanescope.copies.requirements import require_fits
from lanescope.copies.terms import Memory, Place
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, MissingPartError
from lanescope.kinds import StrPath
from lanescope.machine import Gpu, LinkKind, Machine, NumaNode
from lanescope.studies import MOST_PARTS, size_option
from lanescope.studies.running import machine_differences
from lanescope.studies.study import Argument, Listing, Option, Study, Work
from lanescope.units.sizes import Size, bytes_a_second, size_of
from lanescope.units.values import Value, Whole

EXPECT = Option(
    Value("--expect"),
    "Compare this machine with a machine file, as saved by 'topo --save': exit with 4 where a part "
    "is missing or different.",
    metavar="FILE.toml",
)
EXPECT_GPUS = Option(
    Whole("--expect-gpus", 0, MOST_PARTS, "more are in no machine"),
    "Exit with 4 unless so many GPUs can be used.",
)
MIB = 1 << 20

#: Large enough that start-up is below 0.1 % even on NVLink, and what nvbandwidth uses.
CHECK_BYTES = 512 * MIB

#: So many a machine may have.
_MOST_GPUS = 16

#: STREAM's rule: an array is at least four times the last-level caches.
_CACHE_MULTIPLE = 4
_SMALLEST_ARRAY = 64 * MIB
#: Of a described machine an array takes so long at least: shorter copies are not predicted.
_PREDICTED_SECONDS = 2e-3
#: Three arrays together stay within half of a node's memory.
_MEMORY_SHARE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Check(Study):
    """Measure every path of this machine and say whether it is healthy.

    Prints a table and writes a page. Exit code: 0 all paths are well, 1 a path is
    slower than it should be, 2 bad input, 3 not everything measured and --strict (5 where
    only other processes stood in the way), 4 the machine is not as --expect says.

    Attributes
    ----------
    cases
        Patterns of experiment names such as ``h2d/*``; all for none.
    size_bytes
        Size of one copy to, from or between GPUs.
    expected
        What the machine should be like: a `Machine`, a machine file or a shipped name.
        Differences are in the run's manifest, as `missing`.
    expected_gpus
        How many GPUs there should be that can be used.
    """

    verb: ClassVar[str] = "check"
    title: ClassVar[str] = "Check"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.5)
    listable: ClassVar[bool] = True

    cases: Annotated[
        Sequence[str], Argument("[CASE]...", "Only these cases, such as 'h2d/*'.", tuple)
    ] = ()
    size_bytes: Annotated[
        Size, size_option("Bytes of one copy to, from or between GPUs.", "512MiB")
    ] = CHECK_BYTES
    expected: Annotated[Machine | StrPath | None, EXPECT] = None
    expected_gpus: Annotated[int | None, EXPECT_GPUS] = None

    def work(self, machine: Machine) -> Work:
        """Return the chosen cases, and how the machine differs from what is expected."""
        size = size_of(self.size_bytes)
        require_fits(machine, size)
        experiments = _select_cases(machine, size, self.cases)
        if not experiments:
            raise InputError(
                f"machine {machine.name!r} has no path to measure; give it nodes or GPUs"
            )
        complete = machine.gpus or self.cases or machine.described
        return Work(
            experiments,
            missing=machine_differences(machine, self.expected, self.expected_gpus),
            unmeasured=() if complete else machine.notes[:1],
            notes=(
                ("The size has no effect: it is that of copies of GPUs, and there are none.",)
                if size != CHECK_BYTES and not machine.gpus
                else ()
            ),
        )

    def listing(self, machine: Machine, plan: Plan) -> Listing:
        """Return a line for each case."""
        size = size_of(self.size_bytes)
        require_fits(machine, size)
        cases = _select_cases(machine, size, self.cases)
        return Listing([f"{one.name:32} {one.title}" for one in cases])


def check_experiments(machine: Machine, gpu_bytes: int = CHECK_BYTES) -> tuple[Experiment, ...]:
    """Return every path of a machine: host memory, host and GPUs, GPU pairs.

    Parameters
    ----------
    gpu_bytes
        Size of one copy to, from or between GPUs.
    """
    experiments: list[Experiment] = []
    with_memory = [n for n in machine.nodes if n.memory_bytes != 0]
    for node in (n for n in with_memory if n.cores):
        experiments += _host_memory(machine, node, node, node)
    for source, destination in itertools.permutations(with_memory, 2):
        # The cores of the source push; memory without cores is read by the destination's.
        reader = source if source.cores else destination
        if reader.cores:
            experiments += _host_memory(machine, reader, source, destination)
    for gpu in machine.gpus:
        experiments += _host_and_gpu(machine, gpu, gpu_bytes)
        experiments += _far_and_gpu(machine, gpu, gpu_bytes)
    for gpu, peer in itertools.combinations(machine.gpus, 2):
        experiments += _gpu_pair(gpu, peer, gpu_bytes)
    return tuple(experiments)


def _select_cases(
    machine: Machine, gpu_bytes: int, patterns: Sequence[str]
) -> tuple[Experiment, ...]:
    """Return those of `check_experiments` whose names match one of the patterns; all for none.

    Raises
    ------
    MissingPartError
        If a pattern is right, but for GPUs that the machine does not have.
    InputError
        If a pattern matches nothing.
    """
    experiments = check_experiments(machine, gpu_bytes)
    names = [e.name for e in experiments]
    unmatched = [p for p in patterns if not fnmatch.filter(names, p)]
    if unmatched and not machine.described:
        more = tuple(Gpu(index, "GPU") for index in range(_MOST_GPUS))
        possible = [e.name for e in check_experiments(replace(machine, gpus=more), gpu_bytes)]
        for pattern in unmatched:
            if fnmatch.filter(possible, pattern):
                there = ", ".join(gpu.id for gpu in machine.gpus)
                why = f"here are only {there}" if there else machine.notes[0].rstrip(".")
                raise MissingPartError(f"{pattern!r} takes a GPU that is not there: {why}")
    return select(experiments, patterns)


def select(experiments: Sequence[Experiment], patterns: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments whose names match one of the patterns; all for no pattern.

    Raises
    ------
    InputError
        If a pattern matches nothing.
    """
    names = [e.name for e in experiments]
    chosen: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(names, pattern)
        if not found:
            near = difflib.get_close_matches(pattern, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "'lanescope check --list' shows them"
            raise InputError(f"no case of this machine is named {shown(pattern)}; {hint}")
        chosen.update(found)
    return tuple(e for e in experiments if not patterns or e.name in chosen)


def _host_memory(
    machine: Machine, reader: NumaNode, source: NumaNode, destination: NumaNode
) -> list[Experiment]:
    """Copy and triad by the cores of `reader`, from one node's memory to another's."""
    cpus = tuple(core[0] for core in reader.cores)
    teams = [("1-core", "one core", cpus[:1])]
    if len(cpus) > 1:
        teams.append(("all-cores", f"all {len(cpus)} cores", cpus))
    remote = source is not destination
    path = f"{source.id}-{destination.id}" if remote else source.id
    where = f"{source.id} → {destination.id}" if remote else f"memory {source.id}"
    least = _predicted_bytes(machine) if machine.described else _SMALLEST_ARRAY
    size = min(_array_bytes(reader, node, least) for node in (source, destination))
    places = (Place(source.id, Memory.PAGEABLE), Place(destination.id, Memory.PAGEABLE))
    return [
        Experiment(
            name=f"host-{operation}/{path}/{team}",
            title=f"{where}: {operation}, {words}",
            copies=(Copy(*places, size, Engine.CPU, operation, used),),
            timing=Timing.HOST,
        )
        for operation in (Operation.COPY, Operation.TRIAD)
        for team, words, used in teams
    ]


def _predicted_bytes(machine: Machine) -> int:
    """Size of an array that is long enough to be predicted at the fastest rate in the host."""
    rates = [node.memory_gbs or 0.0 for node in machine.nodes]
    rates += [
        max(link.payload_gbs)
        for link in machine.links
        if link.kind is LinkKind.SOCKET and link.payload_gbs is not None
    ]
    return max(_SMALLEST_ARRAY, ceil(bytes_a_second(max(rates)) * _PREDICTED_SECONDS))


def _array_bytes(reader: NumaNode, node: NumaNode, least: int) -> int:
    """Size of an array in a node's memory that outgrows the caches of the reading cores."""
    wanted = max(least, _CACHE_MULTIPLE * (reader.cache_bytes or 0))
    if node.memory_bytes is not None:
        wanted = min(wanted, node.memory_bytes // _MEMORY_SHARE)
    return max(wanted // MIB, 1) * MIB


def _host_and_gpu(machine: Machine, gpu: Gpu, size: int) -> list[Experiment]:
    down = host_copy(machine, gpu, Memory.PINNED, True, size)
    up = host_copy(machine, gpu, Memory.PINNED, False, size)
    host = machine.nearest_node(gpu).id
    return [
        Experiment(f"h2d/{gpu.id}", f"{host} → {gpu.id}", (down,)),
        Experiment(f"d2h/{gpu.id}", f"{gpu.id} → {host}", (up,)),
        Experiment(f"h2d+d2h/{gpu.id}", f"{host} ⇄ {gpu.id}, both at once", (down, up)),
    ]


def _far_and_gpu(machine: Machine, gpu: Gpu, size: int) -> list[Experiment]:
    """Each way between a GPU and the memory of the other nodes: is the near one near?"""
    near = machine.nearest_node(gpu)
    experiments = []
    for node in machine.nodes:
        if node.index == near.index or node.memory_bytes == 0:
            continue
        for direction, down in (("h2d", True), ("d2h", False)):
            copy = host_copy(machine, gpu, Memory.PINNED, down, size, node)
            name = f"{direction}/{gpu.id}/{node.id}"
            experiments.append(Experiment(name, f"{copy.path}, other node", (copy,)))
    return experiments


def _gpu_pair(gpu: Gpu, other: Gpu, size: int) -> list[Experiment]:
    there, back = (
        Copy(Place(a.id, Memory.DEVICE), Place(b.id, Memory.DEVICE), size, Engine.CE)
        for a, b in ((gpu, other), (other, gpu))
    )
    pair = f"{gpu.id}-{other.id}"
    return [
        Experiment(f"d2d/{pair}", there.path, (there,)),
        Experiment(f"d2d/{other.id}-{gpu.id}", back.path, (back,)),
        Experiment(f"d2d-both/{pair}", f"{gpu.id} ⇄ {other.id}, both at once", (there, back)),
    ]


def host_copy(
    machine: Machine,
    gpu: Gpu,
    memory: Memory,
    down: bool,
    size: int,
    node: NumaNode | None = None,
) -> Copy:
    """Return a copy between a GPU and a node's memory, the nearest one's as a rule."""
    node = node or machine.nearest_node(gpu)
    host, device = Place(node.id, memory), Place(gpu.id, Memory.DEVICE)
    source, destination = (host, device) if down else (device, host)
    cpus = tuple(cpu for core in node.cores for cpu in core)
    return Copy(source, destination, size, Engine.CE, cpus=cpus)
