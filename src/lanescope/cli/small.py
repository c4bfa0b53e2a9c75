"""``lanescope bench small``: many small copies, and how best to hand them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from lanescope.experiment import Submission


def small(
    smallest: Annotated[str, typer.Option("--min", metavar="SIZE", help="Smallest piece.")] = "4B",
    largest: Annotated[
        str, typer.Option("--max", metavar="SIZE", help="Largest piece; sizes go up by four.")
    ] = "4MiB",
    counts: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of pieces, up to 4096.")
    ] = "1,8,64,512,4096",
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="single, batch, graph, kernel or mapped; may be repeated; default all.",
        ),
    ] = None,
    gpu: Annotated[
        list[int] | None, typer.Option(metavar="N", help="GPU to map; may be repeated.")
    ] = None,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Sampling time for one cell, at most.")
    ] = 0.05,
    target: TargetOption = "1%",
    within: WithinOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Map small copies between host and GPU: which way to hand them over is the fastest.

    Every size with every count, each way, from and to pinned memory, by the host's
    clock. Cells of more than 256 MiB are left out.
    """
    from lanescope import api
    from lanescope.cli.output import exit_code, progress_on_terminal, show_run
    from lanescope.experiment.sizes import parse_size
    from lanescope.experiment.small import stepped_sizes

    require_one_format(json, csv)
    sizes = stepped_sizes(parse_size(smallest), parse_size(largest))
    numbers, methods = _counts(counts), _methods(method)
    plan = plan_of(target, budget, within)
    with progress_on_terminal() as progress:
        run = api.small(
            sizes=sizes,
            counts=numbers,
            methods=methods,
            gpus=gpu,
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    show_run(run, json=json, csv=csv, strict=strict)
    raise typer.Exit(exit_code(run, strict=strict))


def _counts(text: str) -> tuple[int, ...]:
    from lanescope.errors import InputError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--counts {text!r} is not a list of numbers; write for example 1,64,4096"
        ) from None


def _methods(names: list[str] | None) -> tuple[Submission, ...]:
    from lanescope.errors import InputError
    from lanescope.experiment import Submission

    known = {str(m): m for m in Submission}
    for name in names or []:
        if name not in known:
            raise InputError(f"--method {name!r} is not known; use one of {', '.join(known)}")
    return tuple(known[name] for name in names) if names else tuple(Submission)
