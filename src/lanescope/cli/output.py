"""What a run prints: progress, tables, JSON, CSV, and where the page is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lanescope.errors import ExitCode, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from lanescope.copies import Experiment
    from lanescope.store.run import Run
    from lanescope.studies.running import Progress

#: Width of tables when nobody says how wide the output is.
_PIPED_WIDTH = 180


def console(*, error: bool = False, soft_wrap: bool = False) -> Console:
    """Return the console for standard output, or for standard error.

    Control characters of what is printed, which may be a file's, are shown.
    """
    from rich.console import Console
    from rich.segment import Segment

    from lanescope.cli.terminal_text import acting, visible

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit with 1, which here means that a path is slow
            raise BrokenPipeError

        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*arguments, **options):
                yield Segment(text if control else visible(text), style, control)

    if error:
        file = acting(sys.stderr)
        return PipedConsole(
            file=file, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap
        )
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    # texts of files and machines are shown as they are
    file = acting(sys.stdout)
    return PipedConsole(file=file, width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def progress_bar(
    first: str, doing: str = "measuring"
) -> Iterator[Callable[[str, int, int | None], None] | None]:
    """Show a bar on standard error when it is a terminal; be quiet otherwise.

    What it yields takes what is being done, how much is done, and how much there is. `first` is
    shown until then.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        task = bar.add_task(first, total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total
        )


@contextmanager
def progress_on_terminal() -> Iterator[Progress | None]:
    """Show the progress of experiments, as `progress_bar` does."""
    with progress_bar("looking at the machine") as show:
        if show is None:
            yield None
            return

        def on_start(experiment: Experiment, number: int, total: int) -> None:
            show(experiment.title, number - 1, total)

        yield on_start


def show_run(
    run: Run,
    *,
    json: bool,
    csv: bool,
    strict: bool = False,
    mean: bool = False,
    verbose: bool = False,
    page: bool = True,
) -> int:
    """Write a new run's page, print the run, and say on standard error where both are.

    Returns
    -------
    int
        The exit code that its outcome calls for.
    """
    say_where(run, strict=strict, page=page)  # first: whoever reads the table may stop reading
    print_run(run, json=json, csv=csv, strict=strict, mean=mean, verbose=verbose)
    return exit_code(run, strict=strict)


def say_where(run: Run, *, strict: bool, page: bool) -> None:
    """Write a new run's page, if it shall have one, and say on standard error where both are."""
    if page:
        write_page(run, strict=strict)
    elif run.folder is not None:
        print(f"run:  {run.folder}", file=sys.stderr)


def write_page(run: Run, *, strict: bool) -> None:
    """Write a new run's page and say on standard error where it is.

    The run is stored: a page that cannot be written is no failure, and does not hide what the run
    comes to.
    """
    from lanescope.codec.atomic import write_text
    from lanescope.store.store import PAGE
    from lanescope.studies.runs.document import page_html

    assert run.folder is not None, "a run of the command line is always stored"
    path = run.folder / PAGE
    page = f"page: {path}"
    try:
        write_text(path, page_html(run, strict=strict), inner=1)
    except InputError as error:
        page = no_page(run.folder, error)
    print(f"{page}\nrun:  {run.folder}", file=sys.stderr)


def no_page(folder: Path, error: InputError) -> str:
    """Return a note that the page of a stored run could not be written."""
    why = str(error).removesuffix("; name another place")
    return f"no page: {why}; 'lanescope report {folder} --out FILE.html' writes it elsewhere"


def write_plots(run: Run) -> None:
    """Write a new run's charts as picture files and say on standard error where they are.

    The run is stored and its page written: a picture that cannot be is no failure.
    """
    from lanescope.report.chart_files import write_charts
    from lanescope.store.store import PLOTS
    from lanescope.studies.runs.document import run_plots

    assert run.folder is not None, "a run of the command line is always stored"
    try:
        paths = write_charts(run_plots(run), run.folder / PLOTS)
    except InputError as error:
        print(f"no plots: {error}", file=sys.stderr)
        return
    if paths:
        print(f"plots: {run.folder / PLOTS}, {len(paths)} files", file=sys.stderr)


def print_run(
    run: Run,
    *,
    json: bool,
    csv: bool,
    strict: bool = False,
    mean: bool = False,
    verbose: bool = False,
) -> None:
    """Print a run in the requested format."""
    if json or csv:
        from lanescope.studies.runs.export import run_csv, run_json

        print(run_json(run, strict=strict) if json else run_csv(run), end="\n" if json else "")
        return
    from lanescope.cli.run_text import run_tables

    out = console()
    for part in run_tables(run, mean=mean, verbose=verbose, strict=strict):
        out.print(part)


def exit_code(run: Run, *, strict: bool) -> int:
    """Return the exit code that a run's outcome calls for.

    A run that goes on or was killed has none of its own: it proves nothing, which counts with
    `strict`.
    """
    from lanescope.studies.runs.outcome import outcome

    if (code := outcome(run, strict=strict).exit_code) is not None:
        return code
    return ExitCode.NOT_MEASURED if strict else ExitCode.OK
