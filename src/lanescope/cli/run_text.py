"""What a terminal shows of a run."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from lanescope.report.terminal import machine_tree, renderables
from lanescope.results import Status, Verdict
from lanescope.store.folder import state_sentence
from lanescope.store.run import Run
from lanescope.studies.runs.document import diagnosis_section, result_sections
from lanescope.studies.runs.outcome import Outcome, Word, headline_rows, outcome
from lanescope.studies.taruc.document import taruc_overview

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
    Word.SLOWER: "bold red",
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


def run_tables(
    run: Run, *, mean: bool = False, verbose: bool = False, strict: bool = False
) -> list[RenderableType]:
    """Return everything that a run shows on a terminal, top to bottom.

    Parameters
    ----------
    mean, verbose
        See `result_sections`.
    strict
        Whether what could not be measured counts; see `outcome`.
    """
    out = outcome(run, strict=strict)
    parts: list[RenderableType] = [outcome_text(out), "", machine_tree(run.manifest.machine), ""]
    if run.predicted:
        banner = "PREDICTED from the described machine's limits and latencies, not measured."
        parts.append(Text(banner, "bold cyan"))
    shown = list(renderables(result_sections(run, mean=mean, verbose=verbose)))
    suite = list(renderables(taruc_overview(run)))
    parts += [*shown, *suite]
    parts += _other_reasons(run)
    parts += renderables([diagnosis_section(run)])
    if unfinished := state_sentence(run.manifest.state):
        parts.append(Text(unfinished, "bold yellow"))
    parts.append(outcome_text(out))  # again: long tables have moved it off the screen
    notes = (*run.manifest.notes, *run.manifest.machine.notes)
    parts += [Text(f"note: {note}", "dim") for note in notes]
    return parts


def _other_reasons(run: Run) -> list[RenderableType]:
    """Why something was not measured that no table has a row for, such as some sizes of a sweep."""
    shown = {row.verdict for row in headline_rows(run)}
    others = {r.not_measured for r in run.results if r.not_measured is not None} - shown
    return [verdict_text(v) for v in sorted(others, key=lambda v: v.reason)]
