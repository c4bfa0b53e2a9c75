"""Stands in for the core's CopySet: copies on engines that do one stream's after another's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

#: Of the numbers of the copies that run, how fast each goes, as a share of its pace alone.
Paces = Callable[[frozenset[int]], dict[int, float]]


def undisturbed(running: frozenset[int]) -> dict[int, float]:
    return dict.fromkeys(running, 1.0)


class Engines:
    """Plays a set of copies on engines.

    Parameters
    ----------
    seconds
        Of each copy when it runs alone.
    queues
        Numbers of the copies of each engine, in the order in which it takes their streams.
    paces
        What they do to each other.
    alternate
        Whether an engine does a window of each stream in turn.
    first
        How many times as long the first window of a copy takes in the first batch.
    """

    def __init__(
        self,
        seconds: Sequence[float],
        queues: Sequence[Sequence[int]],
        paces: Paces = undisturbed,
        first: float = 1.0,
        alternate: bool = False,
    ) -> None:
        self.seconds, self.queues, self.paces, self.first = seconds, queues, paces, first
        self.alternate = alternate
        self.calls: list[tuple[int, int]] = []
        self.running: list[tuple[float, float, frozenset[int]]] = []  # of the last batch

    def run_gated(
        self, windows: int, loops: int, shares: Sequence[int] = (), queues: Sequence[int] = ()
    ) -> list[list[float]]:
        self.calls.append((windows, loops))
        first = self.first if len(self.calls) == 1 else 1.0
        ends: list[list[float]] = [[] for _ in self.seconds]
        of_window = [
            s * loops * share
            for s, share in zip(self.seconds, shares or [1] * len(self.seconds), strict=True)
        ]
        left = {n: [first * s, *[s] * windows] for n, s in enumerate(of_window)}
        now, self.running = 0.0, []
        engines = [list(queue) for queue in self.queues]
        streams = [
            [m for m, queue in enumerate(queues) if queue == n] if queues else [n]
            for n in range(len(self.seconds))
        ]
        while True:
            ready = {stream[0] for stream in streams if stream and left[stream[0]]}
            heads = (next((n for n in engine if n in ready), None) for engine in engines)
            running = frozenset(n for n in heads if n is not None)
            if not running:
                return ends
            paces = self.paces(running)
            step = min(left[n][0] / paces[n] for n in running)
            now += step
            self.running.append((now - step, now, running))
            for n in running:
                left[n][0] -= step * paces[n]
                if left[n][0] <= 1e-12:
                    left[n].pop(0)
                    ends[n].append(now)
                    turned = [one for one in streams if n in one]
                    for queue in (*turned, *(engines if self.alternate else ())):
                        if n in queue:
                            queue.remove(n)
                            queue.append(n)

    def run_on_host_clock(self, windows: int, shares: Sequence[int] = ()) -> list[list[float]]:
        return self.run_gated(windows, 1)

    def count_mismatches(self) -> int:
        return 0

    def staged(self, copy: int) -> bool:
        return False
