"""``lanescope node``: the gate for one node, as a prolog or a health checker calls it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from lanescope.cli.options import (
    NOT_STORED,
    WITHIN,
    BusyOption,
    Exclusive,
    ExpectGpusOption,
    ExpectOption,
    NoStoreOption,
    OutOption,
    combines,
    option,
    plan_of,
)
from lanescope.units.values import File, OneOf

_PR_SET_PDEATHSIG = 1
DEFAULT_WITHIN_NS = 60_000_000_000


def _formats() -> list[str]:
    from lanescope.operators import NodeFormat

    return list(NodeFormat)


def _levels() -> list[str]:
    from lanescope.studies.node import Level

    return list(Level)


def _snippets() -> list[str]:
    from lanescope.operators import SNIPPETS

    return list(SNIPPETS)


def _end_with_parent() -> None:
    """Have the kernel end this process where the one that waits for it is killed."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@combines(NOT_STORED, Exclusive("--snippet", (), "prints a file and ends"))
def node(
    expect: ExpectOption = None,
    expect_gpus: ExpectGpusOption = None,
    within: Annotated[
        int | None,
        option(
            WITHIN,
            "The report is there by then, whatever happens: below 45s each GPU with the host and "
            "the next GPU, below 5min all paths, else all cases of nvbandwidth, too.",
            metavar="TIME",
            shown="1min",
        ),
    ] = None,
    format: Annotated[
        str | None,
        option(
            OneOf("--format", _formats),
            "line, json, prometheus (for node_exporter's text files), nhc (ends with 1 for a "
            "broken or missing part alone, else with 0) or nagios (ends with Nagios' codes).",
            shown="line",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        option(
            File("--to", ()),
            "Write the report to this file, whole or not at all, and print the line.",
        ),
    ] = None,
    out: OutOption = None,
    no_store: NoStoreOption = False,
    allow_busy: BusyOption = False,
    snippet: Annotated[
        str | None,
        option(
            OneOf("--snippet", _snippets),
            "Print a file to start from, and end: slurm-prolog, nhc, kubernetes for a node, "
            "slurm-job, kubernetes-fleet, grafana for many.",
        ),
    ] = None,
    measure: Annotated[
        str | None, typer.Option("--measure", parser=OneOf("--measure", _levels), hidden=True)
    ] = None,
) -> None:
    """Say in one line whether this node may run jobs, and which part is broken if not.

    Exit code: 0 sound, 1 a part is slow, 3 not all was measured, 4 the node is not as --expect
    says, 5 other processes use a part, 2 and 70 lanescope could not do it. A GPU that others use
    is not measured, and a driver that hangs does not hold the report up.
    """
    from lanescope import interruption

    if snippet is not None:
        from lanescope.operators import snippet_text

        print(snippet_text(snippet), end="")
        return
    if measure is not None:
        from lanescope.studies.node import NodeCheck
        from lanescope.studies.study import run_study

        _end_with_parent()
        study = NodeCheck(level=measure, expected=expect, expected_gpus=expect_gpus)
        plan = plan_of(study.sampling, None, None, within)
        run_study(study, plan=plan, allow_busy=allow_busy, out=out)
        return
    from lanescope.operators import NodeFormat, node_written
    from lanescope.store.folder import new_or_temporary_folder
    from lanescope.studies.node import (
        Request,
        check_node,
        make_folder,
        node_arguments,
        require_time,
    )

    arguments = node_arguments(expect, expect_gpus, allow_busy=allow_busy)
    seconds = (DEFAULT_WITHIN_NS if within is None else within) * 1e-9
    require_time(seconds)
    began = interruption.began_at()
    request = Request(seconds, arguments, time.monotonic() if began is None else began)
    if not no_store:
        if out is None:
            out, _ = new_or_temporary_folder("node")
        make_folder(out)
    report = check_node(request, None if no_store else out)
    text, code = node_written(report, NodeFormat(format or NodeFormat.LINE))
    if to is None:
        print(text, end="")
    else:
        from lanescope.codec.files import write_text

        print(report, flush=True)  # also where the file cannot be written
        write_text(to, text)
    raise typer.Exit(code)
