"""How a run compares with another one, or with the history of its hardware, as text and code."""

from __future__ import annotations

import dataclasses
import json as encoder
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope.exit_codes import ExitCode

if TYPE_CHECKING:
    from lanescope.document.blocks import Block
    from lanescope.history.records import Record
    from lanescope.store.run import Run
    from lanescope.trace.run import WatchRun

#: Smaller effects count as none.
THRESHOLD = 0.02


def compare_runs(
    before: Run, after: Run, threshold: float, *, json: bool = False, error: bool = False
) -> ExitCode:
    """Print what changed from one run to another; return the exit code."""
    from lanescope.studies.runs.compare import changes, comparison, headline

    found = changes(before, after)
    if json:
        content = {
            "summary": headline(found, threshold),
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
        print_blocks(comparison(before, after, threshold), error=error)
    if not found:
        return ExitCode.NOT_MEASURED
    slower = any(one.is_slower(threshold) for one in found)
    return ExitCode.SLOW if slower else ExitCode.OK


def compare_watches(
    before: WatchRun, after: WatchRun, threshold: float, *, json: bool = False
) -> ExitCode:
    """Print what changed from one watch to another; return the exit code."""
    from lanescope.studies.watch_report.compare import (
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
    records: Sequence[Record],
    index: Path | None,
    threshold: float,
    *,
    json: bool = False,
    error: bool = False,
) -> ExitCode:
    """Print how runs lie in the history of their hardware; return the exit code."""
    from lanescope.history.document import against_history, comparison_blocks, comparison_headline
    from lanescope.history.index import History, default_index

    found = []
    with History(index or default_index()) as history:
        for record in records:
            found += against_history(record, history, threshold)
    if json:
        content = {
            "summary": comparison_headline(found),
            "threshold": threshold,
            "paths": [dataclasses.asdict(one) for one in found],
        }
        print(encoder.dumps(content, indent=2))
    else:
        print_blocks(comparison_blocks(found), error=error)
    if all(one.shift is None for one in found):
        return ExitCode.NOT_MEASURED
    return ExitCode.SLOW if any(one.slower for one in found) else ExitCode.OK


def baseline_named(name: str) -> Callable[[Run, bool], ExitCode]:
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
        return lambda run, error: judge_by_history(
            [record_of_run(run)], None, THRESHOLD, error=error
        )
    from lanescope.store.folders import find_run
    from lanescope.store.store import read_run

    before = read_run(find_run(name))
    return lambda run, error: compare_runs(before, run, THRESHOLD, error=error)


def print_blocks(blocks: Sequence[Block], *, error: bool = False) -> None:
    """Print blocks on the terminal, or on standard error."""
    from lanescope.cli.output import console
    from lanescope.report.blocks_text import renderables

    out = console(error=error)
    for part in renderables(blocks):
        out.print(part)
