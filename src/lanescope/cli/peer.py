"""``lanescope bench peer``: copies between GPUs, and inside each."""

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
    MinOption,
    StepsOption,
    TargetOption,
    numbers,
)


@combines(*SUITE_RULES)
def peer(
    smallest: MinOption = None,
    largest: MaxOption = None,
    steps: StepsOption = 1,
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
    """Measure copies from GPU to GPU: peer, by unified addresses, staged through the host.

    Both directions of each pair, inside each GPU, and by size.
    """
    from lanescope.experiment.taruc import Benchmark, Only

    parameters = sized("peer", smallest, largest, steps)
    only = Only(gpus=numbers(gpu))
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.PEER,), only, common)
