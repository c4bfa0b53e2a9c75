"""What codecs made of arrays, as the blocks of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lanescope.compression.rule import MARGIN
from lanescope.document.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Group,
    Headline,
    Kind,
    Section,
    Style,
    Table,
    Text,
    Tone,
    Value,
)
from lanescope.report.format import bytes_text, count_text
from lanescope.studies.compress.results import (
    ArrayResult,
    Crossing,
    Kernels,
    Measured,
    Sum,
    sums_by_dtype,
)
from lanescope.studies.compress.verdicts import (
    break_even_gbs,
    crossing_break_even,
    path_text,
    pays,
    predict,
    rates_of,
    raw_gbs,
    sentences,
)

if TYPE_CHECKING:
    from lanescope.studies.compress.compressed import Compressed

#: Of so many arrays, the largest, each is shown; the others are in the file.
_MOST_ARRAYS = 16
#: So many arrays that gain are named in the headline.
_MOST_NAMED = 3
_ON_GPUS = (
    "Kernels: by events of the GPU, within its memory. Over links: measured by events of the GPUs, "
    "compressed in turns with the raw copy of the copy engine; GB/s of the array, median and 95 % "
    "interval. A smaller array lies there several times, one after the other: blocks of 64 KiB "
    "keep no state. pays from: the size from which on the rule of channels predicts a gain, from "
    "the speeds measured here."
)
_SPEEDS = (
    Column("in GB/s", Kind.GBS, "Compressing, of the array"),
    Column("out GB/s", Kind.GBS, "Decompressing, of the array"),
    Column("pays below", Kind.GBS, "GB/s of the fastest link on which compressing pays; predicted"),
)
_OVER = Column("over the link", Kind.GBS, "GB/s of the array; predicted")
#: A value of a row that only the last row of a codec has.
_LATER = ""


def compress_headline(found: Compressed) -> Headline:
    """Return for which arrays compressing pays."""
    if not found.arrays:
        return Headline("No array was measured.", Tone.OPEN)
    crossed = any(one.crossings for one in found.arrays)
    if not crossed and found.link is None:
        words = "Nothing crossed a link: below each array stands on which links compressing pays."
        return Headline(words, Tone.QUIET)
    how = "measured" if crossed else "predicted"
    gaining = [one.name for one in found.arrays if pays(one, found.link, found.slab_bytes)]
    if not gaining:
        words = f"Leave all arrays raw: compressing pays for none of them ({how})."
        return Headline(words, Tone.QUIET)
    names = ", ".join(gaining[:_MOST_NAMED])
    more = f" and {len(gaining) - _MOST_NAMED} more" if len(gaining) > _MOST_NAMED else ""
    words = f"Compressing pays for {len(gaining)} of {len(found.arrays)} arrays ({how})"
    return Headline(f"{words}: {names}{more}.", Tone.GOOD)


def compress_blocks(found: Compressed) -> list[Block]:
    """Return a section for each array, with what to do, then the sums and what was left out."""
    shown = sorted(found.arrays, key=lambda one: -one.bytes)[:_MOST_ARRAYS]
    blocks: list[Block] = [
        Section(f"array-{number}", one.name, list(_array(one, found)))
        for number, one in enumerate(one for one in found.arrays if one in shown)
    ]
    if sums := sums_by_dtype(found.arrays):
        blocks.append(Section("sums", "All arrays of a type", [_sums(sums)]))
    notes = [f"left out: {sentence}" for sentence in found.left_out]
    if more := len(found.arrays) - len(shown):
        words = f"{count_text(more, 'smaller array')} not shown, each of them is in the run's file"
        notes.insert(0, words)
    if not found.complete:
        what = "not all arrays were" if found.arrays else "no array was"
        notes.append(f"This run was cut off: {what} measured.")
    blocks.append(Bullets(notes))
    if found.arrays:
        blocks.append(Text(_explanation(found), Style.QUIET))
    return blocks


def _array(one: ArrayResult, found: Compressed) -> Iterator[Block]:
    yield _codecs(one, found)
    if one.dimensionalities:
        ratios = (f"{each.dimensionality}: {_ratio(each.ratio)}" for each in one.dimensionalities)
        yield Text(f"gfc by dimensionality: {', '.join(ratios)}")
    if one.gpu:
        yield _kernels(one, found)
    if one.crossings:
        yield _crossings(one)
    yield Bullets([f"not measured: {sentence}" for sentence in one.gpu_notes])
    yield Bullets([f"→ {words}" for words in sentences(one, found.link, found.slab_bytes)])


def _codecs(one: ArrayResult, found: Compressed) -> Table:
    columns = [
        Column("codec"),
        Column("on", Kind.FIGURES, "Threads"),
        Column("ratio", Kind.FIGURES, "Bytes of the array over bytes of the stream"),
        Column("saving", Kind.SHARE, "1 - 1/ratio: the data rate saving of Anton 2015, equation 1"),
    ]
    rows: list[list[Value | Cell]] = []
    for each in one.codecs:
        saving = round(each.data_rate_saving, 3) or 0.0  # rounded, and not -0.0
        about = (each.choice.name, _ratio(each.ratio), saving)
        if not each.timings:
            rows.append([about[0], None, *about[1:], *_missing(found)])
        rows += [
            [about[0], str(timing.threads), *about[1:], *speeds]
            for timing, speeds in zip(each.timings, _speeds(each, one, found), strict=True)
        ]
    if found.link is not None and any(each.timings for each in one.codecs):
        rows.append(["raw", *[None] * 6, raw_gbs(one.bytes, found.link)])
    return Table(_title(one), [*columns, *_speed_columns(found)], [Group(rows)])


def _kernels(one: ArrayResult, found: Compressed) -> Table:
    first = one.gpu[0]
    name = f" ({found.gpus[first.gpu]})" if first.gpu < len(found.gpus) else ""
    columns = [Column("codec"), Column("SMs", Kind.FIGURES), Column("ratio", Kind.FIGURES)]
    rows = [
        [each.choice.name, str(timing.threads or "all"), _ratio(each.ratio), *speeds]
        for each in one.gpu
        for timing, speeds in zip(each.timings, _speeds(each, one, found), strict=True)
    ]
    title = f"kernels on GPU {first.gpu}{name}, {_times_text(first.bytes, one)}"
    return Table(title, [*columns, *_speed_columns(found)], [Group(rows)])


def _speed_columns(found: Compressed) -> list[Column]:
    return [*_SPEEDS, *((_OVER,) if found.link is not None else ())]


def _missing(found: Compressed) -> list[None]:
    return [None] * len(_speed_columns(found))


def _speeds(
    one: Measured | Kernels, array: ArrayResult, found: Compressed
) -> Iterator[list[Value | Cell]]:
    """Yield the speeds of each number of threads or SMs; predictions stand at the last."""
    for timing in one.timings:
        speeds = [Cell(timing.compress_gbs), Cell(timing.decompress_gbs)]
        if timing is not one.timings[-1]:
            yield [*speeds, *[_LATER] * (len(_speed_columns(found)) - len(speeds))]
            continue
        rates = rates_of(one)
        predicted: list[float | None] = [break_even_gbs(array.bytes, rates, found.slab_bytes)]
        if found.link is not None:
            over = predict(array.bytes, rates, found.link, found.slab_bytes)
            predicted.append(over.gbs.value)
        yield [*speeds, *predicted]


def _crossings(array: ArrayResult) -> Table:
    columns = (
        Column("path"),
        Column("size", Kind.BYTES),
        Column("codec"),
        Column("SMs", Kind.FIGURES),
        Column("raw GB/s", Kind.GBS),
        Column("GB/s", Kind.GBS),
        Column("times as fast", Kind.FACTOR),
        Column("pays from", Kind.BYTES),
    )
    paths = list(dict.fromkeys(one.path for one in array.crossings))
    # stable, so that codecs stay in their order
    ordered = sorted(array.crossings, key=lambda one: (paths.index(one.path), one.bytes))
    rows = [
        (
            path_text(one.path),
            one.bytes,
            one.choice.name,
            str(one.sms or "all"),
            one.raw_gbs,
            one.gbs,
            one.speedup,
            _pays_from(one, array),
        )
        for one in ordered
    ]
    return Table("over links, compressed in turns with the raw copy", columns, [Group(rows)])


def _pays_from(one: Crossing, array: ArrayResult) -> int | str | None:
    """Return it at the largest size of a path."""
    if one.bytes < max(each.bytes for each in array.crossings if each.path == one.path):
        return _LATER
    if (size := crossing_break_even(array, one)) is not None:
        return size
    return "never" if any(each.choice == one.choice for each in array.gpu) else None


def _sums(sums: Sequence[Sum]) -> Table:
    columns = (
        Column("type"),
        Column("codec"),
        Column("arrays", Kind.COUNT),
        Column("size", Kind.SUM),
        Column("compressed", Kind.SUM),
        Column("ratio", Kind.FIGURES),
        Column("in GB/s", Kind.GBS),
        Column("out GB/s", Kind.GBS),
    )
    rows = [
        (
            one.dtype,
            "constant blocks" if one.codec == "raw" else str(one.codec),
            one.arrays,
            one.bytes,
            one.stored_bytes,
            _ratio(one.ratio),
            one.compress_gbs,
            one.decompress_gbs,
        )
        for one in sums
    ]
    return Table("all arrays of a type", columns, [Group(rows)])


def _title(one: ArrayResult) -> str:
    shape = "×".join(str(side) for side in one.shape) or "one value"
    notes = [*(["made up"] if one.made_up else []), *([one.note] if one.note else [])]
    more = f"; {', '.join(notes)}" if notes else ""
    return f"{one.name}: {one.dtype} {shape}, {bytes_text(one.bytes)}{more}"


def _times_text(size: int, array: ArrayResult) -> str:
    if size > array.bytes:
        return f"the array {size / array.bytes:.4g} times over: {bytes_text(size)}"
    return "all of it" if size == array.bytes else f"its first {bytes_text(size)}"


def _ratio(ratio: float) -> str:
    """Return a ratio with three decimals, fewer where it is large."""
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.4g}"


def _explanation(found: Compressed) -> str:
    over = (
        f" over the link: GB/s over {found.link.name}; predicted, not measured."
        if found.link
        else ""
    )
    gpus = f" {_ON_GPUS}" if any(one.gpu or one.crossings for one in found.arrays) else ""
    return (
        "ratio: bytes of the array over bytes of the stream; saving: 1 - 1/ratio (the data rate "
        "saving of Anton 2015, equation 1); on: threads; in, out: compressing and decompressing, "
        "GB/s of the array, median and 95 % interval; every byte came back as it was. pays below: "
        f"GB/s of the fastest link on which compressing takes at most {MARGIN} of the time, "
        "predicted from the speeds with the most threads (SMs) at both ends and slabs of "
        f"{bytes_text(found.slab_bytes)}.{over}{gpus}"
    )
