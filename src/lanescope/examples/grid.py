"""The kernels of an ocean model as an example: run, compared with NumPy, and timed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
import typer

from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.prediction.workload import Method
    from lanescope.studies.ocean.case import GridCase
    from lanescope.studies.ocean.profiles import OceanGrid
    from lanescope.studies.ocean.reference import Array

_Choice = TypeVar("_Choice", bound=StrEnum)

_SIZE = "96x64x42"
#: Parts that a grid is cut into where nobody says how many, and for how long runs go on.
_STREAMS, _GPU_SECONDS = 8, 0.3


def grid(
    kernel: Annotated[
        str, typer.Argument(metavar="KERNEL", help="state, buoydiff, axpy or convolution.")
    ],
    cpu: Annotated[bool, typer.Option("--cpu", help="Run on this machine's CPUs.")] = False,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="NAME",
            help="Run on a GPU: explicit, streams, implicit, hybrid or pageable.",
        ),
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(
            "--streams",
            min=1,
            metavar="N",
            help="Of streams and hybrid; default 8, or fewer levels.",
        ),
    ] = None,
    gpu: Annotated[
        int | None, typer.Option("--gpu", min=0, metavar="N", help="GPU of --version; default 0.")
    ] = None,
    equation: Annotated[
        str,
        typer.Option("--equation", metavar="NAME", help="Equation of state: mwjf, jmcd or linear."),
    ] = "mwjf",
    outputs: Annotated[
        int, typer.Option("--outputs", metavar="N", help="Of state: 1, or 3 with its derivatives.")
    ] = 1,
    size: Annotated[
        str,
        typer.Option(
            "--size", metavar="XxYxZ", help="Points from west to east, to north, and levels."
        ),
    ] = _SIZE,
    threads: Annotated[
        int,
        typer.Option(
            "--threads", min=0, metavar="N", help="On the CPUs, 16 at most; 0: one for each CPU."
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Of the ocean's eddies.")
    ] = 0,
) -> None:
    """Compute the density of an ocean, or its buoyancy, and compare it with NumPy's."""
    from lanescope.studies.ocean.case import GridCase
    from lanescope.studies.ocean.profiles import parse_sides
    from lanescope.studies.ocean.reference import Equation, Kernel

    case = GridCase(_named(Kernel, kernel), _named(Equation, equation), outputs)
    sides = parse_sides(size, "--size", _SIZE)
    if cpu == (version is not None):
        raise InputError(
            "it is not said where the kernel runs; give --cpu, or --version and one of "
            f"{', '.join(_versions())} to run on a GPU"
        )
    if cpu and (streams, gpu) != (None, None):
        raise InputError("--streams and --gpu are of a GPU; give --version in place of --cpu")
    try:
        if version is None:
            _run(case, sides, threads or len(os.sched_getaffinity(0)), seed)
        else:
            _run_on_gpu(case, sides, _method(version, streams), streams, gpu or 0, seed)
    except MemoryError as error:
        raise InputError(
            f"a grid of {size} points does not fit into this machine's memory; give a smaller one"
        ) from error


def _run(case: GridCase, sides: tuple[int, int, int], threads: int, seed: int) -> None:
    from lanescope._core import native
    from lanescope.engine.core import reason_for
    from lanescope.report.format import seconds_text
    from lanescope.studies.ocean.profiles import ocean

    water = ocean(*sides, seed=seed)
    began = time.perf_counter()
    try:
        made = case.on_host(water, threads)
    except native.NativeError as error:
        raise reason_for(*error.args).error from error
    took = time.perf_counter() - began
    shape = " × ".join(map(str, sides))
    law = f" ({case.equation})" if case.has_equation else ""
    print(f"{case.kernel}{law} of {shape} points: {seconds_text(took)}, threads: {threads}")
    _compare(case, water, made)


def _run_on_gpu(
    case: GridCase,
    sides: tuple[int, int, int],
    method: Method,
    streams: int | None,
    gpu: int,
    seed: int,
) -> None:
    from lanescope.machine import discover
    from lanescope.prediction.workload import STREAMED, Method
    from lanescope.report.format import seconds_text, time_spread_text
    from lanescope.studies.ocean.profiles import ocean
    from lanescope.studies.ocean.running import GridMemory, run_case

    machine = discover()
    if gpu not in {one.index for one in machine.gpus}:
        raise InputError(f"this machine has no GPU {gpu}; give --cpu, or another --gpu")
    cut = (streams or min(_STREAMS, sides[2])) if method in STREAMED else 1
    water = ocean(*sides, seed=seed)
    memory = GridMemory.made(machine, gpu, water, pageable=method is Method.PAGEABLE)
    times = run_case(memory, case, method, cut, _GPU_SECONDS).seconds
    shape = " × ".join(map(str, sides))
    law = f" ({case.equation})" if case.has_equation else ""
    by = f"{method} ({cut})" if method in STREAMED else str(method)
    print(
        f"{case.kernel}{law} of {shape} points by {by} on GPU {gpu}: "
        f"{seconds_text(float(np.median(times)))}, the median of {len(times)} runs "
        f"({time_spread_text(float(times.min()), float(times.max()))})"
    )
    _compare(case, water, memory.outputs(case.output_arrays))


def _compare(case: GridCase, water: OceanGrid, made: Sequence[Array]) -> None:
    differences = case.compare(water, made)
    for each in differences:
        unit = f" {each.unit}" if each.unit else ""
        print(
            f"{each.output} differs from NumPy's by {each.largest:.1e}{unit} at most, "
            f"allowed are {each.tolerance:.1e}{unit}"
        )
    wrong = [each.output for each in differences if not each.within]
    if wrong:
        print(f"{', '.join(wrong)}: beyond what rounding explains", file=sys.stderr)
        raise typer.Exit(1)


def _versions() -> tuple[str, ...]:
    from lanescope.prediction.workload import Method

    return tuple(method.value.lower() for method in Method)


def _method(version: str, streams: int | None) -> Method:
    from lanescope.prediction.workload import STREAMED, Method

    if version.lower() not in _versions():
        raise InputError(f"'{version}' is none of {', '.join(_versions())}; give one of them")
    method = Method(version.capitalize())
    if streams is not None and method not in STREAMED:
        raise InputError(f"--version {version.lower()} has no streams; leave out --streams")
    return method


def _named(choices: type[_Choice], name: str) -> _Choice:
    try:
        return choices(name)
    except ValueError:
        raise InputError(f"'{name}' is none of {', '.join(choices)}; give one of them") from None
