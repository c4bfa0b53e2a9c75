"""Findings as blocks: what is wrong, why it is thought so, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.document.blocks import Badge, Block, Bullets, Code, Facts, Text, Tone
from lanescope.document.finding import Finding
from lanescope.report.format import estimate_text, seconds_text


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


def finding_text(found: Finding) -> str:
    """Return a finding with what its remedy would bring."""
    gain = found.gain_seconds
    if gain is None:
        return found.sentence
    most = f"at most {seconds_text(gain.high)}" if gain.low == 0 else estimate_text(gain)
    return f"{found.sentence} Predicted gain: {most}."
