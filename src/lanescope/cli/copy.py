"""``lanescope copy``: any copies at the same time."""

from __future__ import annotations

from typing import Annotated

import typer

from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    TargetOption,
    WithinOption,
    plan_of,
    require_one_format,
)


def copy(
    copies: Annotated[
        str,
        typer.Argument(
            metavar="COPIES", help="Such as 'h0 -> g0 @ce, g1 -> h0 @sm:16 64MiB, g0 <-> g1'."
        ),
    ],
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Bytes of a copy that names none.")
    ] = "512MiB",
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Samples of each copy; default: until the target is reached."
        ),
    ] = None,
    budget: Annotated[float, typer.Option(metavar="SECONDS", help="Sampling time, at most.")] = 1.0,
    target: TargetOption = "0.5%",
    within: WithinOption = None,
    machine: MachineOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Measure copies that run at the same time, each and in sum, against what links allow.

    A copy is 'FROM -> TO' with options: a size (64MiB), an engine (@ce, @sm:16 for a
    kernel on 16 SMs, @cpu:4 for host threads), 'by g1' for who does it, 'on 0-3' for
    CPUs. h0.pageable names a kind of memory, '<->' copies both ways, '3x h0 -> g0'
    three times at once.
    """
    from lanescope import api
    from lanescope.cli.output import exit_code, progress_on_terminal, show_run
    from lanescope.experiment.sizes import parse_size

    require_one_format(json, csv)
    plan = plan_of(target, budget, within, samples=samples)
    with progress_on_terminal() as progress:
        run = api.copy(
            copies,
            machine,
            size_bytes=parse_size(size),
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    show_run(run, json=json, csv=csv, strict=strict)
    raise typer.Exit(exit_code(run, strict=strict))
