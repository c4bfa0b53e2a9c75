"""``lanescope model``: what transfers and overlap cost, as parameters and as predictions."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import JsonOption

if TYPE_CHECKING:
    from lanescope.model.overlap.question import Answer
    from lanescope.model.overlap.workload import Workload

ParametersOption = Annotated[
    str | None,
    typer.Option(
        "--machine",
        metavar="NAME|FILE|RUN",
        help="Parameters: gtx680, gtx-titan, k20, a JSON file or a run of 'model fit'; default: "
        "the newest fit of this machine.",
    ),
]


def predict(
    h2d: Annotated[
        str | None, typer.Option("--h2d", metavar="SIZE", help="Bytes to the GPU each round.")
    ] = None,
    d2h: Annotated[
        str | None, typer.Option("--d2h", metavar="SIZE", help="Bytes back to the host.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The kernel's time, all of its data in the GPU's memory; such as 12ms, 300us, 0.",
        ),
    ] = None,
    streams: Annotated[
        str, typer.Option(metavar="N|LIST|A..B", help="Numbers of streams to try.")
    ] = "1..256",
    machine: ParametersOption = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="LINK", help="Also on this link, such as pcie5; may be repeated."),
    ] = None,
    arrays_in: Annotated[
        int, typer.Option(metavar="N", help="Arrays that the bytes to the GPU are in.")
    ] = 1,
    arrays_out: Annotated[
        int, typer.Option(metavar="N", help="Arrays that the bytes back are in.")
    ] = 1,
    mapped_reads: Annotated[
        float,
        typer.Option(metavar="TIMES", help="How often a mapped byte is read over the link."),
    ] = 1.0,
    mapped_writes: Annotated[
        float,
        typer.Option(metavar="TIMES", help="How often a mapped byte is written over it."),
    ] = 1.0,
    needs_previous: Annotated[
        bool, typer.Option("--needs-previous", help="A part needs the input of the one before.")
    ] = False,
    flops: Annotated[
        float | None, typer.Option(metavar="N", help="Operations of the kernel, such as 4e9.")
    ] = None,
    device_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes to and from the GPU's memory.")
    ] = None,
    peak_flops: Annotated[
        float | None, typer.Option(metavar="N", help="Of the GPU, FLOP/s, such as 34e12.")
    ] = None,
    memory_bandwidth: Annotated[
        float | None, typer.Option(metavar="GB/s", help="Of the GPU's memory, GB/s.")
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            "--predictor",
            metavar="NAME",
            help="equations, equations-shared or replay; default: replay with parameters that were "
            "measured, equations with published ones.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            metavar="N",
            help="Also on so many GPUs at once, which share the host's memory.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="FILE_OR_NAME",
            help="With --gpus: the machine file that tells what they share; default: this machine.",
        ),
    ] = None,
    json: JsonOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw times over streams to a .svg or .png file."),
    ] = None,
) -> None:
    """Predict what each way of moving a workload's data takes, and rank them.

    A round is bytes to the GPU, a kernel, and bytes back. Every time is predicted, from a few
    parameters of the machine.
    """
    # What has been loaded stays to the end: the collector need not look at it again and again.
    gc.freeze()
    from lanescope.cli.output import console
    from lanescope.model.overlap.predictors import predictor_for, predictor_named
    from lanescope.model.overlap.question import ask, parse_streams
    from lanescope.model.transfer.stored import named_parameters

    require_picture(plot)
    work = _workload(
        h2d,
        d2h,
        kernel,
        arrays=(arrays_in, arrays_out),
        mapped=(mapped_reads, mapped_writes),
        needs_previous=needs_previous,
        flops=flops,
        device_bytes=device_bytes,
    )
    counts = parse_streams(streams)
    known = named_parameters(machine)
    by = predictor_for(known) if predictor is None else predictor_named(predictor)
    answer = ask(
        work,
        known,
        by,
        counts,
        on=on or (),
        peak_flops=peak_flops,
        memory_gbs=memory_bandwidth,
    )
    if gpus is not None or topology is not None:
        answer = _with_several(answer, gpus, topology)
    if plot is not None:
        from lanescope.report.chart_files import write_chart
        from lanescope.report.predict_chart import predict_chart

        write_chart(predict_chart(answer.ranking), plot)
    if json:
        from lanescope.report.predict_json import predict_json

        print(predict_json(answer))
        return
    from lanescope.report.predict_tables import predict_parts

    out = console()
    for part in predict_parts(answer):
        out.print(part, soft_wrap=isinstance(part, str))


def _with_several(answer: Answer, gpus: int | None, topology: str | None) -> Answer:
    from dataclasses import replace

    from lanescope.errors import InputError
    from lanescope.model.overlap.several import on_several
    from lanescope.running import resolve_machine

    if gpus is None:
        raise InputError("--topology tells what several GPUs share; say with --gpus how many")
    return replace(answer, several=on_several(answer.ranking, gpus, resolve_machine(topology)))


def _workload(
    h2d: str | None,
    d2h: str | None,
    kernel: str | None,
    *,
    arrays: tuple[int, int],
    mapped: tuple[float, float],
    needs_previous: bool,
    flops: float | None,
    device_bytes: str | None,
) -> Workload:
    from lanescope.errors import InputError
    from lanescope.experiment.sizes import parse_size
    from lanescope.measurement.durations import parse_ns
    from lanescope.model.overlap.rank import require_possible
    from lanescope.model.overlap.workload import Workload

    if kernel is None:
        raise InputError(
            "the kernel's time is missing; measure it with its data in the GPU's memory and give "
            "--kernel, such as 12ms, or 0 for copies alone"
        )
    if flops is not None and not 0 < flops < float("inf"):
        raise InputError(f"--flops {flops:g} is not above zero; give for example 4e9")
    work = Workload(
        0 if h2d is None or _is_zero(h2d) else parse_size(h2d),
        0 if d2h is None or _is_zero(d2h) else parse_size(d2h),
        0.0 if _is_zero(kernel) else parse_ns(kernel, "--kernel") * 1e-9,
        *arrays,
        needs_previous=needs_previous,
        mapped_reads=mapped[0],
        mapped_writes=mapped[1],
        flops=flops,
        device_bytes=None if device_bytes is None else parse_size(device_bytes),
    )
    require_possible(work)
    return work


def _is_zero(text: str) -> bool:
    return text.strip().lower() in ("0", "0b", "0s", "0ms", "0us")


def require_picture(plot: Path | None) -> None:
    """Refuse a --plot that names no picture file.

    Raises
    ------
    InputError
        If it does not end in .svg or .png.
    """
    from lanescope.errors import InputError

    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise InputError(f"--plot {str(plot)!r} is no picture file; name one that ends in .svg")
