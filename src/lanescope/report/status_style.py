"""How verdicts look on a terminal."""

from __future__ import annotations

from rich.text import Text

from lanescope.measurement.result import Status, Verdict
from lanescope.report.outcome import Outcome, Word

_STYLE = {
    Status.HEALTHY: "green",
    Status.SLOW: "bold red",
    Status.IMPOSSIBLE: "bold red",
    Status.UNJUDGED: "dim",
    Status.UNRESOLVED: "yellow",
    Status.PREDICTED: "cyan",
    Status.NOT_MEASURED: "yellow",
    Status.BUSY: "yellow",
    Status.NOT_APPLICABLE: "dim",
}


_OUTCOME_STYLE = {
    Word.MISSING: "bold red",
    Word.SLOW: "bold red",
    Word.HEALTHY: "bold green",
    Word.PREDICTED: "bold cyan",
}


def outcome_text(outcome: Outcome) -> Text:
    """Return what a run comes to, its word coloured."""
    word, rest = str(outcome).split(":", 1)
    return Text.assemble(
        (word, _OUTCOME_STYLE.get(outcome.word, "bold yellow")), (f":{rest}", "bold")
    )


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict as a coloured word, with its reason and remedy."""
    text = Text(style="default")
    text.append(f"{verdict.status}: ", _STYLE[verdict.status])
    text.append(verdict.reason)
    if verdict.remedy:
        text.append(f" → {verdict.remedy}", "default")
    return text
