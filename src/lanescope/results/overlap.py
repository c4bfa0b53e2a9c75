"""Which timed windows of concurrent copies count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lanescope.results.result import FloatArray


def overlapping_windows(boundaries: Sequence[Sequence[float]]) -> list[FloatArray]:
    """Return the lengths of the windows during which every copy was running.

    A window that reaches past the start or the end of another copy ran partly
    alone and would look too fast. The first window of a copy warms it up: where
    that leaves a slow copy beside a fast one no window, the others' first windows
    count as their running, though not as times of theirs.

    Parameters
    ----------
    boundaries
        For each copy the times, in seconds since a common start, at which its
        windows begin and end; ascending.

    Returns
    -------
    list of arrays
        Seconds of the windows that count, for each copy; possibly none.
    """
    spans = [list(pairwise(b)) for b in boundaries]
    found = overlapping_spans(spans)
    if all(one.size for one in found) or not all(len(b) > 1 for b in boundaries):
        return found
    return overlapping_spans(spans, since=max(map(_began, boundaries)))


def _began(boundaries: Sequence[float]) -> float:
    """When a copy began, from the end of its first window and the length of the others."""
    return max(0.0, boundaries[0] - float(np.median(np.diff(boundaries))))


def overlapping_spans(
    spans: Sequence[Sequence[tuple[float, float]]], since: float | None = None
) -> list[FloatArray]:
    """Return the lengths of the repetitions during which every copy was running.

    Parameters
    ----------
    spans
        For each copy the begin and the end of its repetitions, one or more, in
        seconds by a common clock; ascending.
    since
        When all of them were running; None for the latest first begin.

    Returns
    -------
    list of arrays
        Seconds of the repetitions that count, for each copy; possibly none.
    """
    times = [np.asarray(s, dtype=np.float64).reshape(-1, 2) for s in spans]
    begin = max(t[0, 0] for t in times) if since is None else since
    end = min(t[-1, 1] for t in times)
    inside = [(t[:, 0] >= begin) & (t[:, 1] <= end) for t in times]
    return [(t[:, 1] - t[:, 0])[keep] for t, keep in zip(times, inside, strict=True)]


def shares_of_common_time(spans: Sequence[Sequence[tuple[float, float]]]) -> list[FloatArray]:
    """Return for each copy the common time of all, divided by its repetitions in it.

    For copies whose threads take turns on a CPU: most repetitions of a short copy fall
    between two turns and look as if the thread had the CPU for itself.

    Parameters
    ----------
    spans
        As in `overlapping_spans`.

    Returns
    -------
    list of arrays
        One number of seconds for each copy; none if there is no common time, or
        one copy did nothing in it.
    """
    times = [np.asarray(s, dtype=np.float64).reshape(-1, 2) for s in spans]
    begin = max(t[0, 0] for t in times)
    end = min(t[-1, 1] for t in times)
    done = [_repetitions_between(t, begin, end) for t in times]
    if end <= begin or not all(done):
        return [np.empty(0) for _ in times]
    return [np.array([(end - begin) / count]) for count in done]


def _repetitions_between(times: FloatArray, begin: float, end: float) -> float:
    """How many repetitions lie in a time; those that reach past it count in part."""
    inside = np.clip(times, begin, end)
    lengths = np.maximum(times[:, 1] - times[:, 0], np.finfo(np.float64).tiny)
    return float(np.sum((inside[:, 1] - inside[:, 0]) / lengths))
