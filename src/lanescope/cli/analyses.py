"""Each analysis as a command: its own options, then the formats that all have."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.cli.options import (
    NOT_STORED,
    Excludes,
    Exclusive,
    JsonOption,
    Needs,
    NoPageOption,
    NoStoreOption,
    OptionRule,
    Parameter,
    combines,
    option,
    with_parameters,
)
from lanescope.cli.studies import note, own_parameters, own_values
from lanescope.errors import InputError
from lanescope.units.values import File, Folder

if TYPE_CHECKING:
    from lanescope.studies.analysis import Analysis, AnalysisResult

_OF_RUNS = ("--no-store", "--no-page")
#: What goes together, by verb.
_RULES: dict[str, tuple[OptionRule, ...]] = {
    "predict": (
        Needs(("--arrays-in", "--mapped-reads"), ("--h2d",), "is of the bytes to the GPU"),
        Needs(("--arrays-out", "--mapped-writes"), ("--d2h",), "is of the bytes back"),
        Needs(("--mapped-contention",), ("--mapped-writes", "--measured"), "is of mapped writes"),
        Needs(("--peak-flops",), ("--memory-bandwidth",), "makes a roofline with another limit"),
        Needs(("--memory-bandwidth",), ("--peak-flops",), "makes a roofline with another limit"),
    ),
    "compress": (
        Exclusive(
            "--from",
            (
                *("--link-speed", "--parameters", "--machine"),
                *("--plots", "--plot", "--plot-rate", "--json"),
            ),
            "shows what is stored",
        ),
        Excludes("--link-speed", ("--parameters", "--machine"), "and --parameters say the same"),
        Excludes("--size", ("FILES",), "is that of made-up examples"),
        Needs(("--dtype",), ("FILES",), "is that of files"),
    ),
    "fit": (Excludes("RUN", ("--gpu", "--budget", *_OF_RUNS), "was measured already"),),
    "validate": (Excludes("RUN", ("--gpu", "--grid", "--out", *_OF_RUNS), "was measured already"),),
}
_PLOTS = Annotated[
    Path | None, option(Folder("--plots"), "Write the charts there, as SVG and PNG.")
]
_PLOT, _PLOT_RATE = (
    Annotated[Path | None, typer.Option(name, parser=File(name, (".svg", ".png")), hidden=True)]
    for name in ("--plot", "--plot-rate")
)
#: What --plot-rate of 'bench compress' had cross links.
_RATE_SIZES = tuple(1 << power for power in range(20, 29))


def analysis_command(analysis: type[Analysis]) -> Callable[..., None]:
    """Return an analysis as a function that Typer makes a command of."""

    def command(**given: Any) -> None:
        chosen, notes = made(analysis, given)
        show(chosen, notes, **given)

    parameters = [*own_parameters(analysis), Parameter("json", JsonOption, False)]
    if analysis.has_charts:
        parameters += [Parameter("plots", _PLOTS), Parameter("plot", _PLOT)]
    if analysis.verb == "compress":
        parameters.append(Parameter("plot_rate", _PLOT_RATE))
    if analysis.title:
        parameters += [
            Parameter("no_page", NoPageOption, False),
            Parameter("no_store", NoStoreOption, False),
        ]
    with_parameters(command, parameters)
    stored = (NOT_STORED,) if analysis.title else ()
    return combines(*_RULES.get(analysis.verb, ()), *stored)(command)


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
    if given.get("plot_rate") is not None and own["stored"] is None:
        own["link_sizes"] = own["link_sizes"] or _RATE_SIZES
    return analysis(**own), notes


def _machine_or_parameters(own: dict[str, Any]) -> Iterator[str]:
    """Take --machine of 'model predict' for link parameters, as it was, where it is no machine."""
    from lanescope.prediction.other_links import known_gpus
    from lanescope.prediction.stored_parameters import names_parameters

    name = own["machine"]
    if name is None or own["parameters"] is not None or name in known_gpus():
        return
    if names_parameters(name):
        yield "--machine is now --parameters; the next version takes --machine for a machine"
        own |= {"machine": None, "parameters": name}


class _Shown:
    """Shows how far a measurement is, and says in the end where it is stored."""

    def __init__(self, stack: ExitStack, *, says_where: bool = True) -> None:
        self._stack, self._says_where = stack, says_where
        self._show: Callable[[str, int, int | None], None] | None = None
        self._begun = False
        self.folder: Path | None = None

    def progress(self, what: str, done: int, total: int) -> None:
        from lanescope.cli.output import progress_bar

        if not self._begun:
            self._begun = True
            self._show = self._stack.enter_context(progress_bar(what))
        if self._show is not None:
            self._show(what, done, total)

    def stores(self, folder: Path) -> None:
        self.folder = folder
        if self._says_where:
            self._stack.callback(lambda: print(f"run:  {folder}", file=sys.stderr))


def show(
    analysis: Analysis,
    notes: Sequence[str] = (),
    *,
    json: bool,
    plots: Path | None = None,
    plot: Path | None = None,
    plot_rate: Path | None = None,
    no_page: bool = False,
    no_store: bool = False,
) -> None:
    """Carry out an analysis and print what it found; ends with an exit code."""
    # What has been loaded stays to the end: the collector need not look at it again and again.
    gc.freeze()
    if plots is not None:
        from lanescope.report.charts import require_folder

        require_folder(plots)
    with ExitStack() as stack:
        shown = _Shown(stack, says_where=not no_store)
        if no_store:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            changed: dict[str, Any] = {"out": Path(folder, analysis.verb)}
            analysis = replace(analysis, **changed)
        result = analysis.result(shown)
        if analysis.title and shown.folder is not None and not (no_page or no_store):
            write_page(type(analysis), shown.folder, result)
    for each in notes:
        note(each)
    if not json and (stored := result.store()) is not None:
        note(stored)
    if plots is not None:
        write_plots(result, plots)
    if plot is not None:
        from lanescope.report.charts import write_picture

        note("--plot FILE is now --plots DIR; the next version has no --plot")
        write_picture(result.picture(), plot)
    if plot_rate is not None:
        _write_rates(result, plot_rate)
    print_result(result, json=json)
    raise typer.Exit(result.exit_code)


def write_plots(result: AnalysisResult, folder: Path) -> int:
    """Write the charts of a result as picture files, and return how many.

    Raises
    ------
    InputError
        If it has none, or they cannot be written.
    """
    from lanescope.report.charts import write_charts

    paths = write_charts(result.charts(), folder)
    if not paths:
        raise InputError("this run has nothing to plot: none of its numbers has a chart")
    return len(paths)


def write_page(
    analysis: type[Analysis],
    folder: Path,
    result: AnalysisResult,
    page: Path | None = None,
    *,
    static: bool = False,
) -> Path:
    """Write the page of a stored result, into its folder if nothing else is named.

    Into its own folder: one that cannot be written is a note, as of `output.write_page`.
    """
    from lanescope.cli.output import no_page
    from lanescope.codec.files import write_text
    from lanescope.report.document_page import document_page
    from lanescope.store.store import PAGE
    from lanescope.studies.analysis import analysis_document

    path = page or folder / PAGE
    html = document_page(analysis_document(analysis, folder, result), static=static)
    if page is not None:
        write_text(path, html, inner=int(path.parent == folder))
        return path
    said = f"page: {path}"
    try:
        write_text(path, html, inner=1)
    except InputError as error:
        said = no_page(folder, error)
    print(said, file=sys.stderr)
    return path


def _write_rates(result: AnalysisResult, plot: Path) -> None:
    """Write the data rates of 'bench compress' as --plot-rate named the pictures."""
    from lanescope.report.charts import write_chart

    prefix = "compress-rate"
    charts = [one for one in result.charts() if one.key.startswith(prefix)]
    if not charts:
        raise InputError(
            "--plot-rate draws what crossed the links of a GPU, and nothing did; measure on a "
            "machine with one"
        )
    note("--plot-rate FILE is now --plots DIR with --link-sizes, and goes with the next version")
    for chart in charts:
        name = f"{plot.stem}{chart.key.removeprefix(prefix)}{plot.suffix}"
        path = plot if len(charts) == 1 else plot.with_name(name)
        write_chart(chart, path)
        print(f"plot: {path}", file=sys.stderr)


def print_result(result: AnalysisResult, *, json: bool, error: bool = False) -> None:
    """Print what an analysis found, as blocks or as JSON; on standard error if so wanted."""
    if json:
        print(result.to_json(), file=sys.stderr if error else sys.stdout)
        return
    from rich.text import Text

    from lanescope.cli.output import console
    from lanescope.cli.terminal_text import is_terminal
    from lanescope.report.terminal import renderables

    out = console(error=error)
    whole = not is_terminal(sys.stderr if error else sys.stdout)  # sentences in one line each
    parts = list(renderables(result.blocks()))
    for part in parts[:-1] if parts[-1:] == [""] else parts:
        out.print(part, soft_wrap=whole and isinstance(part, str | Text))
