"""What is said of paths in sentences: open points, what has no number, sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from lanescope.copies.experiment import set_title
from lanescope.document.blocks import Words
from lanescope.report.format import count_text, gbs_text, percent_text
from lanescope.results.result import Result, Status, Verdict
from lanescope.store.run import Run
from lanescope.studies.runs.paths import PathRow
from lanescope.studies.runs.tables import badge
from lanescope.studies.taruc.points import is_suite

_MOST_NAMES = 6
_MOST_REASONS = 3
_MOST_UNMEASURED = 5


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


def unmeasured(run: Run) -> list[str]:
    """Return a sentence for each reason, the most frequent first.

    Each names how many points it holds back, one of them, and the remedy.
    """
    names: dict[Verdict, list[str]] = defaultdict(list)
    for result in run.results:
        if result.not_measured is not None and is_suite(result):
            names[result.not_measured].append(result.experiment.name)
    ordered = sorted(names.items(), key=lambda item: -len(item[1]))
    lines = [_why(verdict, points) for verdict, points in ordered[:_MOST_UNMEASURED]]
    if more := sum(len(points) for _, points in ordered[_MOST_UNMEASURED:]):
        lines.append(f"{count_text(more, 'point')} for other reasons, which --json tells.")
    return lines


def _why(verdict: Verdict, points: list[str]) -> str:
    which = points[0] if len(points) == 1 else f"{len(points)} points such as {points[0]}"
    remedy = f" {verdict.remedy}" if verdict.remedy else ""
    return f"{which}: {verdict.reason}{remedy}"


def total_sentences(results: Iterable[Result]) -> tuple[str, ...]:
    """Return what each set of copies carried that ran at the same time, in sentences.

    Where an engine took some in turns, only what each engine carried.
    """
    return tuple(sentence for result in results for sentence in _sentences(result))


def _sentences(result: Result) -> Iterator[str]:
    gbs = result.total_gbs
    if groups := result.groups_in_turns:
        for group in groups:
            copies = [result.experiment.copies[number] for number in group]
            yield (
                f"{set_title(copies)} took turns on an engine: "
                f"{gbs_text(result.joint_gbs(group[0]))} GB/s in sum."
            )
    elif gbs and len(result.copies) > 1:
        yield _sum(result, gbs)


def _sum(result: Result, gbs: float) -> str:
    limit = result.total_limit_gbs
    share = (
        f", {percent_text(gbs / limit)} of the {gbs_text(limit)} that the links allow at once"
        if limit
        else ""
    )
    return f"{result.experiment.title}: {gbs_text(gbs)} GB/s together{share}."
