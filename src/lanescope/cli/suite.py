"""``lanescope bench --params``: a suite by a parameter file, which may go on with a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lanescope.cli.options import plan_of
from lanescope.cli.studies import carry_out


def run_suite(
    parameters: str,
    budget: float | None,
    target: float | None,
    within: int | None,
    **common: Any,
) -> None:
    """Run a suite, or list its points; ends with an exit code. `common` as of `carry_out`."""
    from lanescope.studies.taruc import PLAN, Suite, parameter_file

    plan = plan_of(target or PLAN.target, budget or PLAN.budget_seconds, within)
    out: Path | None = common["out"]
    if common["resume"] and not common["list_them"]:
        _note_new(out)
    carry_out(Suite(parameter_file(parameters)), plan, **common)


def _note_new(folder: Path | None) -> None:
    """Say where --resume finds no run, as it may be a slip of the pen."""
    from lanescope.run.folder import MANIFEST

    if folder is not None and not (folder / MANIFEST).is_file():
        print(f"note: there is no run in {folder} to go on with: it is begun", file=sys.stderr)
