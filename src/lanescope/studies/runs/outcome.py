"""What a run comes to: one word, sentences, and the exit code that follows.

The first line on a terminal, the banner of the page and the head of the JSON are this; nothing
else decides about the exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lanescope.document.contents import Finding
from lanescope.errors import ExitCode
from lanescope.findings.machine import diagnose
from lanescope.report.format import count_text
from lanescope.results import Result, Status
from lanescope.store.folder import State
from lanescope.store.run import Run
from lanescope.studies import study_named
from lanescope.studies.runs.rows import PathRow, headline_results, path_rows
from lanescope.studies.runs.tables import latency_rows, latency_sentence
from lanescope.studies.taruc.document import taruc_conclusion
from lanescope.studies.taruc.parameters import Benchmark
from lanescope.studies.taruc.points import bench_of, is_suite, plain_results

#: More names than this make a sentence that nobody reads.
_MOST_NAMES = 3


def headline_rows(run: Run) -> tuple[PathRow, ...]:
    """Return the rows that the conclusion counts: of a sweep only the largest sizes.

    Of a study that judges no paths only what could not be measured.
    """
    study = study_named(run.manifest.verb)
    if study is not None and not study.judges_paths:
        return path_rows(r for r in run.results if not r.copies)
    # Of a suite only what failed or is missing: the rest is told by its charts.
    plain = plain_results(run.results)
    suite = [r for r in run.results if is_suite(r)]
    missing = [row for row in path_rows(suite) if row.measured is None]
    return (*path_rows(headline_results(plain)), *missing)


def conclusion(run: Run) -> str:
    """Return the outcome of a run in a sentence or two; what is slow comes first."""
    if (study := study_named(run.manifest.verb)) and (sentence := study.conclusion(run)):
        own = sentence
    elif any(map(is_suite, run.results)):
        own = taruc_conclusion(run)
    else:
        rows = headline_rows(run)
        own = rows_conclusion(rows)
        if any(row.verdict.failed for row in rows):
            return own
    every = path_rows(judged_results(run))
    failed = any(row.verdict.failed for row in every)
    return f"{_judged(every)}. {own}" if failed else own


def judged_results(run: Run) -> list[Result]:
    """Return what says whether paths are well: all but contention, which overloads them."""
    return [r for r in run.results if bench_of(r.experiment) is not Benchmark.CONTENTION]


def rows_conclusion(rows: Sequence[PathRow]) -> str:
    """Return the outcome of some paths in one sentence, and of latencies in another."""
    if not rows:
        return "This run holds no results."
    paths = [r for r in rows if not r.is_latency]
    held = {id(r.result): r.result for r in rows if r.is_latency}
    latencies = latency_sentence(latency_rows(held.values()))
    return " ".join(s for s in (_paths_conclusion(paths) if paths else "", latencies) if s)


def _paths_conclusion(rows: Sequence[PathRow]) -> str:
    predicted = [r for r in rows if r.predicted]
    if len(predicted) == len(rows):
        known = sum(r.measured is not None for r in rows)
        return (
            f"Predicted upper bounds for {count_text(known, 'path')}; nothing was measured."
            if known
            else "Nothing could be predicted."
        )
    clauses = [_judged(rows), *_rest(rows)]
    if predicted:
        clauses.append(f"{_some(len(predicted))} predicted, not measured")
    return "; ".join(c for c in clauses if c) + "."


def _judged(rows: Sequence[PathRow]) -> str:
    slow = _of(rows, Status.SLOW)
    impossible = _of(rows, Status.IMPOSSIBLE)
    judged = len(_of(rows, Status.HEALTHY)) + len(slow) + len(impossible)
    if not judged:
        return "No path could be judged"
    if not slow and not impossible:
        if judged == 1:
            return "The one judged path reaches what its links can carry"
        which = "paths" if judged == len(rows) else "judged paths"
        return f"All {judged} {which} reach what their links can carry"
    parts = []
    if slow:
        verb = "is" if len(slow) == 1 else "are"
        parts.append(f"{len(slow)} of {count_text(judged, 'path')} {verb} slow: {_names(slow)}")
    if impossible:
        verb = "is" if len(impossible) == 1 else "are"
        parts.append(
            f"{len(impossible)} of {count_text(judged, 'path')} {verb} faster than the links can "
            f"be, so a limit or a clock is wrong: {_names(impossible)}"
        )
    return "; ".join(parts)


def _rest(rows: Sequence[PathRow]) -> list[str]:
    unjudged, unresolved = _of(rows, Status.UNJUDGED), _of(rows, Status.UNRESOLVED)
    missing, busy = _of(rows, Status.NOT_MEASURED), _of(rows, Status.BUSY)
    clauses = []
    if unjudged:
        clauses.append(f"{_some(len(unjudged))} shown without a verdict")
    if unresolved:
        clauses.append(f"{_some(len(unresolved))} too short for the clock")
    if missing:
        clauses.append(f"{_some(len(missing))} not measured")
    if busy:
        clauses.append(f"{_some(len(busy))} not measured as other processes use them")
    return clauses


def _some(count: int) -> str:
    return f"{count_text(count, 'path')} {'is' if count == 1 else 'are'}"


def _of(rows: Sequence[PathRow], status: Status) -> list[PathRow]:
    return [r for r in rows if r.verdict.status is status]


def _names(rows: Sequence[PathRow]) -> str:
    names = [r.label.replace(", ", " ") for r in rows[:_MOST_NAMES]]
    if len(rows) > _MOST_NAMES:
        names.append(f"and {len(rows) - _MOST_NAMES} more")
    return ", ".join(names)


class Word(StrEnum):
    """A run's outcome in one word, from what matters most on."""

    MISSING = "missing"
    """The machine is not as ``--expect`` says."""
    SLOW = "slow"
    """A path is slower than it should be, or its number cannot be true."""
    SLOWER = "slower"
    """A path is slower than in the baseline."""
    NOT_MEASURED = "not measured"
    """With ``--strict``: something has no number."""
    NOT_COMPARED = "not compared"
    """Nothing can be compared with the baseline."""
    BUSY = "busy"
    """With ``--strict``: something has no number because other processes use it."""
    UNFINISHED = "unfinished"
    """The run was interrupted or killed."""
    PREDICTED = "predicted"
    """Nothing was measured: the machine is a described one."""
    LIMITED = "limited"
    """Each path is as it should be, but some get less in use: together, or from a far node."""
    NOT_JUDGED = "not judged"
    """Nothing has a limit to be judged by, or is known well enough."""
    HEALTHY = "healthy"
    """All that could be judged is as it should be."""


_CODES = {
    Word.MISSING: ExitCode.NOT_AS_EXPECTED,
    Word.SLOW: ExitCode.SLOW,
    Word.SLOWER: ExitCode.SLOW,
    Word.NOT_COMPARED: ExitCode.NOT_MEASURED,
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
    against = () if run.against is None else (f"Against the baseline: {run.against.summary}",)
    parts = (*_first(run, word), conclusion(run), *_together(found))
    decides = word in (Word.SLOWER, Word.NOT_COMPARED)
    summary = " ".join((*against, *parts) if decides else (*parts, *against))
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
    against = ExitCode.OK if run.against is None else run.against.exit_code
    if against is ExitCode.SLOW:
        return Word.SLOWER
    if strict and (Status.NOT_MEASURED in statuses or run.manifest.unmeasured):
        return Word.NOT_MEASURED
    if against is not ExitCode.OK:
        return Word.NOT_COMPARED
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
