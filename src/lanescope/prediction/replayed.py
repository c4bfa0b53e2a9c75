"""What a replay of a graph of tasks says, and the critical path that decided when it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lanescope.prediction.graphs import TaskGraph


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of the critical path.

    Attributes
    ----------
    task
        Position in the graph of the task that the time goes to; None for the host's calls.
    what
        ``h2d``, ``d2h``, ``kernel`` or ``calls``; of a kernel that moves mapped memory what of it
        ended last.
    begin, end
        In seconds from the first call. The steps follow each other without a gap.
    """

    task: int | None
    what: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """One round, replayed. All times in seconds from the first call.

    Attributes
    ----------
    graph
        What was replayed.
    seconds
        Until the host has made all calls and seen the end of all tasks.
    called
        When the call of each task returned, or for pageable copies, was made.
    begin, end
        When the server of each task began with it, and when it was done.
    seen
        When the host could see the end.
    busy
        Seconds by server: ``calls``, and for each GPU such as ``g0 h2d``, ``g0 d2h``, ``g0 copy``
        (one engine for both), ``g0 kernel``.
    critical
        What the time went to, from the first call to the end.
    """

    graph: TaskGraph
    seconds: float
    called: tuple[float, ...]
    begin: tuple[float, ...]
    end: tuple[float, ...]
    seen: tuple[float, ...]
    busy: Mapping[str, float]
    critical: tuple[Step, ...]

    def critical_seconds(self) -> dict[str, float]:
        """Return the seconds of the critical path by what they go to."""
        spent = dict.fromkeys(("h2d", "d2h", "kernel", "calls"), 0.0)
        for step in self.critical:
            spent[step.what] += step.end - step.begin
        return spent

    @property
    def busiest(self) -> str:
        """What most of the critical path goes to."""
        spent = self.critical_seconds()
        return max(spent, key=spent.__getitem__)


#: The task that decided when something could begin, and when that was in seconds; None for the
#: task: the host's call, or the very begin.
Cause = tuple[int | None, float]


def critical_path(
    seconds: float,
    last: int | None,
    resumed: Cause,
    because: Sequence[Cause],
    called_since: Sequence[Cause],
    what: Callable[[int], str],
) -> tuple[Step, ...]:
    """Walk back from the end, from each step to what let it begin.

    Parameters
    ----------
    seconds
        When all ended.
    last
        The task whose end the host saw then; None: its own calls took longer.
    resumed
        Since when the host has made its last calls, and the pageable copy that let it.
    because
        For each task what let it begin.
    called_since
        For each task since when the host made calls without being held, and what had held it.
    what
        Tells of each task what it is, see `Step`.
    """
    steps: list[Step] = []

    def note(task: int | None, kind: str, begin: float, end: float) -> None:
        if end > begin:
            steps.append(Step(task, kind, begin, end))

    until, task = seconds, last
    if task is None:
        task, since = resumed
        note(None, "calls", since, until)
        until = since
    while task is not None:
        cause, since = because[task]
        note(task, what(task), since, until)
        until = since
        if cause is None:
            cause, since = called_since[task]
            note(None, "calls", since, until)
            until = since
        task = cause
    return tuple(steps[::-1])
