"""Aligned windows of records of any length, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lanescope.watch.codes import FloatArray, IntArray

#: So many windows are worked on at once: 50 MB.
_BLOCK = 1 << 20


class WindowSplitter:
    """Records as windows of one length, fed chunk by chunk.

    Records are split over the edges of windows in proportion to time.

    Parameters
    ----------
    window_ns
        Length of a window.
    origin_ns
        Where windows start to be counted, nanoseconds since 1970.
    closed
        Called with windows that nothing can be added to any more, in order: the number of the
        first, a row of each column over these windows, and how often they follow each other.
    """

    def __init__(
        self, window_ns: int, origin_ns: int, closed: Callable[[int, FloatArray, int], None]
    ) -> None:
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
        times = np.concatenate(([0.0], (end_ns - start_ns).astype(np.float64)))
        sums = np.vstack((np.zeros(3), np.cumsum(columns, axis=0)))
        first = (start_ns - self._origin) // self._window_ns
        last = (int(end_ns[-1]) - self._origin) // self._window_ns
        if self._open != first:
            self.close()
            self._open = first
        for begin in range(first, last + 1, _BLOCK):
            end = min(begin + _BLOCK, last + 1)
            edges = self._origin + np.arange(begin, end + 1) * self._window_ns - start_ns
            if end <= last and self._constant(begin, times, sums, edges):
                continue
            at = np.clip(edges, 0, times[-1]).astype(np.float64)
            rows = np.diff(np.stack([np.interp(at, times, sums[:, i]) for i in range(3)]), axis=1)
            rows[:, 0] += self._part
            closed = rows if end <= last else rows[:, :-1]
            self._part = np.zeros(3) if end <= last else rows[:, -1]
            self._closed(begin, closed, 1)
        self._open = last

    def _constant(self, begin: int, times: FloatArray, sums: FloatArray, edges: IntArray) -> bool:
        """Count windows that lie all in one record at once; return False for others."""
        place = int(np.searchsorted(times, edges[0], "right"))
        inside = 0 < place < times.size and edges[0] >= times[place - 1]
        if not inside or edges[-1] > times[place] or self._part.any():
            return False
        share = self._window_ns / (times[place] - times[place - 1])
        row = ((sums[place] - sums[place - 1]) * share)[:, None]
        self._closed(begin, row, edges.size - 1)
        return True

    def close(self) -> None:
        """Close the last window as it is; nothing may be added after it."""
        if self._open is not None:
            self._closed(self._open, self._part[:, None], 1)
        self._part = np.zeros(3)
