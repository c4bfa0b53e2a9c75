"""The critical path of a replayed schedule: what the last end waited for, back to the begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lanescope.findings.advice.lanes import IN, OUT, WORK
from lanescope.findings.advice.schedule import Placed


class Activity(StrEnum):
    """What a part of the critical path is spent on."""

    HOST = "host"
    H2D = "copies h2d"
    KERNELS = "kernels"
    D2H = "copies d2h"
    LAG = "start latency"


_OF_KIND = {IN: Activity.H2D, OUT: Activity.D2H, WORK: Activity.KERNELS}


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the critical path, nanoseconds from the begin.

    Attributes
    ----------
    place
        Number of the task that runs, or before which the host or the GPU pauses.
    """

    activity: Activity
    begin: float
    end: float
    place: int


def critical_path(placed: Sequence[Placed]) -> list[Segment]:
    """Return what the end of the last task depends on, in the order of time, without a gap.

    Each segment begins where what it waited for ends: the task before it on its stream or engine,
    the host's pause or call before its submission, or the task for which the host waited.
    """
    if not placed:
        return []
    segments: list[Segment] = []
    place: int | None = max(range(len(placed)), key=lambda number: placed[number].end)
    until = placed[place].end if place is not None else 0.0
    while place is not None:
        one = placed[place]
        for activity, begin in ((_OF_KIND[one.task.kind], one.start), (Activity.LAG, one.ready)):
            until = _add(segments, activity, begin, until, place)
        if one.after is not None:
            place = one.after
            continue
        place, until = _through_host(placed, place, segments, until)
    return segments[::-1]


def _through_host(
    placed: Sequence[Placed], place: int, segments: list[Segment], until: float
) -> tuple[int | None, float]:
    """Go back through the host's calls to a task that it waited for; None at the begin."""
    first = place
    while place > 0 and placed[place].host_after is None:
        place -= 1
    other = placed[place].host_after
    begin = 0.0 if other is None else min(placed[other].end, until)
    return other, _add(segments, Activity.HOST, begin, until, first)


def _add(
    segments: list[Segment], activity: Activity, begin: float, until: float, place: int
) -> float:
    """Add what lies before `until`, if anything does, and return where it begins."""
    if begin < until:
        segments.append(Segment(activity, begin, until, place))
    return min(begin, until)


def shares(path: Sequence[Segment]) -> dict[Activity, float]:
    """Return the share of the path that is spent on each; all of them."""
    total = sum(one.end - one.begin for one in path)
    spent = dict.fromkeys(Activity, 0.0)
    for one in path:
        spent[one.activity] += one.end - one.begin
    return {activity: value / total if total else 0.0 for activity, value in spent.items()}
