"""``lanescope advise``: what would make a program's transfers faster."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.ended import ProgramEnded
from lanescope.cli.options import JsonOption, option
from lanescope.cli.report_watch import is_capture
from lanescope.cli.watch import reporting_interruptions
from lanescope.errors import InputError
from lanescope.units.values import Folder, Value

if TYPE_CHECKING:
    from lanescope.model.overlap.predictor import Predictor
    from lanescope.model.transfer.parameters import LinkParameters
    from lanescope.watch.run import WatchRun


def advise(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN | -- PROGRAM [ARGUMENTS]...",
            help="A watch's folder or name, 'latest', an SQLite export of Nsight Systems; or what "
            "to run and watch.",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        option(
            Value("--machine"),
            metavar="NAME|FILE|RUN",
            help="Whose parameters predict; default: the fit that is kept for this machine.",
        ),
    ] = None,
    predictor: Annotated[
        str,
        option(
            Value("--predictor"),
            metavar="NAME",
            help="replay, equations or equations-shared.",
            shown="replay",
        ),
    ] = "replay",
    json: JsonOption = False,
    out: Annotated[
        Path | None,
        option(Folder("--out"), metavar="DIR", help="With a program: the run's folder."),
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
    stored = None if program else _stored(named)  # a wrong name is told first
    parameters, by = _parameters(machine), _predictor(predictor)
    if stored is not None:
        _show(stored, parameters, by, json=json, error=False)
        return
    run = _watched(tuple(program), out)
    own = 0
    try:
        _show(run, parameters, by, json=json, error=True)
    except InputError as error:
        print(f"lanescope: {error}", file=sys.stderr)
        own = 2
    raise ProgramEnded(run.manifest.exit_code or own)


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


def _stored(named: list[str]) -> WatchRun:
    """Return the watch that is named, the latest run where none is."""
    from lanescope.run.folders import find_run
    from lanescope.watch.nsys import read_nsys
    from lanescope.watch.store import read_watch

    name = named[0] if named else "latest"
    return read_nsys(Path(name)) if is_capture(name) else read_watch(find_run(name))


def _watched(program: tuple[str, ...], out: Path | None) -> WatchRun:
    """Run a program and trace its copies and kernels."""
    with reporting_interruptions():
        from lanescope.machine import discover
        from lanescope.watch.ladder import Asked, sources_for
        from lanescope.watch.session import Watch, watch
        from lanescope.watch.waiting import Launched

        waited, machine = Launched(program), discover()
        asked = Asked(("trace",), kernels=True)
        command = shlex.join(["lanescope", *sys.argv[1:]])
        return watch(
            Watch(machine, waited, command, lambda folder: sources_for(machine, asked, folder), out)
        )


def _parameters(name: str | None) -> LinkParameters:
    from lanescope.model.transfer.stored import named_parameters

    return named_parameters(name)


def _predictor(name: str) -> Predictor:
    from lanescope.model.overlap.predictors import predictor_named

    return predictor_named(name)


def _show(
    run: WatchRun,
    parameters: LinkParameters,
    predictor: Predictor,
    *,
    json: bool,
    error: bool,
) -> None:
    """Print the advice; of a program that was run to standard error."""
    import json as encoder

    from lanescope.cli.output import console
    from lanescope.model.advice.advise import advise as advise_of
    from lanescope.report.advice_json import advice_json
    from lanescope.report.advice_text import advice_text
    from lanescope.watch.told import measured_ceilings

    ceilings = measured_ceilings(run.manifest.machine)
    advice = advise_of(run, parameters, predictor, ceilings)
    if json:
        told = encoder.dumps(advice_json(advice), indent=2)
        print(told, file=sys.stderr if error else sys.stdout)
        return
    out = console(error=error)
    out.print(advice_text(advice), soft_wrap=True)
    if error:
        out.print(f"run:  {run.folder}", markup=False)
