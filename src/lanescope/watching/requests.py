"""From what somebody asks for to a watch."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from lanescope.machine import Machine, NumaNode
from lanescope.watching.session import Watch
from lanescope.watching.source_request import IN_PROGRAMS, SourceRequest, sources_of_program
from lanescope.watching.sources.base import Source
from lanescope.watching.startup import Startup
from lanescope.watching.waiting import Waited

#: What any end of a watch needs.
_NEEDED_LATER = ("lanescope.trace.store", "pyarrow.parquet")

#: Shows what is counted meanwhile, given the folder that sources append to.
LiveView = Callable[[Path, Machine], AbstractContextManager[object]]


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


def _sources_of_links(request: SourceRequest, machine: Machine, folder: Path) -> list[Source]:
    # only now: what it loads takes longer than many programs
    from lanescope.watching.source_choice import sources_of_links

    return sources_of_links(machine, request, folder)
