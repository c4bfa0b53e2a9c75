"""``lanescope report``: the page of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import CsvOption, JsonOption, require_one_format
from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.run.run import Run


def report(
    run: Annotated[str, typer.Argument(help="A run's folder or name, or 'latest'.")] = "latest",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="Where to; default: into the run's folder."
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(
            "--plots",
            metavar="DIR",
            help="Write each chart of a suite there as PNG and SVG instead of the page.",
        ),
    ] = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Write a stored run as one self-contained HTML page, or print it as JSON or CSV."""
    from lanescope.cli.output import print_run, write_text
    from lanescope.run.folders import find_run
    from lanescope.run.store import PAGE, read_run
    from lanescope.watch.store import is_watch

    require_one_format(json, csv)
    if out is not None and (json or csv):
        raise InputError("--out names the page; --json and --csv print: send them there with >")
    if plots is not None and (json or csv or out):
        raise InputError("--plots writes pictures alone; leave out --out, --json and --csv")
    folder = find_run(run)
    if is_watch(folder):
        _report_watch(folder, out, json=json, others=csv or plots is not None)
        return
    stored = read_run(folder)
    if plots is not None:
        _write_plots(stored, plots)
        return
    if json or csv:
        print_run(stored, json=json, csv=csv)
        return
    from lanescope.report.page import page_html

    assert stored.folder is not None, "it was just read from there"
    path = out or stored.folder / PAGE
    write_text(path, page_html(stored))
    print(path)


def _report_watch(folder: Path, out: Path | None, *, json: bool, others: bool) -> None:
    import json as encoder

    from lanescope.cli.output import write_text
    from lanescope.report.page_watch import watch_page_html
    from lanescope.report.summary_html import summary_html
    from lanescope.report.summary_json import summary_json
    from lanescope.run.store import PAGE
    from lanescope.watch.store import read_watch
    from lanescope.watch.told import tell

    if others:
        raise InputError("a watch has a page and --json; its columns are Parquet files")
    stored = read_watch(folder)
    told = tell(stored)
    if json:
        print(encoder.dumps(summary_json(told.summary, told.findings), indent=2))
        return
    path = out or folder / PAGE
    write_text(path, watch_page_html(stored, summary_html(told.summary, told.findings)))
    print(path)


def _write_plots(run: Run, folder: Path) -> None:
    from lanescope.report.chart_files import write_charts

    paths = write_charts(run, folder)
    if not paths:
        raise InputError(
            "this run has no charts to write; runs of overhead, host, hostdev, peer, nurma, "
            "contention and of a whole suite have"
        )
    print(f"{len(paths)} files in {folder}")
