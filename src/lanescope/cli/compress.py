"""``lanescope bench compress``: what codecs make of the user's arrays, and whether that pays."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.cli.combinations import Alone, Excludes, Needs, combines
from lanescope.cli.compress_gpus import Devices, gpu_plan, write_rate_charts
from lanescope.cli.options import JsonOption, OutOption, budget_option, option, size_option
from lanescope.errors import InputError
from lanescope.units.values import File, InFile, Numbers, OneOf, Real, Sizes, Value, Whole, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanescope.compression.arrays import Opened
    from lanescope.studies.compress.advice import Link
    from lanescope.studies.compress.reading import Stored

#: Sampling time in seconds.
_BUDGET = 0.1
_DEFAULT_DIMENSIONALITIES = (1, 2, 3, 4, 5, 8, 16, 32)


def _codec_names() -> type[StrEnum]:
    from lanescope.compression.stream import Codec

    return Codec


def _dtype_names() -> Sequence[str]:
    from lanescope.compression.arrays import DTYPES

    return list(DTYPES)


@combines(
    Alone(
        "--from",
        ("--link-speed", "--machine", "--plot", "--plot-rate", "--json"),
        "shows what is stored",
    ),
    Excludes("--link-speed", ("--machine",), "and --machine say the same"),
    Excludes("--size", ("FILES",), "is that of made-up examples"),
    Needs(("--dtype",), ("FILES",), "is that of files"),
)
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
        option(
            OneOf("--dtype", _dtype_names),
            metavar="NAME",
            help="What the values of files without a header are.",
        ),
    ] = None,
    dimensionality: Annotated[
        Any,
        option(
            Numbers("--dimensionality", 1, 32, "1,5,8 or 1-32", spans=True),
            metavar="N,N-M,...",
            help="Of GFC, 1 to 32: from how far back it predicts.",
            shown="1,2,3,4,5,8,16,32",
        ),
    ] = _DEFAULT_DIMENSIONALITIES,
    codecs: Annotated[
        Any,
        option(
            Words("--codec", _codec_names),
            metavar="NAME,...",
            help="Only these besides raw, of {names}: those of nvCOMP on a GPU that has it; "
            "default: all that there are.",
        ),
    ] = None,
    size: Annotated[
        int | None,
        size_option("--size", "Of each made-up example; default 16MiB.", most=64 << 30),
    ] = None,
    link_speed: Annotated[
        float | None,
        option(
            Real("--link-speed", "GB/s", 1e6, "no link is faster"),
            metavar="GBS",
            help="Predict for a link of so many GB/s.",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        option(
            Value("--machine"),
            metavar="NAME",
            help="Predict for copies to the GPU of link parameters (h200, a file, a run).",
        ),
    ] = None,
    slab: Annotated[
        int,
        size_option("--slab", "Pieces of an array that cross a link.", shown="8MiB"),
    ] = 8 << 20,
    threads: Annotated[
        int,
        option(
            Whole("--threads", 0, 1024, "0: as many as CPUs, 16 at most"),
            metavar="N",
            help="Most threads; 0, the default: as many as CPUs, 16 at most.",
        ),
    ] = 0,
    budget: Annotated[
        float,
        budget_option(
            "Sampling time for one codec, direction and number of threads, about.", "0.1"
        ),
    ] = _BUDGET,
    device: Annotated[
        str,
        option(
            OneOf("--device", lambda: Devices),
            metavar="NAME",
            help="Whose speeds, cpu, gpu or all: of those that there are.",
            shown="all",
        ),
    ] = "all",
    sms: Annotated[
        Any,
        option(
            Numbers("--sms", 0, 1023, "16,48,0"),
            metavar="N,N,...",
            help="SMs that a GPU's kernels are timed on, 0: all; default 16,48,0.",
        ),
    ] = None,
    link_sizes: Annotated[
        Any,
        option(
            Sizes("--link-sizes"),
            metavar="SIZE,...",
            help="What crosses a GPU's links, arrays being repeated; default 1MiB,256MiB.",
        ),
    ] = None,
    out: OutOption = None,
    plot: Annotated[
        Path | None,
        option(
            File("--plot", (".svg", ".png")),
            metavar="FILE",
            help="Draw ratio over GFC's dimensionality: .svg or .png.",
        ),
    ] = None,
    plot_rate: Annotated[
        Path | None,
        option(
            File("--plot-rate", (".svg", ".png")),
            metavar="FILE",
            help="Draw data rate over a GPU's links by transfer size, 1 to 256 MiB.",
        ),
    ] = None,
    stored: Annotated[
        Path | None,
        option(
            InFile("--from"),
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
    from lanescope.studies.compress.json import CompressRequest
    from lanescope.studies.compress.reading import Stored

    if stored is not None:
        _show(_stored(stored, _link(link_speed, machine)), plot, plot_rate, json=json)
        return
    some = None if codecs is None else tuple(map(Codec, codecs))
    if codecs is not None and "gfc" not in codecs and dimensionality != _DEFAULT_DIMENSIONALITIES:
        raise InputError("--dimensionality is of GFC; give --codec gfc, too, or leave it out")
    devices = Devices(device)
    plan = gpu_plan(devices, sms, link_sizes, picture=plot_rate is not None, codecs=some)
    names = () if plan is None else plan.names
    asked = CompressRequest(_link(link_speed, machine), slab, names)
    opened = _opened(files or [], dtype, size)
    host = HostDevice(threads)
    gfc = some is None or Codec.GFC in some
    if plot is not None and not any(
        gfc and host.takes(Codec.GFC, one.dtype) for one in opened.entries
    ):
        raise InputError(
            "--plot draws what GFC makes of fp64 and fp32 by its dimensionality, and there is no "
            "such array; give one, or leave out --plot"
        )
    budget_seconds = None if devices is Devices.GPU else budget
    task = Task(opened, host, sorted(dimensionality), budget_seconds, asked, plan, some)
    results = measured(task, out)
    if devices is Devices.GPU and budget != _BUDGET:
        print("note: --budget has no effect: it is of CPUs", file=sys.stderr)
    _show(Stored(results, asked, opened.left_out), plot, plot_rate, json=json)


def _stored(path: Path, link: Link | None) -> Stored:
    """Return stored results, for another link if one is named."""
    from lanescope.studies.compress.reading import read_compress

    told = read_compress(path)
    return told if link is None else replace(told, asked=replace(told.asked, link=link))


def _show(told: Stored, plot: Path | None, plot_rate: Path | None, *, json: bool) -> None:
    """Draw and print results."""
    from lanescope.studies.compress.json import compress_json

    if plot is not None:
        from lanescope.report.chart_files import write_chart
        from lanescope.studies.compress.chart import compress_chart

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
    from lanescope.studies.compress.tables import compress_tables

    screen = console()
    for part in compress_tables(told.results, told.asked, told.left_out):
        screen.print(part)
    if not told.complete:
        what = "not all arrays were" if told.results else "no array was"
        screen.print(f"This run was cut off: {what} measured.")


def _link(speed: float | None, machine: str | None) -> Link | None:
    from lanescope.studies.compress.advice import Link

    if speed is not None:
        return Link(f"a link of {speed:g} GB/s", speed)
    if machine is None:
        return None
    from lanescope.prediction.stored import named_parameters
    from lanescope.units.bandwidth import bandwidth_gbs

    found = named_parameters(machine)
    speed = bandwidth_gbs(1, found.h2d.per_byte.value)
    return Link(f"{found.name}, {found.link} ({speed:.1f} GB/s)", speed, found.h2d.first.value)


def _opened(files: Sequence[Path], dtype: str | None, size: int | None) -> Opened:
    from lanescope.compression.arrays import Opened, open_arrays

    if files:
        found = [open_arrays(path, dtype) for path in files]
        entries = tuple(entry for one in found for entry in one.entries)
        return Opened(entries, tuple(sentence for one in found for sentence in one.left_out))
    from lanescope.studies.compress.examples import DEFAULT_BYTES, example_arrays

    return Opened(example_arrays(size or DEFAULT_BYTES))
