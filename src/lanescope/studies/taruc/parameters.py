"""The parameters of a suite of TARUC, its micro-benchmarks, and TARUC's own names of both."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lanescope.calls import checked
from lanescope.codec.fields import FieldError
from lanescope.units.sizes import Bytes


class Benchmark(StrEnum):
    """The micro-benchmarks; each is also a verb, and the first part of its points' names."""

    OVERHEAD = "overhead"
    HOST = "host"
    HOSTDEV = "hostdev"
    PEER = "peer"
    NURMA = "nurma"
    CONTENTION = "contention"

    @property
    def needs_gpu(self) -> bool:
        """Whether a machine without a GPU has nothing of it."""
        return self in (Benchmark.HOSTDEV, Benchmark.PEER)


#: What people call them.
TITLES = {
    Benchmark.OVERHEAD: "Memory overhead",
    Benchmark.HOST: "Host to host copies",
    Benchmark.HOSTDEV: "Host and GPU copies",
    Benchmark.PEER: "Copies between GPUs",
    Benchmark.NURMA: "Random and strided access",
    Benchmark.CONTENTION: "Contention",
}
#: The verb of runs of whole suites.
SUITE = "taruc"
WORD_BYTES = 8
#: Beyond, neighbouring sizes differ by a few per cent.
_MOST_STEPS = 100


def _of(default: Any, words: str) -> Any:
    """Return a field with its default and what it means, for files and tables."""
    return field(default=default, metadata={"words": words})


def _run() -> Any:
    return _of(True, "whether it is measured")


@dataclass(frozen=True, slots=True)
@checked
class Sizes:
    """A micro-benchmark that goes through sizes."""

    run: bool = _run()
    min_bytes: Bytes = _of(10, "smallest size")
    max_bytes: Bytes = _of(1_500_000_000, "largest size")


@dataclass(frozen=True, slots=True)
@checked
class Nurma:
    """Single loads, far from each other."""

    run: bool = _run()
    gap_bytes: Bytes = _of(5256, "from one load to the next, beside 8 B, 64 B, 4 KiB and 64 KiB")
    block_bytes: Bytes | None = _of(
        None, "memory that the loads stay in; left out: twice the last-level cache"
    )
    min_bytes: Bytes = _of(80, "fewest loads, 8 bytes each")
    max_bytes: Bytes = _of(80_000_000, "most loads, 8 bytes each")


@dataclass(frozen=True, slots=True)
@checked
class Contention:
    """Many at once."""

    run: bool = _run()
    repeats: int | None = _of(None, "samples of each point; left out: until precise enough")
    memory_bytes: Bytes | None = _of(
        None, "array of each thread; left out: all together four times the last-level caches"
    )
    socket_bytes: Bytes | None = _of(
        None, "array of each thread that reads another node; left out: the same"
    )
    pcie_bytes: Bytes = _of(64_000_000, "copy of each stream between host and GPU")


@dataclass(frozen=True, slots=True)
@checked
class Parameters:
    """All parameters of a suite; those of one micro-benchmark stand in its section."""

    tag: str = _of("default", "name of the suite")
    all_gpus: bool = _of(True, "every GPU, or the first alone")
    all_memories: bool = _of(True, "every kind of memory, or pageable alone (hostdev: pinned)")
    patterns: bool = _of(True, "every access pattern and state of the caches, or repeated alone")
    sockets: bool = _of(True, "a thread on every node that has cores, or on the first alone")
    burst: bool = _of(False, "a point at burst_bytes")
    range: bool = _of(True, "points from min_bytes to max_bytes")
    sustained: bool = _of(True, "many samples of each point, or one")
    repeats: int | None = _of(None, "samples of each point; left out: until precise enough")
    steps_per_decade: int = _of(1, "sizes from one power of ten to the next")
    burst_bytes: Bytes = _of(64_000_000, "size of the burst")
    overhead: Sizes = field(default=Sizes(min_bytes=100))
    host: Sizes = field(default=Sizes())
    hostdev: Sizes = field(default=Sizes())
    peer: Sizes = field(default=Sizes())
    nurma: Nurma = field(default=Nurma())
    contention: Contention = field(default=Contention())


def require_sound(parameters: Parameters) -> None:
    """Refuse values that are right in kind and still mean nothing.

    Raises
    ------
    FieldError
        With the field, and as its table the section.
    """
    _require_positive(parameters, "")
    _require_steps(parameters)
    for entry in dataclasses.fields(parameters):
        section = getattr(parameters, entry.name)
        if dataclasses.is_dataclass(section):
            _require_positive(section, entry.name)
        if isinstance(section, Sizes | Nurma):
            _require_range(section, entry.name)
    gap = parameters.nurma.gap_bytes
    if gap % WORD_BYTES:
        raise FieldError(
            f"gap_bytes = {gap} is no multiple of {WORD_BYTES}, the size of a load",
            "gap_bytes",
            "nurma",
        )


def _require_steps(parameters: Parameters) -> None:
    if parameters.steps_per_decade > _MOST_STEPS:
        raise FieldError(
            f"steps_per_decade = {parameters.steps_per_decade} is more than {_MOST_STEPS}",
            "steps_per_decade",
        )
    if not (parameters.burst or parameters.range or parameters.contention.run):
        raise FieldError(
            "burst and range are both false, and so is contention.run: nothing would be measured",
            "range",
        )


