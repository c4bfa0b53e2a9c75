"""Diagnoses as a section of the page: what is wrong, why it is thought so, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.diagnosis import Diagnosis
from lanescope.report.html import Cell as HtmlCell
from lanescope.report.html import Markup, definitions, items, text


def diagnoses_section(diagnoses: Sequence[Diagnosis]) -> str:
    """Return each diagnosis with its evidence; empty when there is none."""
    return "".join(map(_diagnosis, diagnoses))


def _diagnosis(found: Diagnosis) -> str:
    rows: list[tuple[str, HtmlCell]] = [
        ("Seen", Markup(items(found.evidence))),
        ("To confirm", Markup(f"<code>{text(found.confirm)}</code>")),
        ("What to do", found.remedy),
    ]
    return (
        f'<article class="diagnosis"><p><span class="badge slow">{text(found.kind)}</span> '
        f"<strong>{text(found.sentence)}</strong></p>{definitions(rows)}</article>"
    )
