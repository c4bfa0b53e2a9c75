"""``lanescope bench compress``: what codecs make of the user's arrays, and whether that pays."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.compress_gpus import Devices, gpu_plan, write_rate_charts
from lanescope.cli.options import JsonOption, OutOption, parse_budget
from lanescope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanescope.compression.advice import Link
    from lanescope.compression.arrays import Opened
    from lanescope.compression.stream import Codec
    from lanescope.report.compress_reading import Stored

_MOST_DIMENSIONALITY = 32


def compress(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILES]",
            help=".npy, .safetensors, classic NetCDF, or values alone (.f64, .f32, .bf16, ...); "
            "default: made-up examples.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the values of files without a header are."),
    ] = None,
    dimensionality: Annotated[
        str,
        typer.Option(metavar="N,N-M,...", help="Of GFC, 1 to 32: from how far back it predicts."),
    ] = "1,2,3,4,5,8,16,32",
    codecs: Annotated[
        str | None,
        typer.Option(
            "--codec",
            metavar="NAME,...",
            help="Only these besides raw: gfc, exponent, delta, zvc, and on a GPU with nvCOMP ans, "
            "bitcomp; default: all that there are.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="SIZE", help="Of each made-up example; default 16MiB."),
    ] = None,
    link_speed: Annotated[
        float | None,
        typer.Option("--link-speed", metavar="GBS", help="Predict for a link of so many GB/s."),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            metavar="NAME",
            help="Predict for copies to the GPU of link parameters (h200, a file, a run).",
        ),
    ] = None,
    slab: Annotated[
        str, typer.Option(metavar="SIZE", help="Pieces of an array that cross a link.")
    ] = "8MiB",
    threads: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Most threads; 0: as many as CPUs, 16 at most."),
    ] = 0,
    budget: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Sampling time for one codec, direction and number of threads, about.",
        ),
    ] = 0.1,
    devices: Annotated[
        Devices,
        typer.Option("--device", help="Whose speeds; all: of those that there are."),
    ] = Devices.ALL,
    sms: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="SMs that a GPU's kernels are timed on, 0: all; default 16,48,0.",
        ),
    ] = None,
    link_sizes: Annotated[
        str | None,
        typer.Option(
            "--link-sizes",
            metavar="SIZE,...",
            help="What crosses a GPU's links, arrays being repeated; default 1MiB,256MiB.",
        ),
    ] = None,
    out: OutOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw ratio over GFC's dimensionality: .svg or .png."),
    ] = None,
    plot_rate: Annotated[
        Path | None,
        typer.Option(
            "--plot-rate",
            metavar="FILE",
            help="Draw data rate over a GPU's links by transfer size, 1 to 256 MiB.",
        ),
    ] = None,
    stored: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Show, draw or predict from a stored compress.json; measure nothing.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compress arrays without loss by every codec: how small, how fast, and whether it pays.

    Speeds are those of this host's CPUs, one thread and all, and of GPU 0; every array is
    decompressed and compared. On a machine with GPUs arrays also cross their links, compressed in
    turns with the raw copy; what other links would gain is predicted.
    """
    from lanescope.cli.compress_task import Task, measured
    from lanescope.compression.device import HostDevice
    from lanescope.compression.stream import Codec
    from lanescope.experiment.sizes import parse_size
    from lanescope.report.compress_json import Asked
    from lanescope.report.compress_reading import Stored

    _check_plot(plot, "--plot")
    _check_plot(plot_rate, "--plot-rate")
    if stored is not None:
        if files:
            raise InputError("--from shows what is stored; leave out files, or --from")
        _show(_stored(stored, _link(link_speed, machine)), plot, plot_rate, json=json)
        return
    wanted = _dimensionalities(dimensionality)
    seconds = parse_budget(budget)
    some = None if codecs is None else _codecs(codecs)
    plan = gpu_plan(devices, sms, link_sizes, picture=plot_rate is not None, codecs=some)
    names = () if plan is None else plan.names
    asked = Asked(_link(link_speed, machine), parse_size(slab), names)
    opened = _opened(files or [], dtype, size)
    device = HostDevice(threads)
    gfc = some is None or Codec.GFC in some
    if plot is not None and not any(
        gfc and device.takes(Codec.GFC, one.dtype) for one in opened.entries
    ):
        raise InputError(
            "--plot draws what GFC makes of fp64 and fp32 by its dimensionality, and there is no "
            "such array; give one, or leave out --plot"
        )
    budget_seconds = None if devices is Devices.GPU else seconds
    task = Task(opened, device, wanted, budget_seconds, asked, plan, some)
    _show(Stored(measured(task, out), asked, opened.left_out), plot, plot_rate, json=json)


