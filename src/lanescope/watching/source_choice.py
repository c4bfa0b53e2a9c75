"""Which sources watch: those that are named, else the best that work here; and a check of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine
from lanescope.trace.nvlink import nvlinked
from lanescope.watching.sources.base import Source, prepare_all
from lanescope.watching.sources.calls import CallsSource
from lanescope.watching.sources.counters import DEFAULT_PERIOD_NS, CountersSource, counts_nvlink
from lanescope.watching.sources.pm import DEFAULT_INTERVAL_NS, PmSource
from lanescope.watching.sources.probe import DEFAULT_CHUNK_BYTES, ProbeSource, require_chunk
from lanescope.watching.sources.throughput import ThroughputSource
from lanescope.watching.sources.trace import DEFAULT_KINDS, TraceSource


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What somebody asked for.

    Attributes
    ----------
    names
        Some of `SOURCES`; None is the best that work here.
    interval_ns
        From sample to sample of pm.
    period_ns
        From read to read of counters.
    kernels
        Whether kernels are traced, too.
    managed
        Whether migrations and faults of managed memory are.
    addresses, hashes
        Whether copies tell the addresses that they were passed, and a hash of what they copied.
    chunk_bytes
        Of each copy of a probe.
    gentle
        Whether a probe copies rarely.
    trace
        Whether each copy is traced on the GPU, by CUPTI, and not only recorded as it is called for;
        kernels, managed memory, addresses and hashes need that.
    traceable
        Whether there is a program to trace: one that lanescope runs.
    program
        What is run, with its arguments.

    Raises
    ------
    InputError
        If there is no such source, or a trace is asked for of what cannot be traced.
    """

    names: tuple[str, ...] | None = None
    interval_ns: int = DEFAULT_INTERVAL_NS
    period_ns: int = DEFAULT_PERIOD_NS
    kernels: bool = False
    managed: bool = False
    addresses: bool = False
    hashes: bool = False
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    gentle: bool = False
    trace: bool = False
    traceable: bool = True
    program: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_chunk(self.chunk_bytes)
        for name in self.names or ():
            if name not in SOURCES:
                raise InputError(f"there is no source {name!r}; use {', '.join(SOURCES)}")
        named = {"trace", "calls"} & set(self.names or ())
        if not self.traceable and (self.traces or named):
            raise InputError(
                "only programs that lanescope runs can be traced; leave --source trace and calls, "
                "--trace always, --kernels, --managed, --addresses and --hash away, or name the "
                "program after --"
            )

    @property
    def traces(self) -> bool:
        """Whether something is asked for that CUPTI alone tells."""
        return self.trace or self.kernels or self.managed or self.addresses or self.hashes


