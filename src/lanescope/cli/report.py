"""``lanescope report``: the page of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanescope.cli.options import CsvOption, JsonOption, require_one_format
from lanescope.errors import InputError


def report(
    run: Annotated[str, typer.Argument(help="A run's folder or name, or 'latest'.")] = "latest",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="Where to; default: into the run's folder."
        ),
    ] = None,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Write a stored run as one self-contained HTML page, or print it as JSON or CSV."""
    from lanescope.cli.output import print_run, write_text
    from lanescope.run.folders import find_run
    from lanescope.run.store import PAGE, read_run

    require_one_format(json, csv)
    if out is not None and (json or csv):
        raise InputError("--out names the page; --json and --csv print: send them there with >")
    stored = read_run(find_run(run))
    if json or csv:
        print_run(stored, json=json, csv=csv)
        return
    from lanescope.report.page import page_html

    assert stored.folder is not None, "it was just read from there"
    path = out or stored.folder / PAGE
    write_text(path, page_html(stored))
    print(path)
