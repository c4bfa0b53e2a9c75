"""``lanescope bench overhead``: what it costs to ask for memory, to touch it, to give it back."""

from __future__ import annotations

from lanescope.cli.combinations import combines
from lanescope.cli.options import (
    BusyOption,
    CsvOption,
    JsonOption,
    MachineOption,
    OutOption,
    StrictOption,
    WithinOption,
)
from lanescope.cli.suite import SUITE_RULES, Common, run_benchmarks, sized
from lanescope.cli.suite_options import (
    BUDGET,
    TARGET,
    BudgetOption,
    GpuOption,
    ListOption,
    MaxOption,
    MemoryOption,
    MinOption,
    NodeOption,
    StepsOption,
    TargetOption,
    numbers,
    words,
)


@combines(*SUITE_RULES)
def overhead(
    smallest: MinOption = None,
    largest: MaxOption = None,
    steps: StepsOption = 1,
    memory: MemoryOption = None,
    node: NodeOption = None,
    gpu: GpuOption = None,
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
    """Measure what allocating, first touching and releasing memory costs.

    By kind of memory, the memory's NUMA node or GPU, the node of the thread, and size: 100 B
    to 1.5 GB unless told otherwise.
    """
    from lanescope.experiment import Memory
    from lanescope.experiment.taruc import Benchmark, Only

    parameters = sized("overhead", smallest, largest, steps)
    only = Only(words(memory, Memory), nodes=numbers(node), gpus=numbers(gpu))
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.OVERHEAD,), only, common)