def sources_for(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    """Return the sources of a watch, which append to files in `folder`.

    Without names these are, for each GPU, the best counters that say they work, and the copies of
    what can be recorded: as they are called for, or traced where that is asked for. Where none of
    these works, there is a gentle probe as well.
    Where some are refused when they are set up, the next best counters are there, too.
    A source that was asked for by name is there whether or not it works: its start says why.
    """
    if request.names is not None:
        return [s for name in request.names for s in _named(name, machine, request, folder)]
    chosen: list[Source] = []
    for name in [name for name, kind in SOURCES.items() if kind.counts]:
        found = _named(name, machine, request, folder)
        if found and all(_works(source, machine) for source in found):
            chosen += found
            if not any(prepare_all(found)):  # none was refused, by another profiler say
                break
    name = "trace" if request.traces else "calls"
    copies = _named(name, machine, request, folder) if request.traceable else []
    if chosen or any(_works(source, machine) for source in copies):
        return [*chosen, *copies]
    gently = dataclasses.replace(request, gentle=True)
    probes = _named("probe", machine, gently, folder)
    return [*(probe for probe in probes if _works(probe, machine)), *copies]


def require_usable(machine: Machine, request: SourceRequest) -> None:
    """Refuse a source that is named and cannot watch here, before a program is run for it.

    Raises
    ------
    InputError
        If there is one; it says what stands in the way.
    """
    for name in request.names or ():
        answers = [source.available(machine) for source in _named(name, machine, request, Path())]
        if any(answer.ok for answer in answers):
            continue
        reasons = [answers[0].reason, answers[0].remedy] if answers else ["there is no GPU"]
        why = "; ".join(part.rstrip(".") for part in reasons if part)
        raise InputError(
            f"--source {name} cannot watch here: {why}; 'lanescope doctor' shows what can"
        )


def every_source(machine: Machine, folder: Path) -> list[Source]:
    """Return each source of each GPU, the best first."""
    return [s for name in SOURCES for s in _named(name, machine, SourceRequest(), folder)]


def _works(source: Source, machine: Machine) -> bool:
    return source.available(machine).ok


def _named(name: str, machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    return SOURCES[name].make(machine, request, folder)


def _usable(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.unavailable is None]


def _pm(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    joined = nvlinked(machine)
    return [
        PmSource(gpu, folder, interval_ns=request.interval_ns, nvlink=gpu.index in joined)
        for gpu in _usable(machine)
    ]


def _counters(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    gpus, linked = _usable(machine), nvlinked(machine)
    one = CountersSource(gpus, folder, period_ns=request.period_ns, nvlinked=linked)
    return [one] if gpus else []


def _throughput(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    return [ThroughputSource(gpu, folder) for gpu in _usable(machine)]


def _trace(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    more = {
        "kernel": request.kernels,
        "migration": request.managed,
        "address": request.addresses or request.hashes,
        "hash": request.hashes,
    }
    kinds = (*DEFAULT_KINDS, *(kind for kind, on in more.items() if on))
    return [TraceSource(folder, kinds, program=request.program)]


def _calls(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    return [CallsSource(folder, program=request.program)]


def _probe(machine: Machine, request: SourceRequest, folder: Path) -> list[Source]:
    return [
        ProbeSource(gpu, folder, request.chunk_bytes, request.gentle) for gpu in _usable(machine)
    ]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source.

    Attributes
    ----------
    make
        Makes its sources: of a machine, as asked for, which append to files in a folder.
    counts
        Whether it counts bytes of links; the first of these that works watches by default.
    """

    make: Callable[[Machine, SourceRequest, Path], list[Source]]
    counts: bool = False


#: Every kind of source by its name, the best counters first. A new one is a line here.
SOURCES: dict[str, SourceKind] = {
    "pm": SourceKind(_pm, counts=True),
    "counters": SourceKind(_counters, counts=True),
    "throughput": SourceKind(_throughput, counts=True),
    "calls": SourceKind(_calls),
    "trace": SourceKind(_trace),
    "probe": SourceKind(_probe),
}


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found of one source; a sentence each for what is wrong and what to do."""

    name: str
    works: bool
    reason: str | None
    remedy: str | None


def nvlink_text(machine: Machine) -> str:
    """Return on which NVLinks the driver counts bytes, as half a sentence."""
    linked = nvlinked(machine)
    if not linked:
        return "none"
    gpus = [gpu for gpu in machine.gpus if gpu.index in linked]
    counted = [gpu.id for gpu in gpus if counts_nvlink(gpu)]
    others = [gpu.id for gpu in gpus if gpu.id not in counted]
    parts = [f"bytes of {', '.join(counted)} are counted by source counters"] if counted else []
    parts += [f"the driver does not count bytes of {', '.join(others)}"] if others else []
    return "; ".join(parts)


def examine(machine: Machine, folder: Path) -> tuple[Examined, ...]:
    """Try every source for a moment.

    Parameters
    ----------
    folder
        For what they write meanwhile.
    """
    found = []
    for source in every_source(machine, folder):
        answer = source.available(machine, thorough=True)
        found.append(Examined(source.name, answer.ok, answer.reason, answer.remedy))
    return tuple(found)
