"""``lanescope bench sms``: how few SMs fill a path."""

from __future__ import annotations

from typing import Annotated

import typer

from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    OutOption,
    StrictOption,
    TargetOption,
    WithinOption,
    plan_of,
    require_one_format,
)


def sms(
    gpu: Annotated[
        list[int] | None, typer.Option(metavar="N", help="GPU to try; may be repeated.")
    ] = None,
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Bytes of each copy.")
    ] = "512MiB",
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Sampling time for one kernel, at most.")
    ] = 0.3,
    target: TargetOption = "0.5%",
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
    from lanescope.cli.output import exit_code, progress_on_terminal, show_run
    from lanescope.experiment.sizes import parse_size

    require_one_format(json, csv)
    plan = plan_of(target, budget, within)
    with progress_on_terminal() as progress:
        run = api.sms(
            gpus=gpu,
            size_bytes=parse_size(size),
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    show_run(run, json=json, csv=csv, strict=strict)
    raise typer.Exit(exit_code(run, strict=strict))
