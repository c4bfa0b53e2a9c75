"""A watch's summary and findings on its page."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.report.html import Column, Group, Markup, items, table, text
from lanescope.report.managed_text import MANAGED, managed_rows
from lanescope.report.summary_text import (
    NOTHING,
    NVLINK,
    Row,
    copy_table,
    end_lines,
    finding_text,
    share_lines,
    way_notes,
    way_table,
)
from lanescope.watch.findings import Finding
from lanescope.watch.summary import Summary

_MOST_COPIES = 20
_MOST_SHARES = 10


def summary_html(summary: Summary, findings: Sequence[Finding] = ()) -> str:
    """Return findings, rates by way, copies, and who moved what."""
    parts = [items(map(_finding, findings))] if findings else []
    if summary.ways:
        parts.append(_table(way_table(summary.ways), "Rates by GPU and direction"))
        parts.append(_quiet(way_notes(summary.ways)))
    else:
        parts.append(f"<p>{text(NOTHING)}</p>")
    if summary.nvlinks:
        parts.append(_table(way_table(summary.nvlinks), NVLINK))
        parts.append(_quiet(way_notes(summary.nvlinks)))
    if summary.copies:
        rows = copy_table(summary, _MOST_COPIES)
        parts.append(_table(rows, "Largest and most frequent copies"))
    if summary.managed:
        parts.append(_table(managed_rows(summary.managed), MANAGED))
    if lines := share_lines(summary, _MOST_SHARES):
        parts.append(f"<h3>Traced bytes</h3>{items(lines)}")
    return "".join(parts) + _quiet([*summary.notes, *end_lines(summary)])


def _finding(finding: Finding) -> Markup:
    conditions = items(finding.preconditions) if finding.preconditions else ""
    shown = f"<details><summary>Only if</summary>{conditions}</details>" if conditions else ""
    return Markup(f"{text(finding_text(finding))}{shown}")


def _table(rows: Sequence[Row], caption: str) -> str:
    head, *body = rows
    columns = [Column(title[:1].upper() + title[1:]) for title in head]
    padded = [(*row, *[""] * (len(head) - len(row))) for row in body]
    return table(columns, [Group(padded)], caption)


def _quiet(lines: Sequence[str]) -> str:
    return f'<div class="quiet">{items(lines)}</div>'
