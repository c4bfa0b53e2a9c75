"""``lanescope bench compress``: what codecs make of the user's arrays, and whether that pays."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanescope.cli.options import JsonOption, OutOption, parse_budget
from lanescope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanescope.compression.advice import Link
    from lanescope.compression.arrays import Opened
    from lanescope.compression.device import Device
    from lanescope.compression.results import ArrayResult
    from lanescope.report.compress_json import Asked

#: In a run folder.
FILE = "compress.json"
#: A file of hundreds of tensors would be written anew with each.
_WRITTEN_EVERY_SECONDS = 1.0
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
    size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of each made-up example; default 16MiB.")
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
    out: OutOption = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw ratio over GFC's dimensionality: .svg or .png."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compress arrays without loss by every codec: how small, how fast, and whether it pays.

    Speeds are those of this host's CPUs, one thread and all; every array is decompressed and
    compared. What a link would gain is predicted from them.
    """
    from lanescope.compression.device import HostDevice
    from lanescope.compression.stream import Codec
    from lanescope.experiment.sizes import parse_size
    from lanescope.report.compress_json import Asked, compress_json

    wanted = _dimensionalities(dimensionality)
    asked = Asked(_link(link_speed, machine), parse_size(slab))
    _check_plot(plot)
    seconds = parse_budget(budget)
    opened = _opened(files or [], dtype, size)
    device = HostDevice(threads)
    if plot is not None and not any(device.takes(Codec.GFC, one.dtype) for one in opened.entries):
        raise InputError(
            "--plot draws what GFC makes of fp64 and fp32 by its dimensionality, and there is no "
            "such array; give one, or leave out --plot"
        )
    results = _measured(opened, device, wanted, seconds, asked, out)
    if plot is not None:
        from lanescope.report.chart_files import write_chart
        from lanescope.report.compress_chart import compress_chart

        write_chart(compress_chart(results), plot)
        print(f"plot: {plot}", file=sys.stderr)
    if json:
        print(compress_json(results, asked, opened.left_out), end="")
        return
    from lanescope.cli.output import console
    from lanescope.report.compress_tables import compress_tables

    screen = console()
    for part in compress_tables(results, asked, opened.left_out):
        screen.print(part)


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


def _check_plot(plot: Path | None) -> None:
    """Refuse a picture that could not be written before minutes are spent on it."""
    if plot is None:
        return
    from lanescope.report.chart_files import FORMATS

    if plot.suffix.removeprefix(".") not in FORMATS:
        raise InputError(f"--plot {plot} is no picture that can be written; name a .svg or .png")
    if not plot.parent.is_dir():
        raise InputError(f"--plot {plot}: there is no folder {plot.parent}; make it first")


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


def _measured(
    opened: Opened,
    device: Device,
    dimensionalities: Sequence[int],
    budget: float,
    asked: Asked,
    out: Path | None,
) -> tuple[ArrayResult, ...]:
    from lanescope.cli.output import progress_bar
    from lanescope.compression.measuring import measure_array
    from lanescope.report.compress_json import compress_json
    from lanescope.run.atomic import write_atomically, writing_to

    folder = _new_folder(out)
    results: list[ArrayResult] = []
    total = len(opened.entries)

    def write() -> None:
        text = compress_json(results, asked, opened.left_out, complete=len(results) == total)
        with writing_to(folder):
            write_atomically(folder / FILE, text.encode())

    written = -_WRITTEN_EVERY_SECONDS
    try:
        with progress_bar("looking at the arrays") as show:
            for done, entry in enumerate(opened.entries):

                def on_codec(codec: str, name: str = entry.name, done: int = done) -> None:
                    if show is not None:
                        show(f"{name}: {codec}", done, total)

                results.append(measure_array(entry, device, dimensionalities, budget, on_codec))
                if time.monotonic() > written + _WRITTEN_EVERY_SECONDS:
                    write()
                    written = time.monotonic()
    finally:
        if results:
            write()
            print(f"run:  {folder / FILE}", file=sys.stderr)
    return tuple(results)


def _new_folder(out: Path | None) -> Path:
    from lanescope.run.atomic import writing_to
    from lanescope.run.folders import new_run_folder

    folder = out or new_run_folder("compress")
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder} is not empty; name an empty folder with --out")
    return folder
