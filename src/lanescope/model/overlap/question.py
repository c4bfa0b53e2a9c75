"""What a user asks of the predictors, and the whole answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanescope.errors import InputError
from lanescope.model.overlap.predictor import Predictor
from lanescope.model.overlap.rank import Ranking, rank
from lanescope.model.overlap.roofline import Bounds, Peaks, bounds_as_printed, bounds_of
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.parameters import LinkParameters
from lanescope.units.bandwidth import bytes_a_second

if TYPE_CHECKING:
    from lanescope.model.overlap.several import Several

#: More streams than any machine has use for; each number is a prediction.
_MOST_STREAMS = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """A ranking on the machine and on other links, and the bounds.

    Attributes
    ----------
    predictor
        By which.
    printed
        The bounds as section III prints them; None without the GPU's peaks.
    on
        The same workload with other links, in the order they were named.
    several
        The same on several GPUs at once; None where that was not asked for.
    """

    predictor: str
    ranking: Ranking
    bounds: Bounds
    printed: Bounds | None = None
    on: tuple[Ranking, ...] = ()
    several: Several | None = None


def ask(
    workload: Workload,
    parameters: LinkParameters,
    predictor: Predictor,
    streams: Sequence[int],
    *,
    on: Sequence[str] = (),
    peak_flops: float | None = None,
    memory_gbs: float | None = None,
) -> Answer:
    """Rank the methods on a machine, and on the same with other links.

    Raises
    ------
    InputError
        If the workload is impossible, a link unknown, or a bound lacks what it takes.
    """
    peaks = _peaks(peak_flops, memory_gbs)
    others = []
    if on:
        from lanescope.model.transfer.links import with_link

        others = [with_link(parameters, link) for link in on]
    return Answer(
        predictor.name,
        rank(workload, parameters, predictor, streams),
        bounds_of(workload, parameters, peaks),
        None if peaks is None else bounds_as_printed(workload, parameters, peaks),
        tuple(rank(workload, other, predictor, streams) for other in others),
    )


def _peaks(flops: float | None, memory_gbs: float | None) -> Peaks | None:
    for name, peak in (("--peak-flops", flops), ("--memory-bandwidth", memory_gbs)):
        if peak is not None and not 0 < peak < float("inf"):
            raise InputError(f"{name} {peak:g} is not above zero; give what the GPU can do")
    if flops is None and memory_gbs is None:
        return None
    if flops is None or memory_gbs is None:
        raise InputError("--peak-flops and --memory-bandwidth belong together; give both or none")
    return Peaks(flops, bytes_a_second(memory_gbs))


def parse_streams(text: str) -> tuple[int, ...]:
    """Return numbers of streams from ``16``, ``1,2,4`` or ``1..256``, rising.

    Raises
    ------
    InputError
        If it is none of these, or a number is not 1 to 4096.

    >>> parse_streams("4,1..3")
    (1, 2, 3, 4)
    """
    found: set[int] = set()
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:\.\.\s*([0-9]{1,6})\s*)?", piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= _MOST_STREAMS:
            raise InputError(
                f"--streams {text!r} is no number of streams from 1 to {_MOST_STREAMS}; write "
                "for example 16, 1,2,4,8 or 1..256"
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))
