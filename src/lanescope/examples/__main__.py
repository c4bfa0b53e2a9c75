"""The two programs of Qi's thesis, to be watched by any tool.

``vector-add`` moves much and computes little, ``matmul`` moves little and computes much
(Qi, Analysis of data movements over the PCIe bus, 2022, chapter 2.6). Both print when each
of their steps began and ended, so that what a tool saw can be compared with what happened.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from lanescope.errors import LanescopeError
from lanescope.experiment.sizes import parse_size

if TYPE_CHECKING:
    from lanescope._core import native

app = typer.Typer(
    help="Small GPU programs to watch.", add_completion=False, pretty_exceptions_enable=False
)

PinnedOption = Annotated[bool, typer.Option("--pinned", help="Pin the host's memory.")]
GpuOption = Annotated[int, typer.Option(min=0, metavar="N", help="GPU, as CUDA numbers them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the steps as JSON.")]


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


def _show(work: Callable[[], native.WorkloadReport], as_json: bool) -> None:
    from lanescope._core import native
    from lanescope.backend.reasons import reason_for

    try:
        report = work()
    except native.NativeError as error:
        raise reason_for(*error.args).error from error
    print(_json(report) if as_json else _text(report))
    if report.wrong:
        print(f"{report.wrong} results are wrong", file=sys.stderr)
        raise typer.Exit(1)


def _json(report: native.WorkloadReport) -> str:
    steps = [
        {"name": s.name, "begin_ns": s.begin_ns, "end_ns": s.end_ns, "bytes": s.bytes}
        for s in report.steps
    ]
    return json.dumps({"steps": steps, "wrong": report.wrong})


def _text(report: native.WorkloadReport) -> str:
    from lanescope.report.format import bytes_text, seconds_text

    first = report.steps[0].begin_ns
    lines = [f"{'begin':>9}  {'took':>9}  step"]
    for step in report.steps:
        begin, took = (step.begin_ns - first) * 1e-9, (step.end_ns - step.begin_ns) * 1e-9
        moved = f", {bytes_text(step.bytes)}" if step.bytes else ""
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


if __name__ == "__main__":
    main()
