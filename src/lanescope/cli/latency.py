"""``lanescope bench latency``: loads, calls and round trips, alone and under load."""

from __future__ import annotations

from typing import Annotated

import typer

from lanescope.cli.combinations import ONE_FORMAT, combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    part_option,
    plan_of,
    target_option,
)


@combines(ONE_FORMAT)
def latency(
    gpu: Annotated[
        list[int] | None, part_option("--gpu", "GPU to measure; may be repeated.")
    ] = None,
    budget: Annotated[float, budget_option("Sampling time for one latency, at most.", "0.5")] = 0.5,
    target: Annotated[float, target_option("0.5%")] = 0.005,
    within: WithinOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Measure latencies of a GPU: loads by memory, launches, small copies, round trips.

    Loads and small copies are measured on an idle link and while copies fill it in
    the same and in the opposite direction.
    """
    from lanescope import api
    from lanescope.cli.output import progress_on_terminal, show_run

    plan = plan_of(target, budget, within)
    with progress_on_terminal() as progress:
        run = api.latency(gpus=gpu, plan=plan, allow_busy=allow_busy, out=out, progress=progress)
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict))
