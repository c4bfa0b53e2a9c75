"""``lanescope bench hostdev``: copies between host memory and GPUs."""

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
    PatternOption,
    StepsOption,
    TargetOption,
    numbers,
    words,
)


@combines(*SUITE_RULES)
def hostdev(
    smallest: MinOption = None,
    largest: MaxOption = None,
    steps: StepsOption = 1,
    memory: MemoryOption = None,
    pattern: PatternOption = None,
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
    """Measure copies of blocks between host memory and GPUs, each way.

    By GPU, the memory's and the thread's node, kind of memory, access pattern and size, by a
    thread that waits (sync) and by events on the GPU (async).
    """
    from lanescope.experiment import Memory, Pattern
    from lanescope.experiment.taruc import Benchmark, Only

    parameters = sized("hostdev", smallest, largest, steps)
    only = Only(
        words(memory, Memory),
        words(pattern, Pattern),
        nodes=numbers(node),
        gpus=numbers(gpu),
    )
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.HOSTDEV,), only, common)
