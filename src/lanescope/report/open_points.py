"""What asks for something to be done, gathered so that one cause is one point."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.blocks import Words
from lanescope.measurement.result import Status
from lanescope.report.format import count_text
from lanescope.report.path_rows import PathRow
from lanescope.report.result_blocks import badge

_MOST_NAMES = 6
_MOST_REASONS = 3


def open_points(rows: Sequence[PathRow]) -> list[Words]:
    """Return failed and unmeasured paths, a sentence each; nothing when there are none.

    A dead GPU spoils dozens of paths. They share a point when they ask for the
    same thing to be done.
    """
    groups: dict[tuple[Status, str | None, str | None], list[PathRow]] = {}
    for row in rows:
        verdict = row.verdict
        if verdict.failed:
            groups.setdefault((verdict.status, verdict.remedy, None), []).append(row)
        elif verdict.missing:
            key = (verdict.status, verdict.remedy, verdict.reason)
            groups.setdefault(key, []).append(row)
    ordered = sorted(groups.values(), key=lambda group: not group[0].verdict.failed)
    return [_point(group) for group in ordered]


def _point(rows: Sequence[PathRow]) -> Words:
    verdict = rows[0].verdict
    names = [r.label for r in rows]
    listed = "; ".join(names[:_MOST_NAMES]) + _more(len(names) - _MOST_NAMES, "path")
    reasons = list(dict.fromkeys(r.verdict.reason for r in rows))
    why = "; ".join(reasons[:_MOST_REASONS]) + _more(len(reasons) - _MOST_REASONS, "reason")
    end = "" if why.endswith((".", "]")) else "."
    remedy = f" {verdict.remedy}" if verdict.remedy else ""
    many = f"{count_text(len(rows), 'path')} " if len(rows) > 1 else ""
    return (many, badge(verdict), f": {listed}. {why[:1].upper() + why[1:]}{end}{remedy}")


def _more(count: int, noun: str) -> str:
    return f"; and {count_text(count, f'more {noun}')}" if count > 0 else ""
