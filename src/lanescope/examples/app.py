"""Programs to be watched by any tool: those of Qi's thesis and of its outlook, and one more.

``vector-add`` moves much and computes little, ``matmul`` moves little and computes much
(Qi, Analysis of data movements over the PCIe bus, 2022, chapter 2.6). ``concurrent-copies`` and
``load-with-copies`` are what its outlook asks for (chapter 7.4); ``many-copies`` shows what a
tool costs a program that copies often. All print when each of their steps began and ended and
what it moved, so that what a tool saw can be compared with what happened. ``grid`` runs kernels of
an ocean model instead, and compares them with NumPy. ``lu`` factors a matrix on two GPUs that send
each other parts of it, as they are and compressed. ``loop`` runs loops of PyTorch and CuPy before
and after the change that ``lanescope advise`` names.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import numpy as np
import typer

from lanescope.errors import InputError, LanescopeError
from lanescope.examples.loops import loop
from lanescope.examples.lu import lu
from lanescope.units.sizes import parse_size

if TYPE_CHECKING:
    from lanescope._core import native
    from lanescope.prediction.predictor import Method
    from lanescope.studies.ocean.case import GridCase, OceanGrid
    from lanescope.studies.ocean.reference import Array

app = typer.Typer(
    help="Small GPU programs to watch.", add_completion=False, pretty_exceptions_enable=False
)
_STEP_KEYS = ("name", "begin_ns", "end_ns", "bytes", "h2d_bytes", "d2h_bytes", "copies")
_LONGEST_SECONDS = 3600
#: Each copy carries a number of so many bytes.
_LEAST_BYTES = 4
PinnedOption = Annotated[bool, typer.Option("--pinned", help="Pin the host's memory.")]
GpuOption = Annotated[int, typer.Option(min=0, metavar="N", help="GPU, as CUDA numbers them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the steps as JSON.")]
_Choice = TypeVar("_Choice", bound=StrEnum)
_SIZE = "96x64x42"
#: Parts that a grid is cut into where nobody says how many, and for how long runs go on.
_STREAMS, _GPU_SECONDS = 8, 0.3


app.command()(lu)
app.command()(loop)


@app.command("vector-add")
def vector_add(
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Of each vector.")] = "400MB",
    pinned: PinnedOption = False,
    gpu: GpuOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Copy two vectors to a GPU, add them there, copy both back and compare."""
    from lanescope._core import native

    bytes_ = parse_size(size)
    _show(lambda: native.vector_add(bytes_, pinned=pinned, device=gpu), as_json)