def _stored(path: Path, link: Link | None) -> Stored:
    """Return stored results, for another link if one is named."""
    from lanescope.report.compress_reading import read_compress

    told = read_compress(path)
    return told if link is None else replace(told, asked=replace(told.asked, link=link))


def _show(told: Stored, plot: Path | None, plot_rate: Path | None, *, json: bool) -> None:
    """Draw and print results."""
    from lanescope.report.compress_json import compress_json

    if plot is not None:
        from lanescope.report.chart_files import write_chart
        from lanescope.report.compress_chart import compress_chart

        write_chart(compress_chart(told.results), plot)
        print(f"plot: {plot}", file=sys.stderr)
    if plot_rate is not None:
        write_rate_charts(told.results, plot_rate)
    if json:
        text = compress_json(
            told.results, told.asked, told.left_out, complete=told.complete, by=told.by
        )
        print(text, end="")
        return
    from lanescope.cli.output import console
    from lanescope.report.compress_tables import compress_tables

    screen = console()
    for part in compress_tables(told.results, told.asked, told.left_out):
        screen.print(part)
    if not told.complete:
        screen.print("This run was cut off: not all arrays were measured.")


def _dimensionalities(text: str) -> tuple[int, ...]:
    numbers: set[int] = set()
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            numbers.update(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        numbers = set()
    if not numbers or not 1 <= min(numbers) <= max(numbers) <= _MOST_DIMENSIONALITY:
        raise InputError(
            f"--dimensionality {text!r} is no list of numbers from 1 to 32; write for example "
            "1,5,8 or 1-32"
        )
    return tuple(sorted(numbers))


def _codecs(text: str) -> tuple[Codec, ...]:
    from lanescope.compression.stream import Codec

    try:
        return tuple(dict.fromkeys(Codec(one.strip()) for one in text.split(",")))
    except ValueError:
        raise InputError(f"--codec {text!r} names none; give some of {', '.join(Codec)}") from None


def _link(speed: float | None, machine: str | None) -> Link | None:
    from lanescope.compression.advice import Link

    if speed is not None and machine is not None:
        raise InputError("--link-speed and --machine say the same; give one of them")
    if speed is not None:
        if not 0 < speed < 1e6:
            raise InputError(
                f"--link-speed {speed:g} is no bandwidth in GB/s; give for example 55.5"
            )
        return Link(f"a link of {speed:g} GB/s", speed)
    if machine is None:
        return None
    from lanescope.measurement.bandwidth import bandwidth_gbs
    from lanescope.model.transfer.stored import named_parameters

    found = named_parameters(machine)
    speed = bandwidth_gbs(1, found.h2d.per_byte.value)
    return Link(f"{found.name}, {found.link} ({speed:.1f} GB/s)", speed, found.h2d.first.value)


def _check_plot(plot: Path | None, option: str) -> None:
    """Refuse a picture that could not be written before minutes are spent on it."""
    if plot is None:
        return
    from lanescope.report.chart_files import FORMATS

    if plot.suffix.removeprefix(".") not in FORMATS:
        raise InputError(f"{option} {plot} is no picture that can be written; name a .svg or .png")
    if not plot.parent.is_dir():
        raise InputError(f"{option} {plot}: there is no folder {plot.parent}; make it first")


def _opened(files: Sequence[Path], dtype: str | None, size: str | None) -> Opened:
    from lanescope.compression.arrays import Opened, open_arrays

    if files:
        if size is not None:
            raise InputError("--size is that of made-up examples; leave it out with files")
        found = [open_arrays(path, dtype) for path in files]
        entries = tuple(entry for one in found for entry in one.entries)
        return Opened(entries, tuple(sentence for one in found for sentence in one.left_out))
    from lanescope.compression.examples import DEFAULT_BYTES, example_arrays
    from lanescope.experiment.sizes import parse_size

    if dtype is not None:
        raise InputError("--dtype is that of files; name them, or leave it out")
    return Opened(example_arrays(DEFAULT_BYTES if size is None else parse_size(size)))
