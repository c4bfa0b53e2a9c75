"""``lanescope bench sweep``: copies of many sizes."""

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


def sweep(
    smallest: Annotated[str, typer.Option("--min", metavar="SIZE", help="Smallest copy.")] = "16B",
    largest: Annotated[
        str | None,
        typer.Option("--max", metavar="SIZE", help="Largest copy; default 2GiB or what fits."),
    ] = None,
    gpu: Annotated[
        list[int] | None, typer.Option(metavar="N", help="GPU to sweep; may be repeated.")
    ] = None,
    memory: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Host memory: pinned or pageable; default both."),
    ] = None,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Sampling time for one size, at most.")
    ] = 0.2,
    target: TargetOption = "0.5%",
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
    from lanescope.cli.output import exit_code, progress_on_terminal, show_run
    from lanescope.experiment.requirements import largest_sweep_bytes
    from lanescope.running import resolve_machine

    require_one_format(json, csv)
    plan = plan_of(target, budget, within)
    memories = _memories(memory)
    resolved = resolve_machine(machine)
    with progress_on_terminal() as progress:
        run = api.sweep(
            resolved,
            sizes=_sizes(smallest, largest, largest_sweep_bytes(resolved, resolved.gpus)),
            gpus=gpu,
            memories=memories,
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    show_run(run, json=json, csv=csv, strict=strict)
    raise typer.Exit(exit_code(run, strict=strict))


def _sizes(smallest: str, largest: str | None, most: int) -> tuple[int, ...]:
    from lanescope.errors import InputError
    from lanescope.experiment.sizes import doubling_sizes, parse_size

    first = parse_size(smallest)
    last = most if largest is None else parse_size(largest)
    if last > most:
        raise InputError(
            f"a copy of {largest} does not fit: at most {most >> 20} MiB, a quarter of the "
            "smallest memory on the way; give a smaller --max"
        )
    return doubling_sizes(first, last)


def _memories(names: list[str] | None) -> list:  # type: ignore[type-arg]  # Memory, imported late
    from lanescope.errors import InputError
    from lanescope.experiment import Memory

    kinds = {str(m): m for m in (Memory.PINNED, Memory.PAGEABLE)}
    for name in names or []:
        if name not in kinds:
            raise InputError(
                f"--memory {name!r} is not a kind of host memory; use {' or '.join(kinds)}"
            )
    return [kinds[name] for name in names] if names else list(kinds.values())
