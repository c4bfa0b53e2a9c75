"""How a run compares with another one, or with the history of its hardware, as text and code."""

from __future__ import annotations

import dataclasses
import json as encoder
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from lanescope.errors import ExitCode

if TYPE_CHECKING:
    from lanescope.document.blocks import Block
    from lanescope.history.document import Comparison
    from lanescope.history.records import Record
    from lanescope.store.run import Against, Run
    from lanescope.studies.runs.compare import Change
    from lanescope.trace.run import WatchRun

#: Smaller effects count as none.
THRESHOLD = 0.02


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
) -> tuple[Against, Sequence[Block], Sequence[Change]]:
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
    records: Sequence[Record], index: Path | None, threshold: float, *, json: bool = False
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
    records: Sequence[Record], index: Path | None, threshold: float
) -> tuple[Against, Sequence[Block], Sequence[Comparison]]:
    from lanescope.history.document import against_history, comparison_blocks, comparison_headline
    from lanescope.history.index import History, default_index
    from lanescope.store.run import Against

    found: list[Comparison] = []
    with History(index or default_index()) as history:
        for record in records:
            found += against_history(record, history, threshold)
    code = ExitCode.SLOW if any(one.slower for one in found) else ExitCode.OK
    if all(one.shift is None for one in found):
        code = ExitCode.NOT_MEASURED
    return Against(code, comparison_headline(found)), comparison_blocks(found), found


#: Compares a run: what it comes to, and what is printed of it.
Compare: TypeAlias = "Callable[[Run], tuple[Against, Sequence[Block]]]"


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
    from lanescope.store.folders import find_run
    from lanescope.store.store import read_run

    before = read_run(find_run(name))
    return lambda run: _against_run(before, run, THRESHOLD)[:2]


def print_blocks(blocks: Sequence[Block], *, error: bool = False) -> None:
    """Print blocks on the terminal, or on standard error."""
    from lanescope.cli.output import console
    from lanescope.report.terminal import renderables

    out = console(error=error)
    for part in renderables(blocks):
        out.print(part)
