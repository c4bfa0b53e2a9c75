"""Numbers as people read them: the one place where units are written out.

Of blocks values are written by their column, and on the axes of charts with ticks. Every function
takes None for a missing value and returns `MISSING`, so that a missing number never looks like a
zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, isfinite, log2, log10
from typing import Any

from lanescope.document.blocks import (
    Badge,
    Block,
    Bullets,
    Code,
    CodeListing,
    Column,
    Facts,
    Judgement,
    Kind,
    SectionLink,
    Span,
    TableCell,
    Text,
    Tone,
    Value,
    Words,
)
from lanescope.document.contents import Axis, Chart, Finding, Snippet
from lanescope.units.estimate import Estimate
from lanescope.units.sizes import binary_text, is_decimal, size_text

#: What stands in place of a number that is not known.
MISSING = "–"
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
#: What spreadsheets begin a formula with, or skip before one.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_MOST_TICKS = 10
_FEW_DECADES = 2


def bytes_text(count: float | None) -> str:
    """Return a size such as ``512 MiB`` or ``16 B``.

    >>> bytes_text(512 << 20)
    '512 MiB'
    """
    if count is None:
        return MISSING
    return size_text(count)


def sum_text(count: float | None) -> str:
    """Return a sum of bytes, in binary units whatever it is, so that sums can be compared.

    >>> sum_text(800e6)
    '763 MiB'
    """
    return MISSING if count is None else binary_text(count)


def seconds_text(seconds: float | None) -> str:
    """Return a time in the unit that suits it, such as ``1.42 µs``; a loss is below zero.

    >>> seconds_text(1.42e-6), seconds_text(-480e-6)
    ('1.42 µs', '-480 µs')
    """
    if seconds is None:
        return MISSING
    if seconds < 0:
        return f"-{seconds_text(-seconds)}"
    rounded = seconds * (1 + 1e-9)  # 999.5 µs is 1.00 ms, though as a float it is a little less
    for scale, unit in _SECONDS:
        if rounded >= scale * 0.9995:
            return f"{_significant(rounded / scale)} {unit}"
    return f"{_significant(seconds * 1e9)} ns"


def microseconds_text(seconds: float | None) -> str:
    """Return a time in µs without its unit, for a column that names it.

    >>> microseconds_text(0.0096)
    '9600'
    """
    return MISSING if seconds is None else _significant(seconds * 1e6, most=4)


def gbs_text(gbs: float | None) -> str:
    """Return a bandwidth in GB/s without its unit.

    >>> gbs_text(55.63), gbs_text(394.2), gbs_text(0.534)
    ('55.6', '394', '0.534')
    """
    return MISSING if gbs is None else _significant(gbs)


def percent_text(share: float | None) -> str:
    """Return a share as percent.

    >>> percent_text(0.951)
    '95.1 %'
    """
    return MISSING if share is None else f"{share * 100:.1f} %"


def fine_percent_text(share: float) -> str:
    """Return a share as percent with two decimals."""
    return f"{share * 100:.2f} %"


def signed_percent_text(share: float) -> str:
    """Return a signed share as percent.

    >>> signed_percent_text(-0.0123)
    '-1.23 %'
    """
    return f"{share * 100:+.2f} %"


def half_width_text(share: float | None) -> str:
    """Return the 95 % half-width of a median, as a share of it.

    >>> half_width_text(0.0042)
    '± 0.42 %'
    """
    return MISSING if share is None else f"± {share * 100:.2f} %"


def spread_text(low: float | None, high: float | None) -> str:
    """Return a span of bandwidths in GB/s.

    Both ends get the same number of decimals, enough of them to tell the ends
    apart where they differ by a thousandth or more.

    >>> spread_text(55.41, 55.72)
    '55.4 to 55.7'
    """
    if low is None or high is None:
        return MISSING
    decimals = _decimals(max(low, high))
    if f"{low:.{decimals}f}" == f"{high:.{decimals}f}" and high - low >= high * 1e-3:
        decimals += 1
    return f"{low:.{decimals}f} to {high:.{decimals}f}"


def time_spread_text(low: float | None, high: float | None) -> str:
    """Return a span of times, in the unit of the larger one.

    >>> time_spread_text(1.38e-6, 1.47e-6)
    '1.38 to 1.47 µs'
    """
    if low is None or high is None:
        return MISSING
    longest = max(abs(low), abs(high))
    scale, unit = next((u for u in _SECONDS if longest >= u[0] * 0.9995), _SECONDS[-1])
    decimals = _decimals(longest / scale)
    return f"{low / scale:.{decimals}f} to {high / scale:.{decimals}f} {unit}"


def estimate_text(one: Estimate) -> str:
    """Return seconds with their interval, if there is one; gains may be below zero.

    >>> estimate_text(Estimate(5.54e-6, 5.54e-6, 5.55e-6))
    '5.54 µs (5.54 to 5.55 µs)'
    """
    if one.is_exact:
        return seconds_text(one.value)
    if one.low < 0:
        value, low, high = map(seconds_text, (one.value, one.low, one.high))
        return f"{value} ({low} to {high})"
    return f"{seconds_text(one.value)} ({time_spread_text(one.low, one.high)})"


def unchanged_text(effects: Sequence[float], threshold: float, noun: str) -> list[str]:
    """Return in clauses what became of things of which no change is certain.

    >>> unchanged_text([0.001, -0.5], 0.02, "path")
    ['1 path as before within 2.0 %', '1 path of which no change is certain']
    >>> unchanged_text([0.0], 0.0002, "path")
    ['1 path as before within 0.02 %']
    """
    near = sum(abs(effect) <= threshold for effect in effects)
    percent = f"{threshold * 100:.6g}"
    within = percent_text(threshold) if len(percent.partition(".")[2]) < 2 else f"{percent} %"
    clauses = [f"{count_text(near, noun)} as before within {within}"]
    if rest := len(effects) - near:
        clauses.append(f"{count_text(rest, noun)} of which no change is certain")
    return clauses if near else clauses[1:]


def count_text(count: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> count_text(1, "path"), count_text(3, "path")
    ('1 path', '3 paths')
    """
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def _decimals(value: float, most: int = 3) -> int:
    """How many decimals give three significant digits, never fewer than none."""
    size = abs(float(f"{value:.{most - 1}e}"))  # as it will be rounded: 0.9999 counts as 1.00
    decimals = 0 if size == 0 else most - 1
    while size >= 10 and decimals > 0:
        size, decimals = size / 10, decimals - 1
    while 0 < size < 1:
        size, decimals = size * 10, decimals + 1
    return decimals


def _significant(value: float, most: int = 3) -> str:
    return f"{value:.{_decimals(value, most)}f}"


def safe_cells(row: Iterable[Any]) -> list[Any]:
    """Return a row in which no text is a formula; numbers, also as text, stay.

    >>> safe_cells(["=1+1", "h2d", "-0.5", -1])
    ["'=1+1", 'h2d', '-0.5', -1]
    """
    return [f"'{cell}" if _is_formula(cell) else cell for cell in row]


def _is_formula(cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


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
    if isinstance(value, Code | SectionLink):
        return value.words
    if isinstance(value, str):
        return value
    return _WRITTEN.get(column.kind, str)(value)


def is_number(column: Column) -> bool:
    """Whether a column's values stand right-aligned."""
    return column.kind not in (Kind.TEXT, Kind.BAR)


def cell_of(value: Value | TableCell) -> TableCell:
    """Return a value as a cell."""
    return value if isinstance(value, TableCell) else TableCell(value)


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


def listing_head(block: CodeListing) -> str:
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
