"""Each analysis as a command: its own options, then the formats that all have."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.cli.combinations import Excludes, Needs, Rule, combines
from lanescope.cli.options import JsonOption, option
from lanescope.cli.studies import (
    Parameter,
    note,
    own_parameters,
    own_values,
    with_parameters,
)
from lanescope.units.values import File, Folder

if TYPE_CHECKING:
    from lanescope.studies.analysis import Analysis, AnalysisResult

#: What goes together, by verb.
_RULES: dict[str, tuple[Rule, ...]] = {
    "predict": (
        Needs(("--arrays-in", "--mapped-reads"), ("--h2d",), "is of the bytes to the GPU"),
        Needs(("--arrays-out", "--mapped-writes"), ("--d2h",), "is of the bytes back"),
        Needs(("--peak-flops",), ("--memory-bandwidth",), "makes a roofline with another limit"),
        Needs(("--memory-bandwidth",), ("--peak-flops",), "makes a roofline with another limit"),
    ),
    "fit": (Excludes("RUN", ("--gpu", "--budget"), "was measured already"),),
    "validate": (Excludes("RUN", ("--gpu", "--grid", "--out"), "was measured already"),),
}
_PLOTS = Annotated[
    Path | None,
    option(Folder("--plots"), metavar="DIR", help="Write the charts there, as SVG and PNG."),
]
_PLOT = Annotated[
    Path | None,
    typer.Option("--plot", parser=File("--plot", (".svg", ".png")), hidden=True),
]


def analysis_command(analysis: type[Analysis]) -> Callable[..., None]:
    """Return an analysis as a function that Typer makes a command of."""

    def command(**given: Any) -> None:
        chosen, notes = made(analysis, given)
        show(chosen, notes, **given)

    parameters = [*own_parameters(analysis), Parameter("json", JsonOption, False)]
    if analysis.has_charts:
        parameters += [Parameter("plots", _PLOTS), Parameter("plot", _PLOT)]
    with_parameters(command, parameters)
    return combines(*_RULES.get(analysis.verb, ()))(command)


def made(analysis: type[Analysis], given: dict[str, Any]) -> tuple[Analysis, list[str]]:
    """Return an analysis of what stood on the command line, and notes on old names.

    What is not its own stays in `given`.

    Raises
    ------
    InputError
        If an option is given by its old and its new name.
    """
    own, notes = own_values(analysis, given)
    if analysis.verb == "predict":
        notes += _machine_or_parameters(own)
    return analysis(**own), notes


def _machine_or_parameters(own: dict[str, Any]) -> Iterator[str]:
    """Take --machine of 'model predict' for link parameters, as it was, where it is no machine."""
    from lanescope.prediction.stored import names_parameters

    name = own["machine"]
    if name is None or own["parameters"] is not None:
        return
    if own["gpus"] is None or names_parameters(name):
        yield "--machine is now --parameters; the next version takes --machine for a machine"
        own |= {"machine": None, "parameters": name}


class _Shown:
    """Shows how far a measurement is, and says in the end where it is stored."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._show: Callable[[str, int, int | None], None] | None = None
        self._begun = False

    def progress(self, what: str, done: int, total: int) -> None:
        from lanescope.cli.output import progress_bar

        if not self._begun:
            self._begun = True
            self._show = self._stack.enter_context(progress_bar(what))
        if self._show is not None:
            self._show(what, done, total)

    def stores(self, folder: Path) -> None:
        self._stack.callback(lambda: print(f"run:  {folder}", file=sys.stderr))


def show(
    analysis: Analysis,
    notes: Sequence[str] = (),
    *,
    json: bool,
    plots: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Carry out an analysis and print what it found; ends with an exit code."""
    # What has been loaded stays to the end: the collector need not look at it again and again.
    gc.freeze()
    with ExitStack() as stack:
        result = analysis.result(_Shown(stack))
    for each in notes:
        note(each)
    if not json and (stored := result.store()) is not None:
        note(stored)
    if plots is not None:
        result.plot().save(plots)
    if plot is not None:
        from lanescope.report.chart_files import write_picture

        note("--plot FILE is now --plots DIR; the next version has no --plot")
        write_picture(result.picture(), plot)
    print_result(result, json=json)
    raise typer.Exit(result.exit_code)


def print_result(result: AnalysisResult, *, json: bool, error: bool = False) -> None:
    """Print what an analysis found, as blocks or as JSON; on standard error if so wanted."""
    if json:
        print(result.to_json(), file=sys.stderr if error else sys.stdout)
        return
    from rich.text import Text

    from lanescope.cli.output import console
    from lanescope.report.blocks_text import renderables

    out = console(error=error)
    parts = list(renderables(result.blocks()))
    for part in parts[:-1] if parts[-1:] == [""] else parts:
        out.print(part, soft_wrap=isinstance(part, str | Text))
