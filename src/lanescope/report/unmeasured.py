"""Why points of a suite have no numbers: the most frequent reasons, in sentences."""

from __future__ import annotations

from collections import defaultdict

from lanescope.measurement.result import Verdict
from lanescope.model.taruc import is_suite
from lanescope.report.format import count_text
from lanescope.run.run import Run

_MOST_REASONS = 5


def unmeasured(run: Run) -> list[str]:
    """Return a sentence for each reason, the most frequent first.

    Each names how many points it holds back, one of them, and the remedy.
    """
    names: dict[Verdict, list[str]] = defaultdict(list)
    for result in run.results:
        if result.not_measured is not None and is_suite(result):
            names[result.not_measured].append(result.experiment.name)
    ordered = sorted(names.items(), key=lambda item: -len(item[1]))
    lines = [_sentence(verdict, points) for verdict, points in ordered[:_MOST_REASONS]]
    if more := sum(len(points) for _, points in ordered[_MOST_REASONS:]):
        lines.append(f"{count_text(more, 'point')} for other reasons, which --json tells.")
    return lines


def _sentence(verdict: Verdict, points: list[str]) -> str:
    which = points[0] if len(points) == 1 else f"{len(points)} points such as {points[0]}"
    remedy = f" {verdict.remedy}" if verdict.remedy else ""
    return f"{which}: {verdict.reason}{remedy}"