@app.command()
def matmul(
    rows: Annotated[int, typer.Option(min=1, metavar="N")] = 3200,
    inner: Annotated[int, typer.Option(min=1, metavar="N")] = 3200,
    columns: Annotated[int, typer.Option(min=1, metavar="N")] = 6400,
    launches: Annotated[int, typer.Option(min=1, metavar="N", help="Multiplications.")] = 301,
    pinned: PinnedOption = False,
    gpu: GpuOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Copy two matrices to a GPU, multiply them there, copy the product back and compare."""
    from lanescope._core import native

    _show(lambda: native.matmul(rows, inner, columns, launches, pinned=pinned, device=gpu), as_json)


@app.command("concurrent-copies")
def concurrent_copies(
    down: Annotated[
        int, typer.Option(min=0, max=32, metavar="N", help="Streams that copy to the GPU.")
    ] = 1,
    up: Annotated[
        int, typer.Option(min=0, max=32, metavar="N", help="Streams that copy to the host.")
    ] = 1,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Of each copy.")] = "64MiB",
    repeats: Annotated[
        int, typer.Option(min=1, metavar="N", help="Copies of each stream in a step.")
    ] = 32,
    gpu: GpuOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Copy pinned memory to a GPU, then from it, then both ways at once, and compare."""
    from lanescope._core import native

    if down + up == 0:
        raise InputError("--down 0 and --up 0 leave nothing to copy; give one of them 1 or more")
    bytes_ = parse_size(size)
    _show(lambda: native.concurrent_copies(down, up, bytes_, repeats, device=gpu), as_json)


@app.command("load-with-copies")
def load_with_copies(
    load: Annotated[
        float, typer.Option(min=0, max=100, metavar="PERCENT", help="Of the SMs that compute.")
    ] = 100,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Of each copy.")] = "64MiB",
    repeats: Annotated[
        int, typer.Option(min=1, metavar="N", help="Copies there and back in a step.")
    ] = 64,
    gpu: GpuOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Copy pinned memory there and back, then compute for as long, then do both at once."""
    from lanescope._core import native

    bytes_ = parse_size(size)
    _show(lambda: native.load_with_copies(load / 100, bytes_, repeats, device=gpu), as_json)


@app.command("many-copies")
def many_copies(
    rate: Annotated[
        float,
        typer.Option(min=0, metavar="HZ", help="Copies a second; 0: as fast as it goes."),
    ] = 10_000,
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Of each copy.")] = "4KiB",
    seconds: Annotated[float, typer.Option(metavar="S", help="For how long.")] = 3,
    count: Annotated[
        int, typer.Option(min=0, metavar="N", help="So many copies, however long they take.")
    ] = 0,
    gpu: GpuOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Copy little and often, each time with a short kernel and a wait for both."""
    from lanescope._core import native

    if not 0 < seconds <= _LONGEST_SECONDS:
        raise InputError(f"--seconds {seconds:g} is not above 0 and up to {_LONGEST_SECONDS}")
    bytes_ = parse_size(size)
    if bytes_ < _LEAST_BYTES:
        raise InputError(f"--size {size} is too small: a copy has {_LEAST_BYTES} bytes or more")
    _show(lambda: native.many_copies(bytes_, count, seconds, rate, device=gpu), as_json)


def _show(work: Callable[[], native.WorkloadReport], as_json: bool) -> None:
    from lanescope._core import native
    from lanescope.engine.core import reason_for

    try:
        report = work()
    except native.NativeError as error:
        raise reason_for(*error.args).error from error
    print(_json(report) if as_json else _text(report))
    if report.wrong:
        print(f"{report.wrong} results are wrong", file=sys.stderr)
        raise typer.Exit(1)


def _json(report: native.WorkloadReport) -> str:
    steps = [{key: getattr(step, key) for key in _STEP_KEYS} for step in report.steps]
    return json.dumps({"steps": steps, "wrong": report.wrong})


def _text(report: native.WorkloadReport) -> str:
    from lanescope.report.format import bytes_text, seconds_text

    first = report.steps[0].begin_ns
    lines = [f"{'begin':>9}  {'took':>9}  step"]
    for step in report.steps:
        begin, took = (step.begin_ns - first) * 1e-9, (step.end_ns - step.begin_ns) * 1e-9
        moved = f", {bytes_text(step.bytes)}" if step.bytes else ""
        if step.copies > 1:
            moved += f" in {step.copies:,} copies, {step.copies / took:,.0f} a second"
        lines.append(f"{seconds_text(begin):>9}  {seconds_text(took):>9}  {step.name}{moved}")
    return "\n".join(lines)


def main() -> NoReturn:
    """Run an example; bad input is one sentence and exit code 2."""
    try:
        app(prog_name="python -m lanescope.examples")
    except LanescopeError as error:
        print(f"lanescope: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


@app.command()
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
    from lanescope.studies.ocean.case import GridCase, parse_sides
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
    from lanescope.studies.ocean.case import ocean

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
    from lanescope.prediction.predictor import STREAMED, Method
    from lanescope.report.format import seconds_text, time_spread_text
    from lanescope.studies.ocean.case import ocean
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
    from lanescope.prediction.predictor import Method

    return tuple(method.value.lower() for method in Method)


def _method(version: str, streams: int | None) -> Method:
    from lanescope.prediction.predictor import STREAMED, Method

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
