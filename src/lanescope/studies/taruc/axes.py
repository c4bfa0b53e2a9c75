"""The axes of a suite, and what its points take: memory that must fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lanescope.calls import checked
from lanescope.copies.experiment import Experiment, taken_bytes
from lanescope.copies.terms import Caches, Memory, Pattern
from lanescope.machine import Gpu, Machine, NumaNode
from lanescope.studies.taruc.parameters import NurmaParameters, Parameters, SizeParameters
from lanescope.units.sizes import binary_text
from lanescope.units.words import enumeration

_MIB = 1 << 20
#: Host memory that a GPU's driver makes.
_BY_DRIVER = (Memory.PINNED, Memory.WRITE_COMBINED, Memory.MAPPED, Memory.MANAGED)
#: Taken where a machine does not tell its last-level cache.
_USUAL_CACHE = 32 * _MIB
#: Blocks of a walk: before a repetition comes back to the first, a second has gone by.
_MOST_BLOCKS = 1 << 20
_FEWEST_BLOCKS = 2


@dataclass(frozen=True, slots=True)
@checked
class Only:
    """What to keep of the axes, where somebody asked for less; None keeps what there is.

    Attributes
    ----------
    memories
        Kinds of memory; also such as are not measured unless asked for.
    patterns, caches
        Of copies by threads; patterns that are named are measured at all sizes.
    nodes, gpus
        Numbers. Nodes are those of the memory; threads stay on every node.
    """

    memories: tuple[Memory, ...] | None = None
    patterns: tuple[Pattern, ...] | None = None
    caches: tuple[Caches, ...] | None = None
    nodes: tuple[int, ...] | None = None
    gpus: tuple[int, ...] | None = None


#: Nothing is left out.
EVERYTHING = Only()


@dataclass(frozen=True, slots=True)
class Planned:
    """Experiments, and sentences on what is not among them."""

    experiments: tuple[Experiment, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Axes:
    """What a suite goes through on a machine.

    Attributes
    ----------
    free_bytes
        Memory that may be taken, by part of the machine, of which parts that are not named hold
        everything; None is all that the machine has.
    """

    machine: Machine
    parameters: Parameters
    only: Only = EVERYTHING
    free_bytes: Mapping[str, int] | None = None

    def sizes(self, section: SizeParameters | NurmaParameters) -> tuple[int, ...]:
        """Return the sizes of a micro-benchmark, ascending, each once.

        A range has so many steps a decade from its smallest to its largest size, which
        is there whether or not a step meets it.
        """
        parameters = self.parameters
        sizes = {parameters.burst_bytes} if parameters.burst else set()
        if parameters.range:
            sizes |= set(decade_steps(section.min_bytes, section.max_bytes, parameters))
        return tuple(sorted(sizes))

    def memory_nodes(self) -> tuple[NumaNode, ...]:
        """Return the nodes that have memory; one whose size is not known counts as such."""
        with_memory = (n for n in self.machine.nodes if n.memory_bytes != 0)
        wanted = self.only.nodes
        return tuple(n for n in with_memory if wanted is None or n.index in wanted)

    def threads(self) -> tuple[tuple[NumaNode, int], ...]:
        """Return where a single thread runs: a node, and the first CPU of its first core."""
        nodes = core_nodes(self.machine)
        return tuple((n, n.cores[0][0]) for n in (nodes if self.parameters.sockets else nodes[:1]))

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs to measure, also those that cannot be used now: the run says why."""
        every = self.machine.gpus
        if self.only.gpus is not None:
            return tuple(g for g in every if g.index in self.only.gpus)
        return every if self.parameters.all_gpus else every[:1]

    def memories(
        self, usual: Sequence[Memory], plain: Memory = Memory.PAGEABLE
    ) -> tuple[Memory, ...]:
        """Return the kinds of memory to measure: those asked for, all usual ones, or the plain."""
        if self.only.memories is not None:
            return tuple(dict.fromkeys(self.only.memories))
        return tuple(usual) if self.parameters.all_memories else (plain,)

    def host_memories(
        self, wanted: Iterable[Memory], what: str
    ) -> tuple[tuple[Memory, ...], tuple[str, ...]]:
        """Return the kinds of host memory that the machine can have, and what to tell of others."""
        kinds = tuple(wanted)
        missing = [str(m) for m in kinds if m in _BY_DRIVER and not self.machine.gpus]
        if not missing:
            return kinds, ()
        why = "memory, which a GPU's driver makes; there is no GPU."
        left = tuple(m for m in kinds if m not in _BY_DRIVER)
        return left, (f"{what}: no {enumeration(missing)} {why}",)

    def patterns(self, block_bytes: int, wanted_bytes: int) -> tuple[Pattern, ...]:
        """Return the patterns of a size: one alone where blocks outgrow what is walked over.

        Such a block leaves nothing of itself in a cache, wherever the next one lies.
        """
        if self.only.patterns is not None:
            return tuple(dict.fromkeys(self.only.patterns))
        whole = self.parameters.patterns and block_bytes * _FEWEST_BLOCKS <= wanted_bytes
        return tuple(Pattern) if whole else (Pattern.REPEATED,)

    def fitting(
        self, experiments: Iterable[Experiment], what: str, notes: tuple[str, ...] = ()
    ) -> Planned:
        """Return the experiments that memory holds, and what to tell about the others.

        Parameters
        ----------
        what
            Beginning of the names, for the sentence.
        notes
            What is told before.
        """
        free_bytes = self.free_bytes or memory_of(self.machine)
        fit, short = [], []
        for experiment in experiments:
            taken = taken_bytes(experiment)
            lacking = [p for p, n in taken.items() if n > free_bytes.get(p, n)]
            if lacking:
                short.append((experiment, lacking[0], taken[lacking[0]]))
            else:
                fit.append(experiment)
        return Planned(tuple(fit), notes + _notes(short, free_bytes, what))


