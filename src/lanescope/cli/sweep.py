"""``lanescope bench sweep``: copies of many sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from lanescope.cli.combinations import ONE_FORMAT, PREDICTED, combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    WithinOption,
    budget_option,
    option,
    part_option,
    plan_of,
    size_option,
    target_option,
)
from lanescope.units.values import OneOf

_MEMORIES = ("pinned", "pageable")


@combines(ONE_FORMAT, PREDICTED)
def sweep(
    smallest: Annotated[int, size_option("--min", "Smallest copy.", shown="16B")] = 16,
    largest: Annotated[
        int | None, size_option("--max", "Largest copy; default 2GiB or what fits.")
    ] = None,
    gpu: Annotated[list[int] | None, part_option("--gpu", "GPU to sweep; may be repeated.")] = None,
    memory: Annotated[
        list[str] | None,
        option(
            OneOf("--memory", lambda: _MEMORIES),
            metavar="KIND",
            help="Host memory: pinned or pageable; default both.",
        ),
    ] = None,
    budget: Annotated[float, budget_option("Sampling time for one size, at most.", "0.2")] = 0.2,
    target: Annotated[float, target_option("0.5%")] = 0.005,
    within: WithinOption = None,
    machine: MachineOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Sweep copy sizes between host and GPU: delay, plateau, size that fills the link.

    Sizes double. Pinned memory is timed by GPU events and by the host's clock,
    pageable memory by the host's clock.
    """
    from lanescope import api
    from lanescope.cli.output import progress_on_terminal, show_run
    from lanescope.experiment import Memory
    from lanescope.experiment.requirements import largest_sweep_bytes
    from lanescope.running import resolve_machine

    plan = plan_of(target, budget, within)
    resolved = resolve_machine(machine)
    with progress_on_terminal() as progress:
        run = api.sweep(
            resolved,
            sizes=_sizes(smallest, largest, largest_sweep_bytes(resolved, resolved.gpus)),
            gpus=gpu,
            memories=[Memory(kind) for kind in memory or _MEMORIES],
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict))


def _sizes(smallest: int, largest: int | None, most: int) -> tuple[int, ...]:
    from lanescope.errors import InputError
    from lanescope.experiment.sizes import doubling_sizes, size_text

    last = most if largest is None else largest
    if max(smallest, last) > most:
        option, size = ("--max", last) if last > most else ("--min", smallest)
        raise InputError(
            f"a copy of {size_text(size)} does not fit: at most {size_text(most)}, a quarter of "
            f"the smallest memory on the way; give a smaller {option}"
        )
    return doubling_sizes(smallest, last)
