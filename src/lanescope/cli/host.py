"""``lanescope bench host``: copies from host memory to host memory by one thread."""

from __future__ import annotations

from enum import StrEnum
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
    option,
)
from lanescope.cli.suite import SUITE_RULES, Common, run_benchmarks, sized
from lanescope.cli.suite_options import (
    BUDGET,
    TARGET,
    BudgetOption,
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
from lanescope.units.values import OneOf


def _caches() -> type[StrEnum]:
    from lanescope.experiment import Caches

    return Caches


@combines(*SUITE_RULES)
def host(
    smallest: MinOption = None,
    largest: MaxOption = None,
    steps: StepsOption = 1,
    memory: MemoryOption = None,
    pattern: PatternOption = None,
    caches: Annotated[
        list[str] | None,
        option(
            OneOf("--caches", _caches),
            metavar="STATE",
            help="warm or flushed; default both where it matters.",
        ),
    ] = None,
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
    """Measure copies of blocks by one thread between NUMA nodes.

    By source, destination and the thread's node, kind of memory, access pattern and state of
    the caches, and size: 10 B to 1.5 GB unless told otherwise.
    """
    from lanescope.experiment import Caches, Memory, Pattern
    from lanescope.experiment.taruc import Benchmark, Only

    parameters = sized("host", smallest, largest, steps)
    only = Only(
        words(memory, Memory),
        words(pattern, Pattern),
        words(caches, Caches),
        numbers(node),
    )
    common = Common(
        machine, out, budget, target, within, list_points, json, csv, strict, allow_busy
    )
    run_benchmarks(parameters, (Benchmark.HOST,), only, common)