def decade_steps(smallest: int, largest: int, parameters: Parameters) -> tuple[int, ...]:
    """Return smallest, ... largest; neighbours differ by the same factor, but for rounding.

    A step that comes closer to the largest than half a step makes way for it.
    """
    factor = 10 ** (1 / parameters.steps_per_decade)
    sizes, step = {smallest, largest}, 1
    while (size := smallest * factor**step) * factor**0.5 < largest:
        sizes.add(round(size))
        step += 1
    return tuple(sorted(sizes))


def core_nodes(machine: Machine) -> tuple[NumaNode, ...]:
    """Return the nodes that have cores which may be used."""
    return tuple(n for n in machine.nodes if n.cores)


def cache_bytes(node: NumaNode) -> int:
    """Return the last-level cache of a node's cores, or a usual one where it is not known."""
    return node.cache_bytes or _USUAL_CACHE


def walk_bytes(block_bytes: int, wanted_bytes: int) -> int:
    """Return the memory that blocks are taken from one after the other: whole blocks.

    As much as is wanted, but two blocks at least, and a million at most: nobody
    takes more of them in the time of a point.
    """
    blocks = min(max(wanted_bytes // block_bytes, _FEWEST_BLOCKS), _MOST_BLOCKS)
    return blocks * block_bytes


def memory_of(machine: Machine) -> dict[str, int]:
    """Return the memory of each part of a machine, as far as it is known."""
    sizes = [(node.id, node.memory_bytes) for node in machine.nodes]
    sizes += [(gpu.id, gpu.memory_bytes) for gpu in machine.gpus]
    return {part: size for part, size in sizes if size is not None}


def _notes(
    short: Sequence[tuple[Experiment, str, int]], free_bytes: Mapping[str, int], what: str
) -> tuple[str, ...]:
    notes = []
    for part in dict.fromkeys(part for _, part, _ in short):
        needs = [needed for _, lacking, needed in short if lacking == part]
        points = "1 point is" if len(needs) == 1 else f"{len(needs)} points are"
        notes.append(
            f"{what}: {points} left out, which would take {binary_text(min(needs))} of {part} "
            f"or more; it has {free_bytes[part] >> 20} MiB free."
        )
    return tuple(notes)
