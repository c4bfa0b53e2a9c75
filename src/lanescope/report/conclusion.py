"""What a run says, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.measurement.result import Result, Status
from lanescope.model.taruc import is_suite, plain_results
from lanescope.model.taruc.points import bench_of
from lanescope.report.format import count_text
from lanescope.report.latency_rows import latency_rows, latency_sentence
from lanescope.report.path_rows import PathRow, headline_results, path_rows
from lanescope.report.taruc_blocks import taruc_conclusion
from lanescope.run.folder import State
from lanescope.run.run import Run
from lanescope.studies.registry import study_named

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


def state_sentence(state: State) -> str | None:
    """Return what to know about a run that did not finish, or None."""
    if state is State.COMPLETE:
        return None
    how = (
        "it was interrupted"
        if state is State.INTERRUPTED
        else "it was still running when this was written, or it was killed"
    )
    return f"This run did not finish: {how}. What follows is what it had until then."


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
