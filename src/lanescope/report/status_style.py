"""How verdicts look on a terminal."""

from __future__ import annotations

from rich.text import Text

from lanescope.measurement.result import Status, Verdict

_STYLE = {
    Status.HEALTHY: "green",
    Status.SLOW: "bold red",
    Status.IMPOSSIBLE: "bold red",
    Status.UNJUDGED: "dim",
    Status.UNRESOLVED: "yellow",
    Status.PREDICTED: "cyan",
    Status.NOT_MEASURED: "yellow",
}


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict as a coloured word, with its reason and remedy."""
    text = Text(style="default")
    if not verdict.reason.startswith("not applicable"):  # that says it all
        text.append(f"{verdict.status}: ", _STYLE[verdict.status])
    text.append(verdict.reason)
    if verdict.remedy:
        text.append(f" → {verdict.remedy}", "default")
    return text
