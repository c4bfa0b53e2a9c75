"""``lanescope bench sms``: how few SMs fill a path."""

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
    size_option,
    target_option,
)


@combines(ONE_FORMAT)
def sms(
    gpu: Annotated[list[int] | None, part_option("--gpu", "GPU to try; may be repeated.")] = None,
    size: Annotated[int, size_option("--size", "Bytes of each copy.", shown="512MiB")] = 512 << 20,
    budget: Annotated[float, budget_option("Sampling time for one kernel, at most.", "0.3")] = 0.3,
    target: Annotated[float, target_option("0.5%")] = 0.005,
    within: WithinOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Find the fewest SMs that carry 98 % of what kernels can, for each path of a GPU.

    A kernel that copies on few SMs leaves the others to compute. Tries several kernels
    on many numbers of SMs: host to GPU and back, and to and from the first peer.
    """
    from lanescope import api
    from lanescope.cli.output import progress_on_terminal, show_run

    plan = plan_of(target, budget, within)
    with progress_on_terminal() as progress:
        run = api.sms(
            gpus=gpu,
            size_bytes=size,
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict))
