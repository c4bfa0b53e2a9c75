"""Which sources watch: those that are named, else the best that work here; and a check of all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lanescope.errors import MissingPartError, argument
from lanescope.machine import Gpu, Machine
from lanescope.trace.limits import nvlinked
from lanescope.watching.requests import (
    IN_PROGRAMS,
    SourceRequest,
    source_of_program,
    sources_of_program,
)
from lanescope.watching.sources import WatchSource, prepare_all
from lanescope.watching.sources.counters import CountersSource, ThroughputSource, counts_nvlink
from lanescope.watching.sources.pm import PmSource
from lanescope.watching.sources.probe import ProbeSource


def sources_for(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    """Return the sources of a watch, which append to files in `folder`.

    Without names these are, for each GPU, the best counters that say they work, and the copies of
    what can be recorded: as they are called for, or traced where that is asked for. Where none of
    these works, there is a gentle probe as well. Where some are refused when they are set up, the
    next best counters are there, too. A source that was asked for by name is there whether or not
    it works: its start says why.
    """
    if request.names is not None:
        return [s for name in request.names for s in _named(name, machine, request, folder)]
    return [*sources_of_links(machine, request, folder), *sources_of_program(request, folder)]


def sources_of_links(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    """Return those of `sources_for` that observe the machine's links."""
    if request.names is not None:
        names = [name for name in request.names if name not in IN_PROGRAMS]
        return [source for name in names for source in _named(name, machine, request, folder)]
    chosen = counters_for(machine, request, folder)
    if chosen or any(_works(source, machine) for source in sources_of_program(request, folder)):
        return chosen
    gently = dataclasses.replace(request, gentle=True)
    probes = _named("probe", machine, gently, folder)
    return [probe for probe in probes if _works(probe, machine)]


def counters_for(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    """Return the best counters that work on all GPUs; those that are named, where some are.

    Where some are refused when they are set up, the next best are there, too.
    """
    if request.names is not None:
        return sources_of_links(machine, request, folder)
    chosen: list[WatchSource] = []
    for name in _counting():
        found = _named(name, machine, request, folder)
        if found and all(_works(source, machine) for source in found):
            chosen += found
            if not any(prepare_all(found)):  # none was refused, by another profiler say
                break
    return chosen


def counters_work(machine: Machine, request: SourceRequest) -> bool:
    """Whether any counters say that they work on all GPUs."""
    kinds = (_named(name, machine, request, Path()) for name in _counting())
    return any(found and all(_works(one, machine) for one in found) for found in kinds)


def _counting() -> list[str]:
    return [name for name, kind in SOURCES.items() if kind.counts]


def require_usable(machine: Machine, request: SourceRequest) -> None:
    """Refuse a source that is named and cannot watch here, before a program is run for it.

    Raises
    ------
    MissingPartError
        If there is one; it says what stands in the way.
    """
    for name in request.names or ():
        answers = [source.available(machine) for source in _named(name, machine, request, Path())]
        if any(answer.ok for answer in answers):
            continue
        reasons = [answers[0].reason, answers[0].remedy] if answers else ["there is no GPU"]
        why = "; ".join(part.rstrip(".") for part in reasons if part)
        raise MissingPartError(
            f"{argument.sources} {name} cannot watch here: {why}; 'lanescope doctor' shows what can"
        )


def every_source(machine: Machine, folder: Path) -> list[WatchSource]:
    """Return each source of each GPU, the best first."""
    return [s for name in SOURCES for s in _named(name, machine, SourceRequest(), folder)]


def _works(source: WatchSource, machine: Machine) -> bool:
    return source.available(machine).ok


def _named(name: str, machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    return SOURCES[name].make(machine, request, folder)


def _usable(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.unavailable is None]


def _pm(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    joined = nvlinked(machine)
    return [
        PmSource(
            gpu,
            folder,
            interval_ns=request.interval_ns,
            nvlink=gpu.index in joined,
            decode_period_ns=request.decode_period_ns,
        )
        for gpu in _usable(machine)
    ]


def _counters(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    gpus, linked = _usable(machine), nvlinked(machine)
    one = CountersSource(gpus, folder, period_ns=request.period_ns, nvlinked=linked)
    return [one] if gpus else []


def _throughput(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    return [ThroughputSource(gpu, folder) for gpu in _usable(machine)]


def _trace(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    return [source_of_program("trace", request, folder)]


def _calls(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
    return [source_of_program("calls", request, folder)]


def _probe(machine: Machine, request: SourceRequest, folder: Path) -> list[WatchSource]:
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

    make: Callable[[Machine, SourceRequest, Path], list[WatchSource]]
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
