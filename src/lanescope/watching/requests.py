"""What somebody asks of a watch, its sources that work in a program, and the watch itself.

A program starts as soon as these are made, so nothing here takes long to load.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lanescope.errors import InputError, argument
from lanescope.machine import Machine, NumaNode
from lanescope.watching.launcher import Waited
from lanescope.watching.session import Startup, Watch
from lanescope.watching.sources import WatchSource
from lanescope.watching.sources.calls import CallsSource
from lanescope.watching.sources.trace import DEFAULT_KINDS, TraceSource

#: Sources that work in the program, whatever the machine is.
IN_PROGRAMS = ("calls", "trace")
#: From sample to sample of pm: 10 kHz.
DEFAULT_INTERVAL_NS = 100_000
_CHUNK_BYTES = 200 << 10


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
    decode_period_ns
        From fetching to fetching of what pm has sampled: each takes 1 ms of processor time.
    kernels
        Whether kernels are traced, too.
    managed
        Whether migrations and faults of managed memory are.
    addresses, hashes
        Whether copies tell the addresses that they were passed, and a hash of what they copied.
    contents
        Whether they tell hashes both ways of as many as a small share of the time is enough for.
    chunk_bytes
        Of each copy of a probe.
    gentle
        Whether a probe copies rarely.
    python_bytes
        Copies of so many bytes and more have their line of Python recorded; None: none have.
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
    period_ns: int = 1_000_000
    decode_period_ns: int = 50_000_000
    kernels: bool = False
    managed: bool = False
    addresses: bool = False
    hashes: bool = False
    contents: bool = False
    python_bytes: int | None = None
    chunk_bytes: int = _CHUNK_BYTES
    gentle: bool = False
    trace: bool = False
    traceable: bool = True
    program: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.names is not None:
            _require_known(self.names)
        if self.chunk_bytes != _CHUNK_BYTES:
            from lanescope.watching.sources.probe import require_chunk

            require_chunk(self.chunk_bytes)
        named = {"trace", "calls"} & set(self.names or ())
        wanted = self.traces or self.python_bytes is not None
        if not self.traceable and (wanted or named):
            raise InputError(
                f"only programs that lanescope runs can be traced; leave {argument.sources} trace "
                f"and calls, {argument.trace}, {argument.kernels}, {argument.managed}, "
                f"{argument.addresses}, {argument.hashes} and {argument.python_bytes} away, or "
                f"name {argument.program}"
            )
        by_calls = self.names_in_program == ("calls",)
        if self.python_bytes is not None and not by_calls:
            raise InputError(
                f"{argument.python_bytes} needs source calls, in whose place {argument.trace}, "
                f"{argument.kernels}, {argument.managed}, {argument.addresses}, "
                f"{argument.hashes} and other sources watch; leave out these, or "
                f"{argument.python_bytes}"
            )

    @property
    def names_in_program(self) -> tuple[str, ...]:
        """Which of `IN_PROGRAMS` watch: those that are named, else calls, and where wanted a trace.

        Where a program is traced, its calls count where the trace is missing. The trace comes last,
        as its variables of the environment replace those of the calls.
        """
        if self.names is not None:
            return tuple(name for name in self.names if name in IN_PROGRAMS)
        if not self.traceable:
            return ()
        return ("calls", "trace") if self.traces else ("calls",)

    @property
    def traces(self) -> bool:
        """Whether something is asked for that CUPTI alone tells."""
        wanted = self.trace or self.kernels or self.managed or self.addresses
        return wanted or self.hashes or self.contents


#: What any end of a watch needs.
_NEEDED_LATER = ("lanescope.trace.store", "pyarrow.parquet")

#: Shows what is counted meanwhile, given the folder that sources append to.
LiveView = Callable[[Path, Machine], AbstractContextManager[object]]


def _require_known(names: tuple[str, ...]) -> None:
    from lanescope.watching.source_choice import SOURCES

    for name in names:
        if name not in SOURCES:
            raise InputError(f"there is no source {name!r}; use {', '.join(SOURCES)}")


def sources_of_program(request: SourceRequest, folder: Path) -> list[WatchSource]:
    """Return the sources that work in the program, which append to files in `folder`."""
    return [source_of_program(name, request, folder) for name in request.names_in_program]


def source_of_program(name: str, request: SourceRequest, folder: Path) -> WatchSource:
    """Return one of `IN_PROGRAMS`."""
    if name == "calls":
        fallback = request.names is None and request.traces
        return CallsSource(
            folder,
            program=request.program,
            python_bytes=request.python_bytes,
            is_fallback=fallback,
        )
    more = {
        "kernel": request.kernels,
        "migration": request.managed,
        "address": request.addresses or request.hashes or request.contents,
        "hash": request.hashes,
        "content": request.contents,
    }
    kinds = (*DEFAULT_KINDS, *(kind for kind, on in more.items() if on))
    return TraceSource(folder, kinds, program=request.program)


def request_watch(
    request: SourceRequest,
    waited: Waited,
    command: str,
    out: Path | None = None,
    *,
    live: LiveView | None = None,
    max_spool_bytes: int | None = None,
    in_hurry: bool = False,
    refuse: bool = True,
    needed_later: Sequence[str] = (),
) -> Watch:
    """Return a watch by the sources that are asked for, else by the best that work here.

    A program starts at once unless a source of links is asked for by name, which may have to be
    refused before: else the machine is looked at meanwhile.

    Parameters
    ----------
    command
        Command line of lanescope, for the record.
    live, max_spool_bytes, in_hurry
        As `beside` and the others of `Watch`.
    needed_later
        Modules that make the summary, to be loaded while the program runs.
    refuse
        Whether a source that is named has to work here; else the record says why it does not.

    Raises
    ------
    InputError
        If one that has to work does not.
    """
    unknown = Machine(name=platform.node() or "unknown", nodes=(NumaNode(0, ()),))
    if waited.traceable and live is None and set(request.names or ()) <= set(IN_PROGRAMS):
        if request.names is not None and refuse:
            _require_usable(unknown, request)
        return Watch(
            unknown,
            waited,
            command,
            lambda folder: sources_of_program(request, folder),
            out,
            max_spool_bytes=max_spool_bytes,
            startup=Startup(
                _machine, partial(_sources_of_links, request), (*_NEEDED_LATER, *needed_later)
            ),
            in_hurry=in_hurry,
        )
    from lanescope.watching.source_choice import sources_for

    machine = _machine()
    if refuse:
        _require_usable(machine, request)
    return Watch(
        machine,
        waited,
        command,
        lambda folder: sources_for(machine, request, folder),
        out,
        nullcontext if live is None else lambda folder: live(folder, machine),
        max_spool_bytes,
    )


def _require_usable(machine: Machine, request: SourceRequest) -> None:
    from lanescope.watching.source_choice import require_usable

    require_usable(machine, request)


def _machine() -> Machine:
    from lanescope.machine import discover

    return discover()


def _sources_of_links(request: SourceRequest, machine: Machine, folder: Path) -> list[WatchSource]:
    # only now: what it loads takes longer than many programs
    from lanescope.watching.source_choice import sources_of_links

    return sources_of_links(machine, request, folder)
