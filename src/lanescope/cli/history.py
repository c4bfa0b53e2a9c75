"""``lanescope history``: what the same hardware carried before, and since when it changed."""

from __future__ import annotations

import dataclasses
import json as encoder
import sys
from typing import Annotated

import typer

from lanescope.cli.options import GrowingIndexOption, IndexOption, JsonOption, option
from lanescope.cli.output import print_blocks
from lanescope.errors import ExitCode, InputError
from lanescope.units.values import Percent

AboutArgument = Annotated[
    str,
    typer.Argument(
        metavar="[TEXT]", help="Only what has this in its host, path, or GPU's UUID, slot or model."
    ),
]
ThresholdOption = Annotated[
    float, option(Percent("--threshold"), "Smaller effects count as none.", shown="2%")
]


def add(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs by folder or name, checks of fleets, or folders that hold some; default: "
            "the runs folder.",
        ),
    ] = None,
    index: GrowingIndexOption = None,
) -> None:
    """Add stored runs to the history; what is there already is not counted twice."""
    from lanescope.fleet.folder import folders_of, records_of
    from lanescope.history.index import History, default_index

    new = known = 0
    skipped: list[str] = []
    folders = folders_of(runs or [])
    with History(index or default_index(), create=True) as history:
        for folder in folders:
            try:
                records = records_of(folder)
            except InputError as error:
                if runs and [str(folder)] == runs:
                    raise
                skipped.append(str(error))
                continue
            for record in records:
                if history.add(record):
                    new += 1
                else:
                    known += 1
        print(f"{new} new, {known} known, {len(history)} in {history.path}")
    for sentence in skipped[:5]:
        print(f"skipped: {sentence}", file=sys.stderr)
    if len(skipped) > 5:
        print(f"skipped: {len(skipped) - 5} more", file=sys.stderr)


def show(about: AboutArgument = "", index: IndexOption = None, json: JsonOption = False) -> None:
    """Show each path of each part over its runs: median, scatter, and the newest value."""
    from lanescope.history.document import concerns, devices_text, series_blocks
    from lanescope.history.index import History, default_index

    with History(index or default_index()) as history:
        shown = [points for points in history.series() if concerns(points[-1], about)]
    if not shown:
        raise InputError(_nothing(about))
    if json:
        content = [
            {
                "series": points[0].observation.series,
                "label": points[-1].observation.label,
                "where": devices_text(points[-1]),
                "unit": points[-1].observation.unit,
                "runs": [
                    {
                        "run": one.run,
                        "began": one.began,
                        "value": one.observation.value,
                        "half_width": one.observation.half_width,
                        "software": one.software,
                    }
                    for one in points
                ],
            }
            for points in shown
        ]
        print(encoder.dumps(content, indent=2))
        return
    print_blocks(series_blocks(shown, 0.02))


def changes(
    about: AboutArgument = "",
    threshold: ThresholdOption = 0.02,
    index: IndexOption = None,
    json: JsonOption = False,
) -> None:
    """Say which paths changed, since when, and what else changed at that time.

    Exit code: 0 no path is slower now than it was, 1 a path is, 2 bad input, 3 no path has the four
    runs that it takes.
    """
    from lanescope.history.document import changes as found_in
    from lanescope.history.document import changes_blocks, changes_headline, concerns
    from lanescope.history.index import LEAST_HISTORY, History, default_index

    with History(index or default_index()) as history:
        series = [points for points in history.series() if concerns(points[-1], about)]
        runs = len({point.run for points in series for point in points})
    if not series:
        raise InputError(_nothing(about))
    found = found_in(series, threshold)
    judged = sum(len(points) >= LEAST_HISTORY for points in series)
    if json:
        print(encoder.dumps([dataclasses.asdict(one) for one in found], indent=2))
        if not judged:
            print(changes_headline(found, judged, len(series), runs), file=sys.stderr)
    else:
        print_blocks(changes_blocks(found, judged, len(series), runs))
    if not judged:
        raise typer.Exit(ExitCode.NOT_MEASURED)
    slower = any(one.newest and one.effect < 0 for one in found)
    raise typer.Exit(ExitCode.SLOW if slower else ExitCode.OK)


def _nothing(about: str) -> str:
    what = f"with {about!r} in its host, path or GPU" if about else "at all"
    return f"the history has no path {what}; 'lanescope history add' adds runs"
