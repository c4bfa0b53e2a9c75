"""``lanescope compress``: files of arrays, smaller on the disk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from lanescope.cli.combinations import combines
from lanescope.cli.compressed_files import (
    ONE_PLACE,
    BaseOption,
    FilesArgument,
    ForceOption,
    JsonOption,
    OutOption,
    ThreadsOption,
    ToOption,
    make_folder,
    progress_of,
    require_one,
    say,
    targets_of,
    to_folder,
)
from lanescope.cli.options import option
from lanescope.units.values import OneOf


def _codecs() -> Iterable[str]:
    from lanescope.compression.files import names_of_codecs

    return names_of_codecs().split(", ")


def _dtypes() -> Iterable[str]:
    from lanescope.compression.arrays import DTYPES

    return DTYPES


@combines(ONE_PLACE)
def compress(
    files: FilesArgument,
    to: ToOption = None,
    out: OutOption = None,
    codec: Annotated[
        str,
        option(
            OneOf("--codec", _codecs),
            metavar="NAME",
            help="How values are coded; arrays of other types are stored as they are.",
            shown="auto, the smallest",
        ),
    ] = "auto",
    dtype: Annotated[
        str | None,
        option(
            OneOf("--dtype", _dtypes),
            metavar="TYPE",
            help="What the values of files without a header are; default: what the end of the "
            "name says, such as .f32, else bytes.",
        ),
    ] = None,
    base: BaseOption = None,
    threads: ThreadsOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Compress files of arrays without loss: .npy, .safetensors and values without a header.

    Each becomes FILE.lsc; 'lanescope decompress' gives back the same bytes. Exit code: 0 done, 2 a
    file cannot be read or written.
    """
    from lanescope.compression.container import ENDING
    from lanescope.compression.files import compress_file

    require_one(files, base)
    targets = [to_folder(one, to) / f"{one.name}{ENDING}" for one in files]
    targets = targets_of(files, targets, out, force)
    make_folder(to)
    for source, target in zip(files, targets, strict=True):
        with progress_of("compressing", source) as progress:
            index = compress_file(
                source, target, codec=codec, dtype=dtype, threads=threads, progress=progress,
                base=base,
            )  # fmt: skip
        say(source, target, index, target.stat().st_size, json)
