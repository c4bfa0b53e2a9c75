"""What ``lanescope report`` does with a watch: its page, its summary, its exports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.trace.run import WatchRun

#: What ``--export`` takes.
FORMATS = ("perfetto", "csv")
#: How pages and traces of Perfetto end.
PAGES = (".html", ".htm")
TRACES = (".pftrace", ".perfetto-trace", ".pb")
#: Reports of nsys that are no export of one.
_REPORTS = (".nsys-rep", ".qdrep", ".qdstrm")


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

    from lanescope.codec.atomic import write_text
    from lanescope.findings.trace.evaluate import evaluate_watch
    from lanescope.studies.watch_report.document import watch_page_html
    from lanescope.studies.watch_report.values import summary_json

    if others:
        raise InputError(
            "a watch has a page, --json and --export (perfetto, csv); its columns are Parquet files"
        )
    evaluation = evaluate_watch(run)
    if json:
        print(encoder.dumps(summary_json(evaluation.summary, evaluation.findings), indent=2))
        return
    assert page is not None, "without --json there is a page"
    write_text(page, watch_page_html(run, evaluation, static=static))
    print(page)


def export_watch(run: WatchRun, export: str, out: Path) -> None:
    """Write a watch in another tool's format and print what was written.

    Raises
    ------
    InputError
        If it cannot be written, or a package is missing.
    """
    if export == "csv":
        from lanescope.report.watch_csv import write_csv

        for path in write_csv(out, run.timeline):
            print(path)
        return
    from lanescope.report.perfetto import write_perfetto

    try:
        write_perfetto(out, run)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror}; name another place") from error
    print(out)
