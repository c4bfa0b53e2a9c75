"""The micro-benchmarks of TARUC, each with options instead of a parameter file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from lanescope.calls import checked
from lanescope.copies import Caches, Memory, Pattern
from lanescope.engine.sampling import Plan
from lanescope.errors import InputError, argument
from lanescope.machine import Machine
from lanescope.studies import MOST_PARTS, size_option
from lanescope.studies.study import Listing, Option, Study, Work
from lanescope.studies.taruc import Benchmark, Only, Parameters
from lanescope.studies.taruc.parameters import TITLES
from lanescope.studies.taruc.study import PLAN, Suite, parameter_file
from lanescope.units.sizes import Size, size_of, size_text
from lanescope.units.values import OneOf, Whole

#: Not in an annotation: a lambda there does not know this module's names.
_CACHES = OneOf("--caches", lambda: Caches)
_Memories = Annotated[
    Sequence[Memory] | None,
    Option(
        OneOf("--memory", lambda: Memory),
        "Kind of memory, such as pageable, pinned or huge; may be repeated; default: those that "
        "the machine has.",
        metavar="KIND",
        repeated=True,
    ),
]
_Patterns = Annotated[
    Sequence[Pattern] | None,
    Option(
        OneOf("--pattern", lambda: Pattern),
        "repeated, ascending, descending or random blocks; may be repeated; default: all, up to "
        "the size of the caches.",
        repeated=True,
    ),
]
_Nodes = Annotated[
    Sequence[int] | None,
    Option(
        Whole("--node", 0, MOST_PARTS, "more are in no machine"),
        "NUMA node of the memory; may be repeated; default: all.",
        repeated=True,
    ),
]
_Gpus = Annotated[
    Sequence[int] | None,
    Option(
        Whole("--gpu", 0, MOST_PARTS, "more are in no machine"),
        "GPU; may be repeated; default: all.",
        repeated=True,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBenchmark(Study):
    """One of them, with options instead of a parameter file."""

    sampling: ClassVar[Plan] = PLAN
    of_what: ClassVar[str] = "one point"
    listable: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    def work(self, machine: Machine) -> Work:
        """Return the points of the micro-benchmark."""
        return self._suite().work(machine)

    def listing(self, machine: Machine, plan: Plan) -> Listing:
        """Return a line for each point, with what it may take."""
        return self._suite().listing(machine, plan)

    def _suite(self) -> Suite:
        return Suite(parameter_file(self._parameters()), (Benchmark(self.verb),), self._only())

    def _parameters(self) -> Parameters:
        raise NotImplementedError

    def _only(self) -> Only:
        names = {"memories", "patterns", "caches", "nodes", "gpus"}
        mine = names & {field.name for field in dataclasses.fields(self)}
        given = {name: getattr(self, name) for name in mine}
        return Only(**{n: tuple(dict.fromkeys(v)) if v else None for n, v in given.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized(MicroBenchmark):
    """One that takes a range of sizes."""

    smallest: Annotated[Size | None, size_option("Smallest size.", None, "--min")] = None
    largest: Annotated[Size | None, size_option("Largest size.", None, "--max")] = None
    steps: Annotated[
        int,
        Option(
            Whole("--steps-per-decade", 1, 100, "more sizes are hardly different"),
            "Sizes for each power of ten.",
            "1",
        ),
    ] = 1

    def _parameters(self, **more: Any) -> Parameters:
        """Return the parameters of the suite with the range of this micro-benchmark."""
        default = Parameters()
        section = getattr(default, self.verb)
        first = size_of(self.smallest) if self.smallest else section.min_bytes
        last = size_of(self.largest) if self.largest else section.max_bytes
        if first > last:
            raise InputError(
                f"sizes go from {argument.smallest} {size_text(first)} to {argument.largest} "
                f"{size_text(last)}, which is less; give both, the smaller one as "
                f"{argument.smallest}"
            )
        ranged = replace(section, min_bytes=first, max_bytes=last, **more)
        return replace(default, tag=self.verb, steps_per_decade=self.steps, **{self.verb: ranged})


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Overhead(Sized):
    """Measure what allocating, first touching and releasing memory costs.

    By kind of memory, the memory's NUMA node or GPU, the node of the thread, and size: 100 B
    to 1.5 GB unless told otherwise.
    """

    verb: ClassVar[str] = Benchmark.OVERHEAD
    title: ClassVar[str] = TITLES[Benchmark.OVERHEAD]

    memories: _Memories = None
    nodes: _Nodes = None
    gpus: _Gpus = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Host(Sized):
    """Measure copies of blocks by one thread between NUMA nodes.

    By source, destination and the thread's node, kind of memory, access pattern and state of
    the caches, and size: 10 B to 1.5 GB unless told otherwise.
    """

    verb: ClassVar[str] = Benchmark.HOST
    title: ClassVar[str] = TITLES[Benchmark.HOST]

    memories: _Memories = None
    patterns: _Patterns = None
    caches: Annotated[
        Sequence[Caches] | None,
        Option(
            _CACHES,
            "warm or flushed; default both where it matters.",
            metavar="STATE",
            repeated=True,
        ),
    ] = None
    nodes: _Nodes = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class HostDev(Sized):
    """Measure copies of blocks between host memory and GPUs, each way.

    By GPU, the memory's and the thread's node, kind of memory, access pattern and size, by a
    thread that waits (sync) and by events on the GPU (async).
    """

    verb: ClassVar[str] = Benchmark.HOSTDEV
    title: ClassVar[str] = TITLES[Benchmark.HOSTDEV]

    memories: _Memories = None
    patterns: _Patterns = None
    nodes: _Nodes = None
    gpus: _Gpus = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Peer(Sized):
    """Measure copies from GPU to GPU: peer, by unified addresses, staged through the host.

    Both directions of each pair, inside each GPU, and by size.
    """

    verb: ClassVar[str] = Benchmark.PEER
    title: ClassVar[str] = TITLES[Benchmark.PEER]

    gpus: _Gpus = None


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Nurma(Sized):
    """Measure single loads of memory: strided and in random order, dependent and independent.

    By the memory's and the thread's NUMA node, kind of memory (huge pages apart), stride, and
    number of loads: --min and --max are 8 bytes for each, 80 B to 80 MB unless told otherwise.
    """

    verb: ClassVar[str] = Benchmark.NURMA
    title: ClassVar[str] = TITLES[Benchmark.NURMA]

    smallest: Annotated[Size | None, size_option("Smallest size.", None, "--min", least=8)] = None
    largest: Annotated[Size | None, size_option("Largest size.", None, "--max", least=8)] = None
    gap: Annotated[
        Size | None,
        size_option(
            "From load to load, beside 8B, 64B, 4KiB and 64KiB; default 5256B.",
            None,
            "--gap",
            least=8,
            multiple=8,
        ),
    ] = None
    block: Annotated[
        Size | None,
        size_option(
            "Memory that loads stay in; default: twice the last-level cache.",
            None,
            "--block",
            least=8,
        ),
    ] = None
    memories: _Memories = None
    nodes: _Nodes = None

    def _parameters(self, **more: Any) -> Parameters:
        gap = size_of(self.gap) if self.gap else Parameters().nurma.gap_bytes
        block = size_of(self.block) if self.block else None
        return Sized._parameters(self, gap_bytes=gap, block_bytes=block)


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class Contention(MicroBenchmark):
    """Measure what many cost each other: at memory channels, between sockets, over PCIe.

    Threads from 1 to twice the cores on one node and all; threads on another node's memory,
    each way and both; GPUs alone, in pairs and all, from near and far memory, 1 to 4 streams.
    """

    verb: ClassVar[str] = Benchmark.CONTENTION
    title: ClassVar[str] = TITLES[Benchmark.CONTENTION]

    array: Annotated[
        Size | None,
        size_option(
            "Array of each thread; default: all together four times the caches.",
            None,
            "--array",
            least=8,
        ),
    ] = None
    copy: Annotated[
        Size | None, size_option("Copy of each stream; default 64MB.", None, "--copy")
    ] = None
    nodes: _Nodes = None
    gpus: _Gpus = None

    def _parameters(self) -> Parameters:
        default = Parameters()
        array = size_of(self.array) if self.array else None
        section = replace(
            default.contention,
            memory_bytes=array,
            socket_bytes=array,
            pcie_bytes=size_of(self.copy) if self.copy else default.contention.pcie_bytes,
        )
        return replace(default, tag=self.verb, contention=section)
