"""``lanescope report``: the page of a stored run, and its exports."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import (
    ONE_FORMAT,
    CsvOption,
    Excludes,
    JsonOption,
    Needs,
    combines,
    flag,
    option,
)
from lanescope.errors import InputError
from lanescope.units.values import Duration, File, Folder, InFile, Moment, OneOf
from lanescope.units.words import duration_text

if TYPE_CHECKING:
    from lanescope.store.run import Run
    from lanescope.studies.analysis import Analysis
    from lanescope.trace.run import WatchRun

#: What is stored may lack so much of what was requested: a record's time.
_SHORT_NS = 1_000_000_000
#: What ``--export`` takes.
FORMATS = ("perfetto", "csv")
#: How pages and traces of Perfetto end.
PAGES = (".html", ".htm")
TRACES = (".pftrace", ".perfetto-trace", ".pb")
#: Reports of nsys that are no export of one.
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")


@combines(
    ONE_FORMAT,
    Excludes("--export", ("--json", "--csv", "--plots"), "writes files alone"),
    Excludes("--plots", ("--out", "--json", "--csv"), "writes pictures alone"),
    Excludes("--static", ("--json", "--csv", "--plots", "--export"), "is for the page"),
    Excludes("--out", ("--json", "--csv"), "is for files, and the others print: use > for them"),
    Needs(("--export",), ("--out",), "writes a file, or for csv a folder"),
    Excludes("--quiet", ("--json", "--csv"), "prints nothing, and the others print"),
)
def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's folder or name, 'latest', or an SQLite export of Nsight Systems."
        ),
    ] = "latest",
    out: Annotated[
        Path | None,
        option(
            InFile("--out"),
            "Where the page goes, default: into the folder of a run in the runs folder, else here; "
            "or where --export writes.",
        ),
    ] = None,
    export: Annotated[
        str | None,
        option(
            OneOf("--export", lambda: FORMATS),
            "Write a watch as 'perfetto' (a trace for ui.perfetto.dev, into the file --out) or "
            "'csv' (into the folder --out) instead of the page.",
            metavar="FORMAT",
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        option(Folder("--plots"), "Write each chart there as PNG and SVG instead of the page."),
    ] = None,
    static: Annotated[
        bool, flag("--static", "A small page without scripts, to mail: plots as pictures.")
    ] = False,
    last: Annotated[
        int | None,
        option(
            Duration("--last", 1_000_000_000, 400 * 86_400 * 10**9, "from 1s to 400d"),
            "Of a watch without an end: only so much before its newest record, or before --until, "
            "such as 10min.",
            shown="1h",
        ),
    ] = None,
    until: Annotated[
        int | None,
        option(
            Moment("--until"),
            "Of a watch without an end: up to that time of day or date and time, or so long ago, "
            "such as 03:20, 2026-11-28T03:20 or 8h.",
            shown="its newest record",
        ),
    ] = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    quiet: Annotated[bool, flag("--quiet", "Do not print which files were written.", "-q")] = False,
) -> None:
    """Write a stored run as one self-contained HTML page, or print it as JSON or CSV."""
    with contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        _report(run, out, export, plots, (last, until), static=static, json=json, csv=csv)


def _report(
    run: str,
    out: Path | None,
    export: str | None,
    plots: Path | None,
    part: tuple[int | None, int | None],
    *,
    static: bool,
    json: bool,
    csv: bool,
) -> None:
    if out is not None and export != "csv":
        File("--out", TRACES if export else PAGES)(str(out))
    if part != (None, None) and is_capture(run):
        name = "--until" if part[0] is None else "--last"
        raise InputError(f"{name} is of a watch without an end, and a capture of nsys is none")
    if _report_reproduction(run, out, others=json or csv or bool(export or plots), static=static):
        return
    if _report_analysis(run, out, plots, json=json, static=static, others=csv or bool(export)):
        return
    watch = _watch(run, out, *part, page=not (json or csv or plots or export))
    if watch is None:
        if export is not None:
            raise InputError("--export is for watches; other runs have --json and --csv")
        _report_run(run, out, plots, json=json, csv=csv, static=static)
    elif export is not None and out is not None:
        export_watch(watch[0], export, out)
    else:
        others = csv or plots is not None
        report_watch(watch[0], watch[1], json=json, static=static, others=others)


def _report_reproduction(name: str, out: Path | None, *, others: bool, static: bool) -> bool:
    """Write the page of a reproduction; False where the run is none."""
    from lanescope.cli.reproduce import write_page
    from lanescope.store.folder import find_run
    from lanescope.store.store import PAGE
    from lanescope.studies.pcie_thesis.reproduction import CHAPTERS, is_reproduction

    if is_capture(name) or not is_reproduction(folder := find_run(name)):
        return False
    if others:
        raise InputError(
            f"a reproduction has a page, and its numbers in {folder / CHAPTERS}; name one of the "
            "watches below it for other outputs"
        )
    page = out or result_path(folder, PAGE)
    numbers = page == folder / PAGE and not (folder / CHAPTERS).exists()  # it was killed
    print(write_page(folder, page, numbers=numbers, static=static)[1])
    return True


def _report_analysis(
    name: str, out: Path | None, plots: Path | None, *, json: bool, static: bool, others: bool
) -> bool:
    """Write the page, the charts or the JSON of a stored analysis; False where the run is none."""
    from lanescope.cli.analyses import print_result, write_plots
    from lanescope.store.folder import find_run
    from lanescope.studies import stored_analysis

    if is_capture(name) or (analysis := stored_analysis(folder := find_run(name))) is None:
        return False
    if others:
        raise InputError(f"'{analysis.verb}' has a page, --json and --plots; use one of these")
    if plots is not None:
        print(f"{write_plots(analysis.read(folder), plots)} files in {plots}")
    elif json:
        print_result(analysis.read(folder), json=True)
    else:
        print(_page_of(analysis, folder, out, static=static))
    return True


def _page_of(analysis: type[Analysis], folder: Path, out: Path | None, *, static: bool) -> Path:
    from lanescope.cli.analyses import write_page
    from lanescope.store.store import PAGE

    page = out or result_path(folder, PAGE)
    return write_page(analysis, folder, analysis.read(folder), page, static=static)


def result_path(folder: Path, name: str, here: str | None = None) -> Path:
    """Return `result_place`; say so where it is another folder."""
    from lanescope.store.folder import result_place

    path, elsewhere = result_place(folder, name, here)
    if elsewhere is not None and path.parent.resolve() != folder.resolve():
        print(f"note: {elsewhere}", file=sys.stderr)
    return path


def _watch(
    name: str, out: Path | None, last_ns: int | None, until_ns: int | None, *, page: bool
) -> tuple[WatchRun, Path | None] | None:
    """Return a watch and where its page goes, if it shall have one; None for other runs."""
    from lanescope.store.folder import find_run
    from lanescope.store.store import PAGE
    from lanescope.trace.nsys import read_nsys
    from lanescope.trace.store import is_watch, read_watch

    if is_capture(name):
        run, place = read_nsys(Path(name)), f"{Path(name).stem}.{PAGE}"
        return run, out or (result_path(Path(name).parent, place, place) if page else None)
    folder = find_run(name)
    if last_ns is not None or until_ns is not None:
        from lanescope.trace.segments import require_continuous

        require_continuous(folder, "--until" if last_ns is None else "--last")
    if not is_watch(folder):
        return None
    run = read_watch(folder, last_ns, until_ns)
    if until_ns is not None and run.timeline.end_ns < until_ns - _SHORT_NS:
        from lanescope.trace.segments import time_of

        newest = time_of(run.timeline.end_ns)
        print(f"note: the newest record before --until is of {newest}", file=sys.stderr)
    if last_ns is not None and (shorter := _shorter(run, last_ns, until_ns)):
        print(f"note: {shorter}", file=sys.stderr)
    return run, out or (result_path(folder, PAGE) if page else None)


def _shorter(run: WatchRun, last_ns: int, until_ns: int | None) -> str | None:
    """Return that less is stored than was requested, if it is."""
    stored_ns = run.timeline.end_ns - run.timeline.start_ns
    if stored_ns >= last_ns - _SHORT_NS:
        return None
    if until_ns is not None:
        return f"only {duration_text(stored_ns)} of that time are stored"
    return f"only the last {duration_text(stored_ns)} are stored so far"


def _report_run(
    name: str, out: Path | None, plots: Path | None, *, json: bool, csv: bool, static: bool
) -> None:
    from lanescope.cli.output import print_run
    from lanescope.codec.files import write_text
    from lanescope.store.folder import find_run
    from lanescope.store.store import PAGE, read_run

    stored = read_run(find_run(name))
    if plots is not None:
        _write_plots(stored, plots)
        return
    if json or csv:
        print_run(stored, json=json, csv=csv)
        return
    from lanescope.studies.runs.document import page_html

    assert stored.folder is not None, "it was just read from there"
    path = out or result_path(stored.folder, PAGE)
    write_text(path, page_html(stored, static=static), inner=int(out is None))
    print(path)


def _write_plots(run: Run, folder: Path) -> None:
    from lanescope.report.charts import write_charts
    from lanescope.studies.runs.document import run_plots

    paths = write_charts(run_plots(run), folder)
    if not paths:
        raise InputError("this run has nothing to plot: none of its numbers has a chart")
    print(f"{len(paths)} files in {folder}")


def is_capture(name: str) -> bool:
    """Whether a run is named that is a file of nsys and no folder."""
    from lanescope.trace.nsys_tables import is_database

    path = Path(name)
    return path.is_file() and (path.suffix in _REPORTS or is_database(path))


def report_watch(
    run: WatchRun, page: Path | None, *, json: bool, static: bool, others: bool
) -> None:
    """Write a watch's page, or print its summary as JSON.

    Raises
    ------
    InputError
        If something is asked for that watches do not have, or the page cannot be written.
    """
    import json as encoder

    from lanescope.codec.files import write_text
    from lanescope.findings.trace import evaluate_watch
    from lanescope.studies.watch_report import summary_json, watch_page_html

    if others:
        raise InputError(
            "a watch has a page, --json and --export (perfetto, csv); its columns are Parquet files"
        )
    evaluation = evaluate_watch(run)
    if json:
        content = summary_json(evaluation.summary, evaluation.findings, run.manifest.state)
        print(encoder.dumps(content, indent=2))
        return
    assert page is not None, "without --json there is a page"
    inner = int(page.parent == run.folder)
    write_text(page, watch_page_html(run, evaluation, static=static), inner)
    print(page)


def export_watch(run: WatchRun, export: str, out: Path) -> None:
    """Write a watch in another tool's format and print what was written.

    Raises
    ------
    InputError
        If it cannot be written, or a package is missing.
    """
    if export == "csv":
        from lanescope.report.watch_files import write_csv

        for path in write_csv(out, run.timeline):
            print(path)
        return
    from lanescope.report.watch_files import write_perfetto

    try:
        write_perfetto(out, run)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}; name another place") from error
    print(out)
