"""What copies that run at the same time carry together, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lanescope.experiment.experiment import set_title
from lanescope.measurement.result import Result
from lanescope.report.format import gbs_text, percent_text


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
        yield _sentence(result, gbs)


def _sentence(result: Result, gbs: float) -> str:
    limit = result.total_limit_gbs
    share = (
        f", {percent_text(gbs / limit)} of the {gbs_text(limit)} that the links allow at once"
        if limit
        else ""
    )
    return f"{result.experiment.title}: {gbs_text(gbs)} GB/s together{share}."
