"""The parameters of a suite of TARUC, and its micro-benchmarks.

The names in TARUC's own files stand in `lanescope.studies.taruc.names`.
"""

from __future__ import annotations

import dataclasses
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
