"""``lanescope bench small``: many small copies, and how best to hand them over."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

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
    option,
    part_option,
    plan_of,
    size_option,
    target_option,
)
from lanescope.units.values import Numbers, OneOf

#: Larger ones are what 'bench sweep' takes.
_LARGEST_BYTES = 4 << 20


def _submissions() -> type[StrEnum]:
    from lanescope.experiment import Submission

    return Submission


@combines(ONE_FORMAT)
def small(
    smallest: Annotated[
        int, size_option("--min", "Smallest piece.", shown="4B", most=_LARGEST_BYTES)
    ] = 4,
    largest: Annotated[
        int,
        size_option(
            "--max", "Largest piece; sizes go up by four.", shown="4MiB", most=_LARGEST_BYTES
        ),
    ] = _LARGEST_BYTES,
    counts: Annotated[
        Any,
        option(
            Numbers("--counts", 1, 4096, "1,64,4096"),
            metavar="N,N,...",
            help="Numbers of pieces, up to 4096.",
            shown="1,8,64,512,4096",
        ),
    ] = (1, 8, 64, 512, 4096),
    method: Annotated[
        list[str] | None,
        option(
            OneOf("--method", _submissions),
            metavar="NAME",
            help="single, batch, graph, kernel or mapped; may be repeated; default all.",
        ),
    ] = None,
    gpu: Annotated[list[int] | None, part_option("--gpu", "GPU to map; may be repeated.")] = None,
    budget: Annotated[float, budget_option("Sampling time for one cell, at most.", "0.05")] = 0.05,
    target: Annotated[float, target_option("1%")] = 0.01,
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
    from lanescope.cli.output import progress_on_terminal, show_run
    from lanescope.experiment import Submission
    from lanescope.experiment.small import stepped_sizes

    sizes = stepped_sizes(smallest, largest)
    plan = plan_of(target, budget, within)
    with progress_on_terminal() as progress:
        run = api.small(
            sizes=sizes,
            counts=counts,
            methods=[Submission(name) for name in method] if method else list(Submission),
            gpus=gpu,
            plan=plan,
            allow_busy=allow_busy,
            out=out,
            progress=progress,
        )
    raise typer.Exit(show_run(run, json=json, csv=csv, strict=strict))
