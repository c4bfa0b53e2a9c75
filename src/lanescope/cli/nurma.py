"""``lanescope bench nurma``: single loads, near and far from each other."""

from __future__ import annotations

from typing import Annotated

from lanescope.cli.combinations import combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    WithinOption,
    size_option,
)
from lanescope.cli.suite import SUITE_RULES, Common, run_benchmarks, sized
from lanescope.cli.suite_options import (
    BUDGET,
    TARGET,
    BudgetOption,
    ListOption,
    MemoryOption,
    NodeOption,
    StepsOption,
    TargetOption,
    numbers,
    words,
)


@combines(*SUITE_RULES)
def nurma(
    smallest: Annotated[int | None, size_option("--min", "Smallest size.", least=8)] = None,
    largest: Annotated[int | None, size_option("--max", "Largest size.", least=8)] = None,
    steps: StepsOption = 1,
    gap: Annotated[
        int | None,
        size_option(
            "--gap",
            "From load to load, beside 8B, 64B, 4KiB and 64KiB; default 5256B.",
            least=8,
            multiple=8,
        ),
    ] = None,
    block: Annotated[
        int | None,
        size_option(
            "--block", "Memory that loads stay in; default: twice the last-level cache.", least=8
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

    shape = {"gap_bytes": gap or Parameters().nurma.gap_bytes, "block_bytes": block}
    parameters = sized("nurma", smallest, largest, steps, **shape)
    only = Only(words(memory, Memory), nodes=numbers(node))
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.NURMA,), only, common)
