"""``lanescope check``: measure every path and judge it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lanescope.cli.combinations import LISTED, ONE_FORMAT, PREDICTED, Alone, combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    ExpectGpusOption,
    ExpectOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    plan_of,
    size_option,
    target_option,
)


@combines(ONE_FORMAT, PREDICTED, Alone("--list", ("--size", "--machine", "CASE"), LISTED))
def check(
    case: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="Only these cases, such as 'h2d/*'."),
    ] = None,
    list_cases: Annotated[bool, typer.Option("--list", help="List the cases and end.")] = False,
    size: Annotated[
        int,
        size_option("--size", "Bytes of one copy to, from or between GPUs.", shown="512MiB"),
    ] = 512 << 20,
    budget: Annotated[float, budget_option("Sampling time for one case, at most.", "1.0")] = 1.0,
    target: Annotated[float, target_option("0.5%")] = 0.005,
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
    from lanescope.cli.output import progress_on_terminal, show_run
    from lanescope.experiment.catalogue import CHECK_BYTES, select_cases
    from lanescope.experiment.requirements import require_fits
    from lanescope.running import resolve_machine

    resolved = resolve_machine(machine)
    if list_cases:
        require_fits(resolved, size)
        for experiment in select_cases(resolved, size, case or []):
            print(f"{experiment.name:32} {experiment.title}")
        return
    with progress_on_terminal() as progress:
        run = api.check(
            resolved,
            cases=case or [],
            size_bytes=size,
            plan=plan_of(target, budget, within),
            allow_busy=allow_busy,
            out=out,
            progress=progress,
            expected=expect,
            expected_gpus=expect_gpus,
        )
    if size != CHECK_BYTES and not resolved.gpus:
        print("note: --size has no effect: it is that of copies of GPUs", file=sys.stderr)
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict))