def _require_positive(section: Any, table: str) -> None:
    for entry in dataclasses.fields(section):
        value = getattr(section, entry.name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and value < (0 if entry.name == "gap_bytes" else 1):
            raise FieldError(f"{entry.name} = {value} is not above zero", entry.name, table)


def _require_range(section: Sizes | Nurma, table: str) -> None:
    if section.min_bytes > section.max_bytes:
        raise FieldError(
            f"min_bytes = {section.min_bytes} is above max_bytes = {section.max_bytes}; swap them",
            "min_bytes",
            table,
        )
    if isinstance(section, Nurma):
        for name in ("min_bytes", "max_bytes"):
            if getattr(section, name) < WORD_BYTES:
                raise FieldError(f"{name} holds no load of {WORD_BYTES} bytes", name, table)


@dataclass(frozen=True, slots=True)
class Named:
    """A parameter under both names.

    Attributes
    ----------
    label
        TARUC's, as its files have it.
    section, key
        Ours; the section is empty for the general ones.
    kind
        What the value is: ``text``, ``bool`` or ``int``.
    factor
        What a number has to be multiplied with.
    """

    label: str
    section: str
    key: str
    kind: str = "int"
    factor: int = 1


def _range(section: str, what: str) -> tuple[Named, ...]:
    return (
        Named(f"Run {what}", section, "run", "bool"),
        Named("Range Min (bytes)", section, "min_bytes"),
        Named("Range Max (bytes)", section, "max_bytes"),
    )


#: One for each line of TARUC's parameter files, in their order. A number of doubles is eight times
#: as many bytes.
NAMES: tuple[Named, ...] = (
    Named("Run Tag", "", "tag", "text"),
    Named("Use All GPUs", "", "all_gpus", "bool"),
    Named("Test All Mem Types", "", "all_memories", "bool"),
    Named("Run Burst Tests", "", "burst", "bool"),
    Named("Run Range Tests", "", "range", "bool"),
    Named("Run Sustained Tests", "", "sustained", "bool"),
    Named("Run Socket Effect Tests", "", "sockets", "bool"),
    Named("Test Access Patterns", "", "patterns", "bool"),
    Named("# Repeated Steps", "", "repeats"),
    Named("# Steps Per Magnitude", "", "steps_per_decade"),
    Named("Burst Block Size (bytes)", "", "burst_bytes"),
    *_range("overhead", "Memory Overhead Test"),
    *_range("host", "Host-Host Tests"),
    *_range("hostdev", "Host-Device Tests"),
    *_range("peer", "P2P Tests"),
    Named("Run NURMA Test", "nurma", "run", "bool"),
    Named("Memory Skip Gap Size (doubles)", "nurma", "gap_bytes", factor=WORD_BYTES),
    Named("Memory Block Size (doubles)", "nurma", "block_bytes", factor=WORD_BYTES),
    Named("Min # Random Accesses (doubles)", "nurma", "min_bytes", factor=WORD_BYTES),
    Named("Max # Random Accesses (doubles)", "nurma", "max_bytes", factor=WORD_BYTES),
    Named("Run Congestion Test", "contention", "run", "bool"),
    Named("# Repeated Operations", "contention", "repeats"),
    Named("Local Host Block Size (bytes)", "contention", "memory_bytes"),
    Named("QPI Host Block Size (bytes)", "contention", "socket_bytes"),
    Named("Host-Device Block Size (bytes)", "contention", "pcie_bytes"),
)

#: TARUC's headings, and the names of its benchmarks in the paper.
SECTIONS = {
    "memory overhead": "overhead",
    "host host bandwidth": "host",
    "host device bandwidth": "hostdev",
    "p2p bandwidth": "peer",
    "non uniform random memory access": "nurma",
    "resource congestion": "contention",
    "resource contention": "contention",
}

#: What the paper and TARUC's own print-out call them otherwise.
_ALSO = {
    "test all sockets": "Run Socket Effect Tests",
    "test host mem types": "Test All Mem Types",
    "use all devices": "Use All GPUs",
    "test all devices": "Use All GPUs",
    "ranged tests": "Run Range Tests",
    "burst tests": "Run Burst Tests",
    "sustained tests": "Run Sustained Tests",
    "burst block size": "Burst Block Size (bytes)",
    "number steps per magnitude": "# Steps Per Magnitude",
}


def normalised(label: str) -> str:
    """Return a label without case, units and signs.

    >>> normalised("Burst Block Size (bytes)"), normalised("# Repeated Steps")
    ('burst block size', 'repeated steps')
    """
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\([^)]*\)", "", label).lower()))


def named(label: str, section: str) -> Named | None:
    """Return the parameter that TARUC calls so in a section (ours); None when it has none.

    Those of a section may stand at the top, too, where their name tells the section.
    """
    wanted = normalised(_ALSO.get(normalised(label), label))
    found = [n for n in NAMES if normalised(n.label) == wanted]
    mine = [n for n in found if n.section == section]
    if mine:
        return mine[0]
    return found[0] if not section and len(found) == 1 else None
