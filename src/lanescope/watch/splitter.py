"""Aligned windows of records of any length; work and memory grow with records, not with time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray

#: Takes runs of equal windows that follow each other: see `WindowSplitter`.
Closed = Callable[[IntArray, FloatArray, IntArray], None]


class WindowSplitter:
    """Records as windows of one length, fed chunk by chunk.

    Records are split over the edges of windows in proportion to time. Windows that lie all in one
    record are equal, and are told as one run however many they are.

    Parameters
    ----------
    window_ns
        Length of a window.
    origin_ns
        Where windows start to be counted, nanoseconds since 1970.
    closed
        Called with runs of windows that nothing can be added to any more, in order: the number
        of the first window of each, a column for each with a row's share of one window, and how
        many windows it has.
    """

    def __init__(self, window_ns: int, origin_ns: int, closed: Closed) -> None:
        self._window_ns, self._origin, self._closed = window_ns, origin_ns, closed
        self._open: int | None = None
        self._part: FloatArray = np.zeros(3)

    def add(self, start_ns: int, end_ns: IntArray, columns: FloatArray) -> None:
        """Add consecutive records, the first of which began at `start_ns`.

        Parameters
        ----------
        columns
            A row for each record: payload bytes h2d and d2h, and known nanoseconds.
        """
        if not end_ns.size or end_ns[-1] <= start_ns:
            return
        times = np.concatenate(([0], end_ns - start_ns))
        sums = np.vstack((np.zeros(3), np.cumsum(columns, axis=0)))
        first = (start_ns - self._origin) // self._window_ns
        if self._open != first:
            self.close()
        numbers, counts = self._runs(start_ns, times)
        begins = self._origin + numbers * self._window_ns - start_ns
        ends = begins + counts * self._window_ns
        rows = self._at(ends, times, sums) - self._at(begins, times, sums)
        rows /= counts
        rows[:, 0] += self._part
        self._open, self._part = int(numbers[-1]), rows[:, -1]
        if numbers.size > 1:
            self._closed(numbers[:-1], rows[:, :-1], counts[:-1])

    def _runs(self, start_ns: int, times: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first window of each run, and how many it has; the last is one window."""
        edged = (times + (start_ns - self._origin)) // self._window_ns
        edged = edged[np.diff(edged, prepend=edged[0] - 1) > 0]
        between = np.diff(edged) - 1  # windows without an edge of a record
        numbers = np.sort(np.concatenate((edged, edged[:-1][between > 0] + 1)))
        return numbers, np.diff(numbers, append=numbers[-1] + 1)

    @staticmethod
    def _at(edges: IntArray, times: IntArray, sums: FloatArray) -> FloatArray:
        at = np.clip(edges, 0, times[-1]).astype(np.float64)
        return np.stack([np.interp(at, times, sums[:, i]) for i in range(3)])

    def close(self) -> None:
        """Close the last window as it is; nothing may be added after it."""
        if self._open is not None:
            self._closed(np.array([self._open]), self._part[:, None], np.array([1]))
        self._part = np.zeros(3)
