"""What a verb prints of a run: progress, tables, JSON, CSV, the page, how it compares."""

from __future__ import annotations

import dataclasses
import json as encoder
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lanescope.errors import ExitCode, InputError

if TYPE_CHECKING:
    from rich.console import Console

    from lanescope.copies import Experiment
    from lanescope.document.blocks import Block
    from lanescope.history.document import LevelComparison
    from lanescope.history.records import HistoryRecord
    from lanescope.store.run import Against, Run
    from lanescope.studies.running import Progress
    from lanescope.studies.runs.compare import PathChange
    from lanescope.trace.run import WatchRun

#: Width of tables when nobody says how wide the output is.
_PIPED_WIDTH = 180
#: Smaller effects count as none.
THRESHOLD = 0.02
#: Compares a run: what it comes to, and what is printed of it.
Compare: TypeAlias = "Callable[[Run], tuple[Against, Sequence[Block]]]"


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

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            # `options` of a console asks for the terminal's size, which a cell of a table need not
            if (options or self.options).ascii_only:
                from lanescope.report.terminal import in_ascii

                renderable = in_ascii(renderable)
            for text, style, control in super().render(renderable, options):
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
    from lanescope.codec.files import write_text
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
    from lanescope.report.charts import write_charts
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


def compare_runs(before: Run, after: Run, threshold: float, *, json: bool = False) -> ExitCode:
    """Print what changed from one run to another; return the exit code."""
    against, blocks, found = _against_run(before, after, threshold)
    if json:
        content = {
            "summary": against.summary,
            "threshold": threshold,
            "predicted": [run.predicted for run in (before, after)],
            "changes": [
                {
                    "experiment": one.after.result.experiment.name,
                    "path": one.after.label,
                    "effect": one.effect,
                    "half_width": one.half_width,
                    "certain": one.is_certain(threshold),
                }
                for one in found
            ],
        }
        print(encoder.dumps(content, indent=2))
    else:
        print_blocks(blocks)
    return against.exit_code


def _against_run(
    before: Run, after: Run, threshold: float
) -> tuple[Against, Sequence[Block], Sequence[PathChange]]:
    from lanescope.store.run import Against
    from lanescope.studies.runs.compare import changes, comparison, headline

    found = changes(before, after)
    slower = any(one.is_slower(threshold) for one in found)
    code = ExitCode.SLOW if slower else ExitCode.OK
    if all(one.half_width is None for one in found):
        code = ExitCode.NOT_MEASURED
    against = Against(code, headline(found, threshold))
    return against, comparison(before, after, threshold), found


def compare_watches(
    before: WatchRun, after: WatchRun, threshold: float, *, json: bool = False
) -> ExitCode:
    """Print what changed from one watch to another; return the exit code."""
    from lanescope.studies.runs.compare import (
        comparison_json,
        watch_changes,
        watch_comparison,
    )

    if json:
        print(encoder.dumps(comparison_json(before, after, threshold), indent=2))
    else:
        print_blocks(watch_comparison(before, after, threshold))
    found = watch_changes(before, after)
    if all(one.effect is None for one in found):
        return ExitCode.NOT_MEASURED
    return ExitCode.SLOW if any(one.is_slower(threshold) for one in found) else ExitCode.OK


def judge_by_history(
    records: Sequence[HistoryRecord], index: Path | None, threshold: float, *, json: bool = False
) -> ExitCode:
    """Print how runs lie in the history of their hardware; return the exit code."""
    against, blocks, found = _against_history(records, index, threshold)
    if json:
        content = {
            "summary": against.summary,
            "threshold": threshold,
            "paths": [dataclasses.asdict(one) for one in found],
        }
        print(encoder.dumps(content, indent=2))
    else:
        print_blocks(blocks)
    return against.exit_code


def _against_history(
    records: Sequence[HistoryRecord], index: Path | None, threshold: float
) -> tuple[Against, Sequence[Block], Sequence[LevelComparison]]:
    from lanescope.history.document import against_history, comparison_blocks, comparison_headline
    from lanescope.history.index import History, default_index
    from lanescope.store.run import Against

    found: list[LevelComparison] = []
    with History(index or default_index()) as history:
        for record in records:
            found += against_history(record, history, threshold)
    code = ExitCode.SLOW if any(one.slower for one in found) else ExitCode.OK
    if all(one.shift is None for one in found):
        code = ExitCode.NOT_MEASURED
    return Against(code, comparison_headline(found)), comparison_blocks(found), found


def compared_with(compare: Compare | None, run: Run) -> tuple[Run, Sequence[Block]]:
    """Return a run that knows how it compares with a baseline, and what is printed of that."""
    if compare is None:
        return run, ()
    against, blocks = compare(run)
    return dataclasses.replace(run, against=against), blocks


def baseline_named(name: str) -> Compare:
    """Return what compares a run with a stored one, or with ``history``.

    Raises
    ------
    InputError
        If there is no such run, or no history.
    """
    if name == "history":
        from lanescope.history.index import History, default_index
        from lanescope.history.records import record_of_run

        with History(default_index()):
            pass  # what is wrong with it is said before anything is measured
        return lambda run: _against_history([record_of_run(run)], None, THRESHOLD)[:2]
    from lanescope.store.folder import find_run
    from lanescope.store.store import read_run

    before = read_run(find_run(name))
    return lambda run: _against_run(before, run, THRESHOLD)[:2]


def print_blocks(blocks: Sequence[Block], *, error: bool = False) -> None:
    """Print blocks on the terminal, or on standard error."""
    from lanescope.report.terminal import renderables

    out = console(error=error)
    for part in renderables(blocks):
        out.print(part)
