"""The kernels of an ocean model as an example: run, compared with NumPy, and timed."""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lanescope.errors import InputError

if TYPE_CHECKING:
    from lanescope.grid.case import GridCase

_Choice = TypeVar("_Choice", bound=StrEnum)

_SIZE = "96x64x42"


def grid(
    kernel: Annotated[
        str, typer.Argument(metavar="KERNEL", help="state, buoydiff, axpy or convolution.")
    ],
    cpu: Annotated[bool, typer.Option("--cpu", help="Run on this machine's CPUs.")] = False,
    equation: Annotated[
        str, typer.Option(metavar="NAME", help="Equation of state: mwjf, jmcd or linear.")
    ] = "mwjf",
    outputs: Annotated[
        int, typer.Option(metavar="N", help="Of state: 1, or 3 with its derivatives.")
    ] = 1,
    size: Annotated[
        str, typer.Option(metavar="XxYxZ", help="Points from west to east, to north, and levels.")
    ] = _SIZE,
    threads: Annotated[
        int, typer.Option(min=0, metavar="N", help="On the CPUs, 16 at most; 0: one for each CPU.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the ocean's eddies.")] = 0,
) -> None:
    """Compute the density of an ocean, or its buoyancy, and compare it with NumPy's."""
    from lanescope.grid.case import GridCase
    from lanescope.grid.equations import Equation
    from lanescope.grid.reference import Kernel

    case = GridCase(_named(Kernel, kernel), _named(Equation, equation), outputs)
    sides = _sides(size)
    if not cpu:
        raise InputError("it is not said where the kernel runs; give --cpu")
    try:
        _run(case, sides, threads or len(os.sched_getaffinity(0)), seed)
    except MemoryError as error:
        raise InputError(
            f"a grid of {size} points does not fit into this machine's memory; give a smaller one"
        ) from error


def _run(case: GridCase, sides: tuple[int, int, int], threads: int, seed: int) -> None:
    from lanescope._core import native
    from lanescope.backend.reasons import reason_for
    from lanescope.grid.profiles import ocean
    from lanescope.report.format import seconds_text

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


def _named(choices: type[_Choice], name: str) -> _Choice:
    try:
        return choices(name)
    except ValueError:
        raise InputError(f"'{name}' is none of {', '.join(choices)}; give one of them") from None


def _sides(text: str) -> tuple[int, int, int]:
    parts = text.lower().split("x")
    if len(parts) != 3 or not all(p.isascii() and p.isdigit() and int(p) > 0 for p in parts):
        raise InputError(f"--size '{text}' is no grid; give three whole numbers such as {_SIZE}")
    x, y, z = map(int, parts)
    return x, y, z
