"""What GPUs did with arrays, for a terminal: their kernels, and their links."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lanescope.report.format import MISSING, bytes_text, gbs_text
from lanescope.studies.compress.advice import break_even_gbs, predict, rates_of
from lanescope.studies.compress.crossings import Crossing
from lanescope.studies.compress.json import CompressRequest
from lanescope.studies.compress.results import ArrayResult, Kernels
from lanescope.studies.compress.text import (
    SPEED_WIDTH,
    add_speed_columns,
    estimate_text,
    ratio_text,
)
from lanescope.studies.compress.verdicts import break_even_bytes, path_text

GPU_EXPLANATION = (
    "Kernels: by events of the GPU, within its memory. Over links: measured by events of the GPUs, "
    "compressed in turns with the raw copy of the copy engine; GB/s of the array, median and 95 % "
    "interval. A smaller array lies there several times, one after the other: blocks of 64 KiB "
    "keep no state. pays from: the size from which on the rule of channels predicts a gain, from "
    "the speeds measured here."
)


def gpu_tables(result: ArrayResult, asked: CompressRequest) -> Iterator[RenderableType]:
    """Return a table of kernels and one of links, where they were measured, and what was not."""
    if result.gpu:
        yield _kernels_table(result, asked)
    if result.crossings:
        yield _crossings_table(result)
    for sentence in result.gpu_notes:
        yield Text(f"not measured: {sentence}")


def _kernels_table(result: ArrayResult, asked: CompressRequest) -> Table:
    first = result.gpu[0]
    table = _table(f"kernels on {_gpu_text(first.gpu, asked)}, {_times_text(first.bytes, result)}")
    table.add_column("codec", min_width=len("constant"))
    for header in ("SMs", "ratio"):
        table.add_column(header, justify="right", no_wrap=True)
    add_speed_columns(table, over_a_link=asked.link is not None)
    for one in result.gpu:
        for row in _kernel_rows(one, result, asked):
            table.add_row(*row)
    return table


def _kernel_rows(
    one: Kernels, result: ArrayResult, asked: CompressRequest
) -> Iterator[tuple[str, ...]]:
    """Return a row for each number of SMs; what is predicted stands in the last."""
    told = (one.choice.name, ratio_text(one.ratio))
    for timing in one.timings:
        last = timing is one.timings[-1]
        predicted = []
        below = break_even_gbs(result.bytes, rates_of(one), asked.slab_bytes)
        predicted.append(gbs_text(below) if last else "")
        if asked.link is not None:
            over = predict(result.bytes, rates_of(one), asked.link, asked.slab_bytes)
            predicted.append(gbs_text(over.gbs.value) if last else "")
        speeds = (estimate_text(timing.compress_gbs), estimate_text(timing.decompress_gbs))
        yield told[0], str(timing.threads or "all"), told[1], *speeds, *predicted
        told = ("", "")


def _crossings_table(result: ArrayResult) -> Table:
    table = _table("over links, compressed in turns with the raw copy")
    for header in ("path", "size"):
        table.add_column(header)
    table.add_column("codec", min_width=len("exponent"))
    table.add_column("SMs", justify="right")
    for header in ("raw GB/s", "GB/s", "times as fast"):
        table.add_column(header, justify="right", min_width=SPEED_WIDTH)
    table.add_column("pays from", justify="right", min_width=len("from"))
    before = ("", "")
    paths = list(dict.fromkeys(one.path for one in result.crossings))
    # stable, so that codecs keep their order
    for one in sorted(result.crossings, key=lambda one: (paths.index(one.path), one.bytes)):
        now = (path_text(one.path), bytes_text(one.bytes))
        table.add_row(
            now[0] if now[0] != before[0] else "",
            now[1] if now != before else "",
            *_crossing_row(one, result),
        )
        before = now
    return table


def _crossing_row(one: Crossing, result: ArrayResult) -> tuple[str, ...]:
    largest = max(other.bytes for other in result.crossings if other.path == one.path)
    pays = ""
    if one.bytes == largest:
        measured = any(kernels.choice == one.choice for kernels in result.gpu)
        size = break_even_bytes(result, one)
        pays = bytes_text(size) if size is not None else "never" if measured else MISSING
    speedup = one.speedup
    return (
        one.choice.name,
        str(one.sms or "all"),
        estimate_text(one.raw_gbs),
        estimate_text(one.gbs),
        f"{speedup.value:.2f} ({speedup.low:.2f}–{speedup.high:.2f})",
        pays,
    )


def _table(title: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.title = Text(title, "bold")
    table.title_justify = "left"
    return table


def _gpu_text(gpu: int, asked: CompressRequest) -> str:
    return f"GPU {gpu}" + (f" ({asked.gpus[gpu]})" if gpu < len(asked.gpus) else "")


def _times_text(size: int, result: ArrayResult) -> str:
    if size > result.bytes:
        return f"the array {size / result.bytes:.4g} times over: {bytes_text(size)}"
    return "all of it" if size == result.bytes else f"its first {bytes_text(size)}"
