"""``lanescope model``: what transfers and overlap cost, as parameters and as predictions."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.cli.combinations import Needs, combines
from lanescope.cli.options import JsonOption, option, size_option
from lanescope.units.values import Duration, File, Real, Value, Whole

if TYPE_CHECKING:
    from lanescope.model.overlap.question import Answer
    from lanescope.model.overlap.workload import Workload

ParametersOption = Annotated[
    str | None,
    option(
        Value("--machine"),
        metavar="NAME|FILE|RUN",
        help="Parameters: gtx680, gtx-titan, k20, a JSON file or a run of 'model fit'; default: "
        "the newest fit of this machine.",
    ),
]


#: Operations of one kernel, and of a GPU in a second.
_MOST_FLOPS = 1e21


def _times_option(name: str, help: str) -> Any:
    value = Real(name, "times", 1e6, "each byte", least=0)
    return option(value, metavar="TIMES", help=help, shown="1.0")


def _arrays_option(name: str, help: str) -> Any:
    value = Whole(name, 1, 4096, "a copy is made of each")
    return option(value, metavar="N", help=help, shown="1")


@combines(
    Needs(("--topology",), ("--gpus",), "tells what several GPUs share"),
    Needs(("--arrays-in", "--mapped-reads"), ("--h2d",), "is of the bytes to the GPU"),
    Needs(("--arrays-out", "--mapped-writes"), ("--d2h",), "is of the bytes back"),
    Needs(("--peak-flops",), ("--memory-bandwidth",), "makes a roofline with another limit"),
    Needs(("--memory-bandwidth",), ("--peak-flops",), "makes a roofline with another limit"),
)
def predict(
    h2d: Annotated[
        int | None, size_option("--h2d", "Bytes to the GPU each round.", zero=True)
    ] = None,
    d2h: Annotated[int | None, size_option("--d2h", "Bytes back to the host.", zero=True)] = None,
    kernel: Annotated[
        int | None,
        option(
            Duration("--kernel", 1, 86_400_000_000_000, "up to a day, or 0", zero=True),
            metavar="TIME",
            help="The kernel's time, all of its data in the GPU's memory; such as 12ms, 300us, 0.",
        ),
    ] = None,
    streams: Annotated[
        str,
        option(
            Value("--streams"),
            metavar="N|LIST|A..B",
            help="Numbers of streams to try.",
            shown="1..256",
        ),
    ] = "1..256",
    machine: ParametersOption = None,
    on: Annotated[
        list[str] | None,
        option(
            Value("--on"),
            metavar="LINK",
            help="Also on this link, such as pcie5; may be repeated.",
        ),
    ] = None,
    arrays_in: Annotated[
        int, _arrays_option("--arrays-in", "Arrays that the bytes to the GPU are in.")
    ] = 1,
    arrays_out: Annotated[
        int, _arrays_option("--arrays-out", "Arrays that the bytes back are in.")
    ] = 1,
    mapped_reads: Annotated[
        float,
        _times_option("--mapped-reads", "How often a mapped byte is read over the link."),
    ] = 1.0,
    mapped_writes: Annotated[
        float, _times_option("--mapped-writes", "How often a mapped byte is written over it.")
    ] = 1.0,
    needs_previous: Annotated[
        bool, typer.Option("--needs-previous", help="A part needs the input of the one before.")
    ] = False,
    flops: Annotated[
        float | None,
        option(
            Real("--flops", "operations", _MOST_FLOPS, "such as 4e9"),
            metavar="N",
            help="Operations of the kernel, such as 4e9.",
        ),
    ] = None,
    device_bytes: Annotated[
        int | None, size_option("--device-bytes", "Bytes to and from the GPU's memory.")
    ] = None,
    peak_flops: Annotated[
        float | None,
        option(
            Real("--peak-flops", "FLOP/s", _MOST_FLOPS, "such as 34e12"),
            metavar="N",
            help="Of the GPU, FLOP/s, such as 34e12.",
        ),
    ] = None,
    memory_bandwidth: Annotated[
        float | None,
        option(
            Real("--memory-bandwidth", "GB/s", 1e6, "such as 4800"),
            metavar="GB/s",
            help="Of the GPU's memory, GB/s.",
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        option(
            Value("--predictor"),
            metavar="NAME",
            help="equations, equations-shared or replay; default: replay with parameters that were "
            "measured, equations with published ones.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        option(
            Whole("--gpus", 2, 16, "one is predicted anyhow"),
            metavar="N",
            help="Also on so many GPUs at once, which share the host's memory.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        option(
            Value("--topology"),
            metavar="FILE_OR_NAME",
            help="With --gpus: the machine file that tells what they share; default: this machine.",
        ),
    ] = None,
    json: JsonOption = False,
    plot: Annotated[
        Path | None,
        option(
            File("--plot", (".svg", ".png")),
            metavar="FILE",
            help="Draw times over streams to a .svg or .png file.",
        ),
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
    if gpus is not None:
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


def _with_several(answer: Answer, gpus: int, topology: str | None) -> Answer:
    from dataclasses import replace

    from lanescope.model.overlap.several import on_several
    from lanescope.running import resolve_machine

    return replace(answer, several=on_several(answer.ranking, gpus, resolve_machine(topology)))


def _workload(
    h2d: int | None,
    d2h: int | None,
    kernel_ns: int | None,
    *,
    arrays: tuple[int, int],
    mapped: tuple[float, float],
    needs_previous: bool,
    flops: float | None,
    device_bytes: int | None,
) -> Workload:
    from lanescope.errors import InputError
    from lanescope.model.overlap.rank import require_possible
    from lanescope.model.overlap.workload import Workload

    if kernel_ns is None:
        raise InputError(
            "the kernel's time is missing; measure it with its data in the GPU's memory and give "
            "--kernel, such as 12ms, or 0 for copies alone"
        )
    work = Workload(
        h2d or 0,
        d2h or 0,
        kernel_ns * 1e-9,
        *arrays,
        needs_previous=needs_previous,
        mapped_reads=mapped[0],
        mapped_writes=mapped[1],
        flops=flops,
        device_bytes=device_bytes,
    )
    require_possible(work)
    return work
