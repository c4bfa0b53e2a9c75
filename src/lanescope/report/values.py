"""How values are written: in blocks, by their column, and on the axes of charts with ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, isfinite, log2, log10

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Facts,
    Judgement,
    Kind,
    Link,
    Listing,
    Span,
    Text,
    Tone,
    Value,
    Words,
)
from lanescope.document.chart import Axis, Chart
from lanescope.document.finding import Finding, Snippet
from lanescope.report.format import (
    MISSING,
    bytes_text,
    estimate_text,
    fine_percent_text,
    gbs_text,
    half_width_text,
    percent_text,
    seconds_text,
    signed_percent_text,
    spread_text,
    sum_text,
    time_spread_text,
)
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import is_decimal

_WRITTEN = {
    Kind.GBS: gbs_text,
    Kind.SECONDS: seconds_text,
    Kind.BYTES: bytes_text,
    Kind.SUM: sum_text,
    Kind.SHARE: percent_text,
    Kind.FINE_SHARE: fine_percent_text,
    Kind.ERROR: signed_percent_text,
    Kind.FACTOR: "{:.2f}".format,
    Kind.HALF_WIDTH: half_width_text,
}
_MOST_TICKS = 10
_FEW_DECADES = 2


def value_text(column: Column, value: Value) -> str:
    """Return a value as its column writes it; `MISSING` for None."""
    if value is None:
        return MISSING
    if isinstance(value, Estimate):
        write = _WRITTEN.get(column.kind, seconds_text)
        if write is seconds_text:
            return estimate_text(value)
        return f"{write(value.value)} ({write(value.low)}–{write(value.high)})"
    if isinstance(value, Span):
        spread = time_spread_text if column.kind is Kind.SECONDS else spread_text
        return spread(value.low, value.high)
    if isinstance(value, Judgement):
        remedy = f" → {value.remedy}" if value.remedy else ""
        return f"{value.badge.word}: {value.reason}{remedy}"
    if isinstance(value, Badge):
        return value.word
    if isinstance(value, Code | Link):
        return value.words
    if isinstance(value, str):
        return value
    return _WRITTEN.get(column.kind, str)(value)


def is_number(column: Column) -> bool:
    """Whether a column's values stand right-aligned."""
    return column.kind not in (Kind.TEXT, Kind.BAR)


def cell_of(value: Value | Cell) -> Cell:
    """Return a value as a cell."""
    return value if isinstance(value, Cell) else Cell(value)


def pieces(words: Words) -> tuple[str | Code | Badge, ...]:
    """Return a sentence as its pieces."""
    return (words,) if isinstance(words, str) else words


def finding_blocks(findings: Sequence[Finding]) -> list[Block]:
    """Return each finding with its evidence, the command that confirms it, and the remedy."""
    blocks: list[Block] = []
    for found in findings:
        blocks += [
            Text((Badge(found.kind, Tone.BAD), f": {found.sentence}")),
            Bullets([f"observed: {line}" for line in found.evidence]),
            Facts([("To confirm", (Code(found.confirm),)), ("What to do", found.remedy)]),
        ]
    return blocks


def listing_head(block: Listing) -> str:
    """Return what stands above the lines of a listing, or in their place."""
    snippet, marks = block.snippet, f"({block.marks}) " if block.marks else ""
    why = f" {snippet.why_none}." if snippet.why_none else ""
    return f"{marks}{snippet.what}, in {snippet.language}:{why}"


def listing_lines(snippet: Snippet) -> list[tuple[str, str]]:
    """Return the lines of a snippet with their signs: ``-`` as it is, ``+`` as it should be."""
    both = (("-", snippet.before), ("+", snippet.after))
    return [(sign, line) for sign, lines in both if lines for line in lines.split("\n")]


def finding_text(found: Finding) -> str:
    """Return a finding with its remedy and what that would bring."""
    gain, to_do = found.gain_seconds, f" To do: {found.remedy}." if found.remedy else ""
    if gain is None:
        return f"{found.sentence}{to_do}"
    most = f"at most {seconds_text(gain.high)}" if gain.low == 0 else estimate_text(gain)
    return f"{found.sentence}{to_do} Predicted gain: {most}."


def ticks(axis: Axis, values: Iterable[float]) -> tuple[list[float], list[str]]:
    """Return where an axis has ticks and what they say; empty where they come by themselves."""
    known = [v for v in values if v > 0]
    if not known or not axis.log:
        return [], []
    if axis.unit == "s":
        times = _time_ticks(min(known), max(known))
        return times, [_plain(seconds_text(time)) for time in times]
    if axis.unit == "B" and is_decimal(known):
        sizes = [10.0**p for p in _powers(floor(log10(min(known))), ceil(log10(max(known))))]
        return sizes, [bytes_text(size) for size in sizes]
    powers = _powers(floor(log2(min(known))), ceil(log2(max(known))))
    if axis.unit == "B":
        return [2.0**p for p in powers], [bytes_text(2.0**p) for p in powers]
    return [2.0**p for p in powers], [f"{2.0**p:g}" for p in powers]


def x_values(chart: Chart) -> list[float]:
    """Return every x of a chart."""
    return [x for curve in chart.curves for x in curve.x]


def y_values(chart: Chart) -> list[float]:
    """Return every y of a chart, those of bands too."""
    values = (y for c in chart.curves for ys in (c.y, c.low, c.high) for y in ys)
    return [y for y in values if isfinite(y)]


def axis_text(axis: Axis, value: float) -> str:
    """Return a value of an axis with its unit."""
    match axis.unit:
        case "B":
            return bytes_text(value)
        case "s":
            return seconds_text(value)
    return f"{float(f'{value:.3g}'):g} {axis.unit}"


def axis_title(axis: Axis) -> str:
    """Return an axis' title with its unit."""
    return axis.label if axis.unit in ("B", "s", "") else f"{axis.label} ({axis.unit})"


def _time_ticks(low: float, high: float) -> list[float]:
    """Powers of ten around a range of times; where it is narrow, also 2 and 5 times them."""
    first, last = floor(log10(low)), ceil(log10(high))
    if last - first > _FEW_DECADES:
        return [10.0**p for p in _powers(first, last)]
    fine = [float(f"{m}e{p}") for p in range(first - 1, last + 1) for m in (1, 2, 5)]
    below = max(t for t in fine if t <= low)
    above = min(t for t in fine if t >= high * 1.01)
    return [t for t in fine if below <= t <= above]


def _powers(low: int, high: int) -> range:
    return range(low, high + 1, max(1, -(-(high - low) // (_MOST_TICKS - 1))))


def _plain(text: str) -> str:
    return text.replace(".00 ", " ").replace(".0 ", " ")
