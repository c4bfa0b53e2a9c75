"""What codecs made of arrays, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.compression.costs import MARGIN
from lanescope.report.format import (
    MISSING,
    bytes_text,
    count_text,
    gbs_text,
    percent_text,
    sum_text,
)
from lanescope.studies.compress.advice import (
    Link,
    break_even_gbs,
    predict,
    rates_of,
    raw_gbs,
)
from lanescope.studies.compress.gpu_tables import GPU_EXPLANATION, gpu_tables
from lanescope.studies.compress.json import CompressRequest
from lanescope.studies.compress.results import ArrayResult, Measured, Sum, sums_by_dtype
from lanescope.studies.compress.text import add_speed_columns, estimate_text, ratio_text
from lanescope.studies.compress.verdicts import sentences

#: Of so many arrays, the largest, each is shown; the others are in the file.
_MOST_ARRAYS = 16
#: What must not be cut on a narrow terminal: a word, and an interval.
_CODEC_WIDTH = 8


def compress_tables(
    results: Sequence[ArrayResult], asked: CompressRequest, left_out: Sequence[str]
) -> Iterator[RenderableType]:
    """Return a table for each array, with what to do, then the sums and what was left out."""
    shown = sorted(results, key=lambda one: -one.bytes)[:_MOST_ARRAYS]
    for result in (one for one in results if one in shown):
        yield _array_table(result, asked)
        if result.dimensionalities:
            yield Text(f"gfc by dimensionality: {_by_dimensionality(result)}")
        yield from gpu_tables(result, asked)
        for sentence in sentences(result, asked.link, asked.slab_bytes):
            yield Text.assemble(("→ ", "bold"), sentence)
        yield ""
    if sums := sums_by_dtype(results):
        yield _sums_table(sums)
    if len(results) > len(shown):
        more = count_text(len(results) - len(shown), "smaller array")
        yield Text(f"{more} not shown, each of them is in the run's file")
    for sentence in left_out:
        yield Text(f"left out: {sentence}")
    if results:
        yield Text(_explanation(results, asked), "dim")


def _array_table(result: ArrayResult, asked: CompressRequest) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title = Text(_title(result), "bold")
    table.title_justify = "left"
    table.add_column("codec", min_width=_CODEC_WIDTH)
    for header in ("on", "ratio", "saving"):
        table.add_column(header, justify="right", no_wrap=True)
    add_speed_columns(table, over_a_link=asked.link is not None)
    for one in result.codecs:
        for row in _rows(one, result, asked):
            table.add_row(*row)
    if asked.link is not None and any(one.timings for one in result.codecs):
        table.add_row("raw", *[MISSING] * 6, gbs_text(raw_gbs(result.bytes, asked.link)))
    return table


def _rows(one: Measured, result: ArrayResult, asked: CompressRequest) -> Iterator[tuple[str, ...]]:
    """Return a row for each number of threads; what is predicted stands in the last."""
    # rounded, and not -0.0
    told = [
        one.choice.name,
        ratio_text(one.ratio),
        percent_text(round(one.data_rate_saving, 3) or 0.0),
    ]
    if not one.timings:
        missing = [MISSING] * (4 if asked.link is None else 5)
        yield told[0], missing[0], *told[1:], *missing[1:]
        return
    rates = rates_of(one)
    for timing in one.timings:
        speeds = (estimate_text(timing.compress_gbs), estimate_text(timing.decompress_gbs))
        predicted = ["", ""]
        if timing is one.timings[-1]:
            below = break_even_gbs(result.bytes, rates, asked.slab_bytes)
            predicted[0] = gbs_text(below)
            if asked.link is not None:
                over = predict(result.bytes, rates, asked.link, asked.slab_bytes)
                predicted[1] = gbs_text(over.gbs.value)
        shown = predicted if asked.link is not None else predicted[:1]
        yield told[0], str(timing.threads), *told[1:], *speeds, *shown
        told = ["", "", ""]


def _title(result: ArrayResult) -> str:
    shape = "×".join(str(side) for side in result.shape) or "one value"
    notes = (["made up"] if result.made_up else []) + ([result.note] if result.note else [])
    told = f"; {', '.join(notes)}" if notes else ""
    return f"{result.name}: {result.dtype} {shape}, {bytes_text(result.bytes)}{told}"


def _by_dimensionality(result: ArrayResult) -> str:
    those = result.dimensionalities
    return ", ".join(f"{one.choice.dimensionality}: {ratio_text(one.ratio)}" for one in those)


def _sums_table(sums: Sequence[Sum]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title = Text("all arrays of a type", "bold")
    table.title_justify = "left"
    for header in ("type", "codec"):
        table.add_column(header, no_wrap=True)
    for header in ("arrays", "size", "compressed", "ratio", "in GB/s", "out GB/s"):
        table.add_column(header, justify="right", no_wrap=True)
    for one in sums:
        table.add_row(
            one.dtype,
            "constant blocks" if one.codec == "raw" else str(one.codec),
            str(one.arrays),
            sum_text(one.bytes),
            sum_text(one.stored_bytes),
            ratio_text(one.ratio),
            gbs_text(one.compress_gbs),
            gbs_text(one.decompress_gbs),
        )
    return table


def _explanation(results: Sequence[ArrayResult], asked: CompressRequest) -> str:
    speeds = (
        "in, out: compressing and decompressing, GB/s of the array, median and 95 % interval; "
        "every byte came back as it was. "
    )
    return (
        "ratio: bytes of the array over bytes of the stream; saving: 1 - 1/ratio (the data rate "
        "saving of Anton 2015, equation 1); on: threads; "
        f"{speeds}pays below: "
        f"GB/s of the fastest link on which compressing takes at most {MARGIN} of the time, "
        "predicted from the speeds with the most threads (SMs) at both ends and slabs of "
        f"{bytes_text(asked.slab_bytes)}."
        + _link_text(asked.link)
        + (f" {GPU_EXPLANATION}" if any(one.gpu or one.crossings for one in results) else "")
    )


def _link_text(link: Link | None) -> str:
    if link is None:
        return ""
    return f" over the link: GB/s over {link.name}; predicted, not measured."
