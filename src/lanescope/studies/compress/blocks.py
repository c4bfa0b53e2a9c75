"""What codecs made of arrays, as the blocks of a report and its charts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lanescope.compression.rule import MARGIN
from lanescope.document.blocks import (
    Block,
    Bullets,
    Column,
    ColumnOf,
    Group,
    Headline,
    Kind,
    Section,
    Style,
    Table,
    TableCell,
    Text,
    Tone,
    Value,
)
from lanescope.document.contents import INTERVAL, Axis, Chart, Curve
from lanescope.errors import InputError
from lanescope.report.format import bytes_text, count_text
from lanescope.studies.compress.results import (
    ArrayResult,
    Crossing,
    Measured,
    MeasuredKernels,
    Sum,
    speed,
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
from lanescope.units.estimate import Estimate

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
#: Curves that can be told apart.
_MOST_CURVES = 12
#: Of so many arrays, the largest, data rates are drawn: a chart for each path.
_MOST_DRAWN = 4


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
    rows: list[list[Value | TableCell]] = []
    for each in one.codecs:
        saving = round(each.data_rate_saving, 3) or 0.0  # rounded, and not -0.0
        about = (each.choice.name, _ratio(each.ratio), saving)
        if not each.timings:
            rows.append([about[0], None, *about[1:], *[None] * len(_speed_columns(found))])
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


def _speeds(
    one: Measured | MeasuredKernels, array: ArrayResult, found: Compressed
) -> Iterator[list[Value | TableCell]]:
    """Yield the speeds of each number of threads or SMs; predictions stand at the last."""
    for timing in one.timings:
        speeds = [TableCell(timing.compress_gbs), TableCell(timing.decompress_gbs)]
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
    columns: list[ColumnOf[Crossing]] = [
        ColumnOf("path", lambda one: path_text(one.path)),
        ColumnOf("size", lambda one: one.bytes, Kind.BYTES),
        ColumnOf("codec", lambda one: one.choice.name),
        ColumnOf("SMs", lambda one: str(one.sms or "all"), Kind.FIGURES),
        ColumnOf("raw GB/s", lambda one: one.raw_gbs, Kind.GBS),
        ColumnOf("GB/s", lambda one: one.gbs, Kind.GBS),
        ColumnOf("times as fast", lambda one: one.speedup, Kind.FACTOR),
        ColumnOf("pays from", lambda one: _pays_from(one, array), Kind.BYTES),
    ]
    paths = list(dict.fromkeys(one.path for one in array.crossings))
    # stable, so that codecs stay in their order
    ordered = sorted(array.crossings, key=lambda one: (paths.index(one.path), one.bytes))
    return Table.of("over links, compressed in turns with the raw copy", columns, ordered)


def _pays_from(one: Crossing, array: ArrayResult) -> int | str | None:
    """Return it at the largest size of a path."""
    if one.bytes < max(each.bytes for each in array.crossings if each.path == one.path):
        return _LATER
    if (size := crossing_break_even(array, one)) is not None:
        return size
    return "never" if any(each.choice == one.choice for each in array.gpu) else None


def _sums(sums: Sequence[Sum]) -> Table:
    columns: list[ColumnOf[Sum]] = [
        ColumnOf("type", lambda one: one.dtype),
        ColumnOf("codec", lambda one: "constant blocks" if one.codec == "raw" else str(one.codec)),
        ColumnOf("arrays", lambda one: one.arrays, Kind.COUNT),
        ColumnOf("size", lambda one: one.bytes, Kind.SUM),
        ColumnOf("compressed", lambda one: one.stored_bytes, Kind.SUM),
        ColumnOf("ratio", lambda one: _ratio(one.ratio), Kind.FIGURES),
        ColumnOf("in GB/s", lambda one: one.compress_gbs, Kind.GBS),
        ColumnOf("out GB/s", lambda one: one.decompress_gbs, Kind.GBS),
    ]
    return Table.of("all arrays of a type", columns, sums)


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


def compress_chart(results: Sequence[ArrayResult]) -> Chart:
    """Return ratio over dimensionality: a curve for each array that GFC takes, the largest ones.

    As figure 7 of Anton (2015).

    Raises
    ------
    InputError
        If there is none.
    """
    known = [one for one in results if one.dimensionalities]
    if not known:
        raise InputError(
            "what GFC makes of arrays cannot be drawn: none of them was of a type that it takes; "
            "give one of fp64 or fp32"
        )
    drawn = sorted(known, key=lambda one: -one.bytes)[:_MOST_CURVES]
    curves = [
        Curve(
            _name(one),
            tuple(float(each.dimensionality) for each in one.dimensionalities),
            tuple(each.ratio for each in one.dimensionalities),
            colour=number,
        )
        for number, one in enumerate(drawn)
    ]
    return Chart(
        "compress",
        "compression",
        "Compression ratio by GFC's dimensionality",
        "Bytes of the array over bytes of the stream; above 1 it became smaller",
        Axis("Dimensionality"),
        Axis("Compression ratio"),
        tuple(curves),
        notes=_not_drawn(known, drawn),
    )


def drawn_rate_charts(results: Sequence[ArrayResult]) -> tuple[Chart, ...]:
    """Return the charts of the largest arrays that crossed links; none where nothing did."""
    crossed = [one for one in results if one.crossings]
    drawn = sorted(crossed, key=lambda one: -one.bytes)[:_MOST_DRAWN]
    named = [replace(each, data=_name(one)) for one in drawn for each in one.crossings]
    return rate_charts(named, _not_drawn(crossed, drawn))


def rate_charts(crossings: Sequence[Crossing], notes: tuple[str, ...] = ()) -> tuple[Chart, ...]:
    """Return data rate by transfer size: a chart for each path and kind of data, in their order.

    As figure 6 of Anton (2015).
    """
    kinds = dict.fromkeys((one.path, one.data) for one in crossings)
    return tuple(
        _rate_chart(
            path, data, [one for one in crossings if (one.path, one.data) == (path, data)], notes
        )
        for path, data in kinds
    )


def _rate_chart(
    path: str, data: str, crossings: Sequence[Crossing], notes: tuple[str, ...]
) -> Chart:
    sms = sorted({one.sms for one in crossings})
    codecs = list(dict.fromkeys(one.codec for one in crossings))
    curves = [_raw(crossings)]
    for codec, count in dict.fromkeys((one.codec, one.sms) for one in crossings):
        those = [one for one in crossings if (one.codec, one.sms) == (codec, count)]
        largest = max(those, key=lambda one: one.bytes)
        name = f"{codec}, ratio {largest.ratio:.3g}"
        if len(sms) > 1:
            name += f", {count} SMs" if count else ", all SMs"
        points = {one.bytes: one.gbs for one in those}
        curves.append(_curve(name, points, codecs.index(codec) + 1, sms.index(count)))
    return Chart(
        re.sub(r"[^a-z0-9]+", "-", f"compress-rate-{path}-{data}".lower()).strip("-"),
        "compression",
        f"Effective data rate by transfer size: {data} over {path_text(path)}",
        "GB/s of the array, whatever crossed the link; compressed in turns with the raw copy",
        Axis("Transfer size", "B", log=True),
        Axis("Effective data rate", "GB/s"),
        tuple(curves),
        band=INTERVAL,
        notes=("The ratio is that of the largest array.", *notes),
    )


def _raw(crossings: Iterable[Crossing]) -> Curve:
    """Return the curve of raw copies: all samples of a size, whatever their turns."""
    samples: dict[int, list[float]] = {}
    for one in crossings:
        samples.setdefault(one.bytes, []).extend(one.raw_seconds)
    return _curve("raw", {size: speed(size, times) for size, times in samples.items()}, 0, 0)


def _curve(name: str, points: dict[int, Estimate], colour: int, dash: int) -> Curve:
    sizes = sorted(points)
    found = [points[size] for size in sizes]
    return Curve(
        name,
        tuple(float(size) for size in sizes),
        tuple(one.value for one in found),
        low=tuple(one.low for one in found),
        high=tuple(one.high for one in found),
        colour=colour,
        dash=dash,
    )


def _name(one: ArrayResult) -> str:
    return one.name.rsplit("/", 1)[-1] + (", made up" if one.made_up else "")


def _not_drawn(known: Sequence[ArrayResult], drawn: Sequence[ArrayResult]) -> tuple[str, ...]:
    more = len(known) - len(drawn)
    return (f"Not drawn: {count_text(more, 'smaller array')}.",) if more else ()
