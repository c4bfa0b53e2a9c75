"""``lanescope advise``: what would make a program's transfers faster."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.analyses import print_result
from lanescope.cli.options import JsonOption, option
from lanescope.cli.own_process import ProgramEnded
from lanescope.cli.report import PAGES, TRACES
from lanescope.cli.studies import note, renamed
from lanescope.cli.watch import reporting_interruptions
from lanescope.errors import InputError
from lanescope.units.values import File, Folder, Unread, Value

if TYPE_CHECKING:
    from lanescope.studies.advise import Advised
    from lanescope.studies.what_if import WhatIf
    from lanescope.trace.run import WatchRun


def advise(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN | -- PROGRAM [ARGUMENTS]...",
            help="A watch's folder or name, 'latest', an SQLite export of Nsight Systems; or what "
            "to run and watch.",
        ),
    ] = None,
    parameters: Annotated[
        str | None,
        option(
            Value("--parameters"),
            "Whose link parameters predict; default: the fit that is kept for this machine.",
            metavar="NAME|FILE|RUN",
        ),
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", parser=Value("--machine"), hidden=True)
    ] = None,
    predictor: Annotated[
        str, option(Value("--predictor"), "replay, equations or equations-shared.", shown="replay")
    ] = "replay",
    what_if: Annotated[
        str | None,
        option(
            Unread("--what-if"),
            "Replay the measured rounds under edits: pin, async, prefetch, batch[=SIZE], defer, "
            "keep, mapped, copies=FACTOR, kernels=FACTOR, joined by commas.",
            metavar="EDITS",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        option(
            File("--page", PAGES),
            "Write it as a page; with --what-if: both schedules and their critical path.",
        ),
    ] = None,
    perfetto: Annotated[
        Path | None,
        option(
            File("--perfetto", TRACES), "With --what-if: write both schedules for ui.perfetto.dev."
        ),
    ] = None,
    json: JsonOption = False,
    out: Annotated[
        Path | None, option(Folder("--out"), "With a program: the run's folder.")
    ] = None,
) -> None:
    """Say what pinned memory, streams, mapped memory or batches would gain, and when not.

    Takes a watch with its kernels ('watch --kernels'), or runs a program and watches it: that
    keeps its input, output and exit code, and the advice goes to standard error.
    """
    named = list(words or ())
    program = _program(named)
    if not program and out is not None:
        raise InputError("--out is where a program's watch goes; name a program after --")
    if what_if is None and perfetto:
        raise InputError("--perfetto shows the schedules of --what-if; name its edits")
    renaming = None if machine is None else renamed("--machine", "--parameters", parameters)
    from lanescope.studies.advise import Advise, stored_watch

    stored = None if program else stored_watch(named[0] if named else "latest")
    question = Advise(parameters=parameters or machine, predictor=predictor, what_if=what_if)
    advised = question.advisor()
    if renaming is not None:
        note(renaming)
    if stored is not None:
        result = advised(stored)
        print_result(result, json=json)
        _write_files(result, page, perfetto)
        return
    run = _watched(tuple(program), out)
    own = 0
    try:
        result = advised(run)
        print_result(result, json=json, error=True)
        _write_files(result, page, perfetto)
        if not json:
            print(f"run:  {run.folder}", file=sys.stderr)
    except InputError as error:
        print(f"lanescope: {error}", file=sys.stderr)
        own = 2
    raise ProgramEnded(run.manifest.exit_code or own)


def _write_files(result: Advised | WhatIf, page: Path | None, perfetto: Path | None) -> None:
    """Write the page, and the trace of --what-if, where they are named."""
    from lanescope.studies.what_if import WhatIf

    if page is not None:
        print(f"page: {result.page(page)}", file=sys.stderr)
    if perfetto is not None and isinstance(result, WhatIf):
        print(f"trace: {result.perfetto(perfetto)}", file=sys.stderr)


def _program(named: list[str]) -> list[str]:
    """Return the program and its arguments; nothing where a run is named.

    Raises
    ------
    InputError
        If there is neither or both.
    """
    words = sys.argv[1:]
    if "--" not in words:
        if len(named) > 1:
            raise InputError(
                f"advise takes one run, not {len(named)}; a program stands after --, as in "
                "'lanescope advise -- ./app --its options'"
            )
        return []
    behind = words[words.index("--") + 1 :]
    if not behind:
        raise InputError("there is no program after --; name one, or a run in its place")
    if len(behind) != len(named):
        raise InputError("advise takes a run or a program after --, not both")
    return named


def _watched(program: tuple[str, ...], out: Path | None) -> WatchRun:
    """Run a program and trace its copies and kernels."""
    with reporting_interruptions():
        from lanescope.watching.launcher import Launched
        from lanescope.watching.requests import SourceRequest, request_watch
        from lanescope.watching.session import watch

        request = SourceRequest(("trace",), kernels=True, contents=True)
        command = shlex.join(["lanescope", *sys.argv[1:]])
        return watch(request_watch(request, Launched(program), command, out, refuse=False))
