"""``lanescope check``: measure every path and judge it."""

from __future__ import annotations

from typing import Annotated

import typer

from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    ExpectGpusOption,
    ExpectOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    TargetOption,
    WithinOption,
    plan_of,
    require_one_format,
)


def check(
    case: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="Only these cases, such as 'h2d/*'."),
    ] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and end.")] = False,
    size: Annotated[
        str,
        typer.Option("--size", metavar="SIZE", help="Bytes of one copy to, from or between GPUs."),
    ] = "512MiB",
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Sampling time for one case, at most.")
    ] = 1.0,
    target: TargetOption = "0.5%",
    within: WithinOption = None,
    machine: MachineOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    expect: ExpectOption = None,
    expect_gpus: ExpectGpusOption = None,
    allow_busy: BusyOption = False,
) -> None:
    """Measure every path of this machine and say whether it is healthy.

    Prints a table and writes a page. Exit code: 0 all paths are well, 1 a path is
    slower than it should be, 2 bad input, 3 not everything measured and --strict (5 where
    only other processes stood in the way), 4 the machine is not as --expect says.
    """
    from lanescope import api
    from lanescope.cli.output import exit_code, progress_on_terminal, show_run
    from lanescope.experiment.sizes import parse_size

    require_one_format(json, csv)
    size_bytes = parse_size(size)
    plan = plan_of(target, budget, within)
    if list_cases:
        from lanescope.experiment.catalogue import select_cases
        from lanescope.running import resolve_machine

        for experiment in select_cases(resolve_machine(machine), size_bytes, case or []):
            print(f"{experiment.name:32} {experiment.title}")
        return
    with progress_on_terminal() as progress:
        run = api.check(
            machine,
            cases=case or [],
            size_bytes=size_bytes,
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
            expected=expect,
            expected_gpus=expect_gpus,
        )
    show_run(run, json=json, csv=csv, strict=strict)
    raise typer.Exit(exit_code(run, strict=strict))
