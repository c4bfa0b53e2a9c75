"""``lanescope bench contention``: many threads and copies at once."""

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
from lanescope.cli.suite import SUITE_RULES, Common, run_benchmarks
from lanescope.cli.suite_options import (
    BUDGET,
    TARGET,
    BudgetOption,
    GpuOption,
    ListOption,
    NodeOption,
    TargetOption,
    numbers,
)


@combines(*SUITE_RULES)
def contention(
    array: Annotated[
        int | None,
        size_option(
            "--array",
            "Array of each thread; default: all together four times the caches.",
            least=8,
        ),
    ] = None,
    copy: Annotated[int | None, size_option("--copy", "Copy of each stream; default 64MB.")] = None,
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
    """Measure what many cost each other: at memory channels, between sockets, over PCIe.

    Threads from 1 to twice the cores on one node and all; threads on another node's memory,
    each way and both; GPUs alone, in pairs and all, from near and far memory, 1 to 4 streams.
    """
    from dataclasses import replace

    from lanescope.experiment.taruc import Benchmark, Only, Parameters

    default = Parameters()
    section = replace(
        default.contention,
        memory_bytes=array,
        socket_bytes=array,
        pcie_bytes=copy or default.contention.pcie_bytes,
    )
    parameters = replace(default, tag="contention", contention=section)
    only = Only(nodes=numbers(node), gpus=numbers(gpu))
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.CONTENTION,), only, common)
