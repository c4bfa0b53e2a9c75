"""``lanescope bench nurma``: single loads, near and far from each other."""

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
)
from lanescope.cli.suite import BUDGET, TARGET, Common, run_benchmarks, sized
from lanescope.cli.suite_options import (
    BudgetOption,
    ListOption,
    MaxOption,
    MemoryOption,
    MinOption,
    NodeOption,
    StepsOption,
    numbers,
    size,
    words,
)


def nurma(
    smallest: MinOption = None,
    largest: MaxOption = None,
    steps: StepsOption = 1,
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="From load to load, beside 8B, 64B, 4KiB and 64KiB; default 5256B."
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory that loads stay in; default: twice the last-level cache."
        ),
    ] = None,
    memory: MemoryOption = None,
    node: NodeOption = None,
    budget: BudgetOption = BUDGET,
    target: TargetOption = TARGET,
    within: WithinOption = None,
    list_points: ListOption = False,
    machine: MachineOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    csv: CsvOption = False,
    strict: StrictOption = False,
    allow_busy: BusyOption = False,
) -> None:
    """Measure single loads of memory: strided and in random order, dependent and independent.

    By the memory's and the thread's NUMA node, kind of memory (huge pages apart), stride, and
    number of loads: --min and --max are 8 bytes for each, 80 B to 80 MB unless told otherwise.
    """
    from lanescope.experiment import Memory
    from lanescope.experiment.taruc import Benchmark, Only, Parameters

    default = Parameters().nurma
    asked = 0 if gap == "0" else size(gap)  # no gap: one load next to the other
    gap_bytes = default.gap_bytes if asked is None else asked
    shape = {"gap_bytes": gap_bytes, "block_bytes": size(block)}
    parameters = sized("nurma", smallest, largest, steps, **shape)
    only = Only(words("--memory", memory, Memory), nodes=numbers(node))
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.NURMA,), only, common)
