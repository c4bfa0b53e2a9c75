"""What a run comes to: one word, one sentence and the exit code that follows.

The first line on a terminal, the banner of the page and the head of the JSON are this; nothing
else decides about the exit code.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lanescope.diagnosis import diagnose
from lanescope.document.finding import Finding
from lanescope.exit_codes import ExitCode
from lanescope.measurement.result import Status
from lanescope.report.conclusion import conclusion, judged_results
from lanescope.run.folder import State
from lanescope.run.run import Run


class Word(StrEnum):
    """A run's outcome in one word, from what matters most on."""

    MISSING = "missing"
    """The machine is not as ``--expect`` says."""
    SLOW = "slow"
    """A path is slower than it should be, or its number cannot be true."""
    NOT_MEASURED = "not measured"
    """With ``--strict``: something has no number."""
    BUSY = "busy"
    """With ``--strict``: something has no number because other processes use it."""
    UNFINISHED = "unfinished"
    """The run was interrupted or killed."""
    PREDICTED = "predicted"
    """Nothing was measured: the machine is a described one."""
    LIMITED = "limited"
    """Each path is as it should be, but some get less in use: together, or from a far node."""
    NOT_JUDGED = "not judged"
    """Nothing has a limit to be judged by."""
    HEALTHY = "healthy"
    """All that could be judged is as it should be."""


_CODES = {
    Word.MISSING: ExitCode.NOT_AS_EXPECTED,
    Word.SLOW: ExitCode.SLOW,
    Word.NOT_MEASURED: ExitCode.NOT_MEASURED,
    Word.BUSY: ExitCode.BUSY,
    Word.UNFINISHED: ExitCode.INTERRUPTED,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run comes to.

    Attributes
    ----------
    summary
        What the word means here; one paragraph.
    exit_code
        What the command line ends with; None for a run that goes on or was killed.
    """

    word: Word
    summary: str
    exit_code: ExitCode | None

    def __str__(self) -> str:
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        return f"{self.word}{code}: {self.summary}"


def outcome(run: Run, *, strict: bool = False) -> Outcome:
    """Return what a run comes to.

    Parameters
    ----------
    strict
        Whether what could not be measured counts, as with ``--strict``.
    """
    found = diagnose(run.manifest.machine, run.results)
    word = _word(run, found, strict)
    code = _CODES.get(word, ExitCode.OK)
    summary = " ".join((*_first(run, word), conclusion(run), *_together(found)))
    return Outcome(word, summary, None if run.manifest.state is State.RUNNING else code)


def _word(run: Run, found: tuple[Finding, ...], strict: bool) -> Word:
    verdicts = [verdict for result in judged_results(run) for verdict in result.verdicts]
    statuses = {verdict.status for verdict in verdicts}
    if run.manifest.missing:
        return Word.MISSING
    if any(verdict.failed for verdict in verdicts) or any(one.fault for one in found):
        return Word.SLOW
    if run.manifest.state is not State.COMPLETE:
        return Word.UNFINISHED
    if strict and (Status.NOT_MEASURED in statuses or run.manifest.unmeasured):
        return Word.NOT_MEASURED
    if strict and Status.BUSY in statuses:
        return Word.BUSY
    if run.predicted:
        return Word.PREDICTED
    if found:
        return Word.LIMITED
    return Word.HEALTHY if Status.HEALTHY in statuses else Word.NOT_JUDGED


def _first(run: Run, word: Word) -> tuple[str, ...]:
    """What has to be said before the paths."""
    if word is Word.NOT_MEASURED:
        return run.manifest.unmeasured
    return run.manifest.missing


def _together(found: tuple[Finding, ...]) -> tuple[str, ...]:
    """The faults, whole, and the names of what else was found."""
    faults = [f"{one.kind}: {one.sentence}" for one in found if one.fault]
    others = dict.fromkeys(one.kind for one in found if not one.fault)
    if others:
        faults.append(f"Not every path keeps its rate in use: {', '.join(others)}, see below.")
    return tuple(faults)
