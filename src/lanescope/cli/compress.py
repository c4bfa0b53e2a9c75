"""``lanescope compress``: files of arrays, smaller on the disk; and what ``decompress`` shares."""

from __future__ import annotations

import json as encoder
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanescope.cli.options import Excludes, combines, flag, option
from lanescope.errors import InputError
from lanescope.units.values import File, Folder, InFile, OneOf, Value, Whole

if TYPE_CHECKING:
    from lanescope.compression.container import Index
    from lanescope.compression.files import Progress


class _Given(Value):
    """A file that is named alone, without an option."""

    def read(self, text: str) -> Path:
        """Return its path."""
        return Path(Value.read(self, text))


FilesArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Files; they stay as they are.", parser=_Given("FILE")),
]
ToOption = Annotated[
    Path | None, option(Folder("--to"), "Folder to write to; default: that of each file.")
]
OutOption = Annotated[
    Path | None,
    option(File("--out", for_folders="--to"), "File to write, where one is given."),
]
ForceOption = Annotated[bool, flag("--force", "Replace files that are there.")]
ThreadsOption = Annotated[
    int,
    option(
        Whole("--threads", 1, 256, "default: one for each CPU at hand, 16 at most"),
        "Threads to work on; default: one for each CPU at hand, 16 at most.",
    ),
]
BaseOption = Annotated[
    Path | None,
    option(
        InFile("--base"),
        "An earlier file: only what differs from its arrays is stored, and it is needed to get the "
        "file back.",
    ),
]
JsonOption = Annotated[bool, flag("--json", "Print what was found as JSON.")]
ONE_PLACE = Excludes("--out", ("--to",), "names the file itself")


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
            "How values are coded; arrays of other types are stored as they are.",
            shown="auto, the smallest",
        ),
    ] = "auto",
    dtype: Annotated[
        str | None,
        option(
            OneOf("--dtype", _dtypes),
            "What the values of files without a header are; default: what the end of the name "
            "says, such as .f32, else bytes.",
            metavar="TYPE",
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
    from lanescope.compression.container import ENDING, file_bytes
    from lanescope.compression.files import compress_file

    require_one(files, base)
    targets = [to_folder(one, to) / f"{one.name}{ENDING}" for one in files]
    targets = targets_of(files, targets, to, out, force)
    make_folder(to)
    for source, target in zip(files, targets, strict=True):
        with progress_of("compressing", source) as progress:
            index = compress_file(
                source, target, codec=codec, dtype=dtype, threads=threads, progress=progress,
                base=base,
            )  # fmt: skip
        say(source, target, index, file_bytes(index), json)


def require_one(files: list[Path], base: Path | None) -> None:
    """Refuse several files with one base.

    Raises
    ------
    InputError
        If there are.
    """
    if base is not None and len(files) > 1:
        raise InputError(f"--base is of one file, and {len(files)} are given; give one at a time")


def to_folder(source: Path, to: Path | None) -> Path:
    """Return the folder in which the result of a file is written."""
    return source.parent if to is None else to


def targets_of(
    files: list[Path], targets: list[Path], to: Path | None, out: Path | None, force: bool
) -> list[Path]:
    """Return where each file goes; refuse what would be lost, before anything is done.

    Raises
    ------
    InputError
        If a file would be replaced without `force`, two become one, or a source is a device or a
        stream and nothing says where its result goes.
    """
    from lanescope.codec.files import is_special

    if out is not None:
        if len(files) > 1:
            raise InputError(f"--out names one file, and {len(files)} are given; give --to DIR")
        targets = [out]
    if len({os.path.realpath(one) for one in targets}) < len(targets):
        raise InputError("two files would become one of the same name; give one at a time")
    for source, target in zip(files, targets, strict=True):
        if out is None and to is None and is_special(source):
            raise InputError(f"{source} is no file to write next to; name a place by --out or --to")
        if target.exists() and source.exists() and target.samefile(source):
            raise InputError(f"{target} would be written onto itself; give another --out")
        if not force and os.path.lexists(target) and not is_special(target):
            raise InputError(f"{target} is there already; give --force to replace it")
    return targets


def make_folder(folder: Path | None) -> None:
    """Make the folder of --to, if it is not there.

    Raises
    ------
    InputError
        If it cannot be.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}; name another") from error


@contextmanager
def progress_of(doing: str, source: Path) -> Iterator[Progress]:
    """Show on a terminal how much of a file is done; `doing` says what is."""
    from lanescope.cli.output import progress_bar
    from lanescope.compression.files import quiet

    with progress_bar(source.name, doing) as show:
        if show is None:
            yield quiet
            return
        yield lambda done, total: show(f"MiB of {source.name}", done >> 20, total >> 20)


def say(source: Path, target: Path, index: Index, stored: int, json: bool) -> None:
    """Print what became of a file, of which the compressed one has so many bytes.

    On standard error where standard output has what was written.
    """
    from lanescope.codec.files import is_standard_output

    aside = is_standard_output(target)
    if json:
        content = {"file": str(source), "written": str(target), **sizes_of(index, stored)}
        print(encoder.dumps(content), file=sys.stderr if aside else sys.stdout)
        return
    say_sizes(f"{source} → {target}", index.bytes, stored, aside=aside)


def say_sizes(what: str, size: int, stored: int, *, aside: bool) -> None:
    """Print a line with the bytes of something, and how many it has compressed.

    Parameters
    ----------
    aside
        Whether on standard error.
    """
    from lanescope.cli.output import console
    from lanescope.units.sizes import binary_text

    ratio = f", ratio {size / stored:.2f}" if stored else ""
    words = f"{what}: {binary_text(size)}, compressed {binary_text(stored)}{ratio}"
    console(error=aside).print(words, soft_wrap=True)


def sizes_of(index: Index, stored: int) -> dict[str, Any]:
    """Return what a compressed file of so many bytes holds, as JSON has it."""
    return {
        **({} if index.base is None else {"base": index.base.name}),
        "kind": index.kind,
        "bytes": index.bytes,
        "stored_bytes": stored,
        "ratio": index.bytes / stored,
    }
