"""``lanescope decompress``: files that ``compress`` wrote, restored or listed."""

from __future__ import annotations

import json as encoder
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lanescope.cli.compress import (
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
    say_sizes,
    sizes_of,
    targets_of,
    to_folder,
)
from lanescope.cli.options import Excludes, Exclusive, Needs, combines, flag, option, size_option
from lanescope.codec.fields import shown
from lanescope.errors import InputError
from lanescope.kinds import LONGEST_NAME
from lanescope.units.values import Value

if TYPE_CHECKING:
    from lanescope.compression.container import StoredSegment
    from lanescope.compression.files import CompressedFile


@combines(
    ONE_PLACE,
    Exclusive("--info", ("FILE", "--json", "--max-size"), "lists what is there"),
    Needs(("--tensor",), ("--out",), "is written into a file of its own"),
    Excludes("--tensor", ("--json",), "is one tensor alone"),
)
def decompress(
    files: FilesArgument,
    to: ToOption = None,
    out: OutOption = None,
    tensor: Annotated[
        str | None,
        option(
            Value("--tensor"),
            "Write this tensor of a .safetensors file alone, as a .safetensors file.",
        ),
    ] = None,
    info: Annotated[
        bool, flag("--info", "List what is in the files, with ratio and codec.")
    ] = False,
    max_size: Annotated[
        int | None,
        size_option(
            "--max-size", "Refuse a file that becomes larger than this, for files from strangers."
        ),
    ] = None,
    base: BaseOption = None,
    threads: ThreadsOption = 0,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Give back the files that 'lanescope compress' made smaller, byte by byte.

    Exit code: 0 done, 2 a file is damaged, larger than --max-size, or cannot be read or written.
    """
    from lanescope.compression.files import CompressedFile

    if info:
        for one in files:
            with CompressedFile(one, max_bytes=max_size) as opened:
                _list(opened, json)
        return
    if tensor is not None and len(files) > 1:
        raise InputError(f"--tensor is of one file, and {len(files)} are given; give one")
    require_one(files, base)
    targets = targets_of(files, list(_restored(files, to, out)), to, out, force)
    make_folder(to)
    for source, target in zip(files, targets, strict=True):
        with CompressedFile(source, max_bytes=max_size, base=base) as opened:
            if tensor is not None:
                opened.extract(tensor, target, threads=threads)
                _say_tensor(opened, tensor, target)
                return
            with progress_of("decompressing", source) as progress:
                opened.restore(target, threads=threads, progress=progress)
            say(source, target, opened.index, source.stat().st_size, json)


def _restored(files: list[Path], to: Path | None, out: Path | None) -> Iterator[Path]:
    from lanescope.compression.container import ENDING

    for one in files:
        if one.suffix != ENDING and out is None:
            end = "is nothing but" if one.name == ENDING else "does not end in"
            raise InputError(f"{one} {end} {ENDING}, so its new name is not known; give --out FILE")
        yield to_folder(one, to) / one.name.removesuffix(ENDING)


def _say_tensor(opened: CompressedFile, name: str, target: Path) -> None:
    from lanescope.codec.files import is_standard_output

    one = next(one for one in opened.index.segments if one.name == name)
    what = f"tensor {shown(name)} of {opened.path} → {target}"
    aside = is_standard_output(target)
    say_sizes(what, one.segment.bytes, one.stored_bytes, aside=aside)


def _list(opened: CompressedFile, json: bool) -> None:
    """Print what is in a compressed file."""
    index, stored = opened.index, opened.path.stat().st_size
    if json:
        found = {"file": str(opened.path), **sizes_of(index, stored)}
        print(encoder.dumps({**found, "segments": [_fields(one) for one in index.segments]}))
        return
    from lanescope.cli.output import print_blocks
    from lanescope.document.blocks import ColumnOf, Kind, Table

    columns: list[ColumnOf[StoredSegment]] = [
        ColumnOf("array", lambda one: "–" if one.name is None else _in_one_line(one.name)),
        ColumnOf("type", lambda one: one.dtype),
        ColumnOf("shape", lambda one: " × ".join(map(str, one.shape)) or "one value"),
        ColumnOf("bytes", lambda one: one.segment.bytes, Kind.SUM),
        ColumnOf("stored", lambda one: one.stored_bytes, Kind.SUM),
        ColumnOf("ratio", _ratio, Kind.FACTOR),
        ColumnOf("codec", _codecs_text),
    ]
    title = f"{opened.path}: {index.kind}, ratio {index.bytes / stored:.2f}"
    if index.base is not None:
        title += f", needs the base {index.base.name}"
    print_blocks([Table.of(title, columns, index.segments)])


def _in_one_line(name: str) -> str:
    """Return a tensor's name as it is, or quoted and short if it would not fit a line."""
    plain = name.isprintable() and name.strip() and len(name) <= LONGEST_NAME
    return name if plain else shown(name)


def _ratio(one: StoredSegment) -> float | None:
    return one.segment.bytes / one.stored_bytes if one.stored_bytes else None


def _codecs_text(one: StoredSegment) -> str:
    return ", ".join(one.codecs) + (" of differences" if one.needs_base else "")


def _fields(one: StoredSegment) -> dict[str, Any]:
    return {
        "name": one.name,
        "dtype": one.dtype,
        "shape": list(one.shape),
        "bytes": one.segment.bytes,
        "stored_bytes": one.stored_bytes,
        "codecs": one.codecs,
        **({"needs_base": True} if one.needs_base else {}),
    }
