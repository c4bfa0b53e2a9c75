"""The critical path of a replay: what decided, step by step, when it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lanescope.model.overlap.replayed import Step

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
