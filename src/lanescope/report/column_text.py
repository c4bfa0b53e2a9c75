"""How a value of a column is written, and findings as blocks."""

from __future__ import annotations

from collections.abc import Sequence

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
