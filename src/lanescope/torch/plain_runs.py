"""Tensors between GPUs that come without a header, as a header before has announced.

A header costs the host some tens of microseconds, and the receiver cannot begin before it. Where
the sender sees that tensors of a kind go as they are again and again, it announces so many more
of them that both sides go straight to PyTorch's own call for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lanescope.compression.deciding import Decision, Transfer

#: Who sends to whom, the type of values and how many.
Kind = tuple[int, int | str, str, int]
#: After the second header in a row that has a tensor go as it is; doubled after each next one.
_FIRST_RUN, _LONGEST_RUN = 4, 32
#: Of which runs are under way, or headers are counted.
_MOST_KINDS = 1024


@dataclass(slots=True)
class Run:
    """Of tensors of a kind.

    Attributes
    ----------
    headers
        How many came in a row, with tensors that went as they were.
    left
        How many tensors come without a header; who lets one go counts it.
    decided
        What the last header's tensor was, and why it went as it did; the sender alone knows it.
    logged
        By tag, what is in the log of each tensor since then.
    """

    headers: int = 0
    left: int = 0
    decided: tuple[Transfer, Decision] | None = None
    logged: dict[int, Any] = field(default_factory=dict)


@dataclass(slots=True)
class PlainRuns:
    """Of one group in one process, as sender and as receiver."""

    _runs: dict[Kind, Run] = field(default_factory=dict)

    def next_of(self, kind: Kind) -> Run | None:
        """Return the run in which the next tensor of a kind has no header; None: it has one."""
        run = self._runs.get(kind)
        return None if run is None or run.left == 0 else run

    def announce(self, kind: Kind, transfer: Transfer, decision: Decision) -> int:
        """Return how many shall follow without a header, for the header of a tensor to send."""
        if decision.compress:
            self._runs.pop(kind, None)
            return 0
        if kind not in self._runs and len(self._runs) >= _MOST_KINDS and not self._make_room():
            return 0
        run = self._runs.setdefault(kind, Run())
        run.headers += 1
        run.decided = (transfer, decision)
        run.logged.clear()
        if run.headers > 1:
            run.left = min(_FIRST_RUN << min(run.headers - 2, 8), _LONGEST_RUN)
        return run.left

    def expect(self, kind: Kind, count: int) -> None:
        """Take in what a header has announced."""
        if count:
            if kind not in self._runs and len(self._runs) >= _MOST_KINDS:
                self._make_room()  # as far as it goes: the sender has made its
            self._runs[kind] = Run(left=count)
        else:
            self._runs.pop(kind, None)

    def _make_room(self) -> bool:
        """Forget a kind of which no run is under way; return whether there was one."""
        idle = next((kind for kind, run in self._runs.items() if run.left == 0), None)
        if idle is None:
            return False
        del self._runs[idle]
        return True
