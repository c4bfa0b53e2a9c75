"""A run that measures the cases and keeps each as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from lanescope._version import __version__
from lanescope.grid.profiles import ocean
from lanescope.machine import Machine
from lanescope.model.overlap.methods import Method
from lanescope.model.transfer.parameters import LinkParameters
from lanescope.model.transfer.stored import machine_key
from lanescope.model.validation.cases import CASES
from lanescope.model.validation.measured import MeasuredCase, Validation, save
from lanescope.model.validation.measuring import (
    BUDGET,
    GridBench,
    measure_again,
    measure_cases,
    require_gpu,
)
from lanescope.run.folders import require_new

#: Told what is measured next, how much is done, and how much there is.
Progress = Callable[[str, int, int], None]

_SEED = 0


def record(
    machine: Machine,
    gpu: int,
    sides: tuple[int, int, int],
    parameters: LinkParameters,
    folder: Path,
    *,
    budget_seconds: float = BUDGET,
    progress: Progress | None = None,
) -> Validation:
    """Measure all cases, and write the run's file again with every method that is done.

    When interrupted, what was measured stays in the folder before the interruption goes its way.

    Raises
    ------
    InputError
        If the GPU is not there, or the folder cannot be written.
    NotMeasuredError
        If there is no room for the grid, or the GPU does not do it.
    """
    require_gpu(machine, gpu)
    require_new(folder)
    tell = progress or (lambda *_: None)
    found = Validation(
        gpu=machine.gpu(gpu).name,
        grid=sides,
        seed=_SEED,
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        tool_version=__version__,
        finished=False,
        cases=(),
        machine_key=machine_key(machine, gpu),
        parameters=parameters,
    )
    total = 2 * len(CASES) * len(Method)
    tell("an ocean", 0, total)
    bench = GridBench.made(machine, gpu, ocean(*sides, seed=_SEED))
    done: dict[str, MeasuredCase] = {}
    for number, case in enumerate(_measured(bench, done, budget_seconds), start=1):
        done[case.name] = case
        found = replace(found, cases=tuple(done.values()), finished=number == total)
        save(found, folder)
        tell(case.name, number, total)
    return found


def _measured(
    bench: GridBench, done: dict[str, MeasuredCase], budget_seconds: float
) -> Iterator[MeasuredCase]:
    """Measure all cases, and once all are in `done`, time them again."""
    yield from measure_cases(bench, CASES, budget_seconds)
    yield from measure_again(bench, tuple(done.values()), budget_seconds)
