"""Where the trace of a process is missing, its copies are those that its calls tell.

With ``--trace always`` a process has two spools: CUPTI's trace, and its calls. The trace ends early
where another profiler has CUPTI or the process is killed. No copy counts twice: calls count only
where the trace tells nothing of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from lanescope.trace.codes import BoolArray, IntArray
from lanescope.trace.operations import Operations
from lanescope.trace.timeline import CALL_TIMES, Process

#: Before its end a trace may lack copies that were called for: a profiler that takes CUPTI over
#: gets the buffers that were not full. They are written ten times a second.
_UNSURE_NS = 1_000_000_000
#: Both clocks agree to this.
_SLACK_NS = 5_000
#: Of a trace that ended in order calls count only so long after all that it has.
_SURELY_LATER_NS = 1_000_000
#: Calls are compared one by one where the trace knows those of so many of its last operations.
_LEAST_KNOWN = 0.9


@dataclass(slots=True)
class Coverage:
    """Which calls of a process its trace covers; fed piece by piece.

    Attributes
    ----------
    process
        Whose trace it is; None where there is none.
    cut_short
        Whether the trace ended before the process did, as it says itself.
    calls
        The process as its calls tell it; None where they were not recorded.
    """

    pid: int
    start_ns: int
    process: Process | None = None
    cut_short: bool = False
    calls: Process | None = None
    _copies: int = 0
    _called_ns: int = 0
    _begun_ns: int = 0
    _last: IntArray = field(default_factory=lambda: np.empty((0, 3), np.int64))
    _missing: int = 0
    _missing_ns: int | None = None

    def add(self, traced: Operations) -> None:
        """Take the next operations of the trace."""
        if not len(traced):
            return
        self._copies += int(traced.is_copy.sum())
        self._called_ns = max(self._called_ns, int(traced.call_start_ns.max()))
        self._begun_ns = max(self._begun_ns, int(traced.start_ns.max()))
        calls = np.stack((traced.thread, traced.call_start_ns, traced.call_end_ns), axis=1)
        last = np.concatenate((self._last, calls[traced.is_copy]))
        unsure = (last[:, 1] == 0) | (last[:, 1] > self._called_ns - _UNSURE_NS)
        self._last = last[unsure]

    def only_missing(self, called: Operations) -> Operations:
        """Return those of the next copies of the calls that the trace does not have."""
        if not len(called):
            return called
        found = called if not self._copies else called.rows(self._is_missing(called))
        self._missing += len(found)
        if len(found):
            first = int(found.call_start_ns.min())
            self._missing_ns = min(first, self._missing_ns or first)
        return found

    def _is_missing(self, called: Operations) -> BoolArray:
        start: IntArray = called.call_start_ns
        latest = max(self._called_ns, self._begun_ns)
        known = self._last[self._last[:, 1] > 0]
        sure = len(known) >= _LEAST_KNOWN * len(self._last) and len(known) > 0
        whole = self.process is not None and self.process.complete and not self.cut_short
        # a trace that says nothing of an early end may still have lost its place: to a profiler
        # that has let go of CUPTI since
        if whole or not sure:
            return np.greater(start, latest + _SURELY_LATER_NS) & np.greater(called.bytes, 0)
        late = start > self._called_ns - _UNSURE_NS
        missing = late & np.greater(called.bytes, 0)
        missing[late] &= ~_within(called.thread[late], start[late], known)
        return missing

    def end(self, process: Process, *, cut_short: bool = False) -> None:
        """Take whose trace, or whose calls, came to an end; `cut_short` is of traces."""
        if process.timed_by == CALL_TIMES:
            self.calls = process
        else:
            self.process, self.cut_short = process, cut_short

    def result(self) -> Process:
        """Return the process, with what is missing of its trace."""
        traced, calls = self.process, self.calls
        if traced is None or calls is None:
            process = traced or calls
            assert process is not None, "there is a spool for each"
            until = max(self._called_ns, self._begun_ns) or self.start_ns
            return replace(process, traced_until_ns=until) if self.cut_short else process
        both = traced.lost_records + calls.lost_records
        if not self._copies:
            until_start = calls.start_ns if self.cut_short else None
            return replace(
                calls, lost_records=both, traced_until_ns=until_start, calls_after=self.cut_short
            )
        if not self._missing:
            return traced
        return replace(
            traced, lost_records=both, traced_until_ns=self._missing_ns, calls_after=True
        )


def _within(threads: IntArray, start_ns: IntArray, calls: IntArray) -> BoolArray:
    """Return which times lie within a call of the same thread.

    Parameters
    ----------
    calls
        A row for each: thread, start and end.
    """
    inside = np.zeros(threads.size, np.bool_)
    for thread in np.unique(threads).tolist():
        own = calls[calls[:, 0] == thread]
        own = own[np.argsort(own[:, 1], kind="stable")]
        mine = threads == thread
        if not len(own):
            continue
        before = np.searchsorted(own[:, 1], start_ns[mine] + _SLACK_NS, "right") - 1
        ends = own[np.maximum(before, 0), 2]
        inside[mine] = (before >= 0) & (start_ns[mine] <= ends + _SLACK_NS)
    return inside


class Coverages:
    """The processes of a watch, each with its trace, its calls or both; traces come first."""

    def __init__(self) -> None:
        self._found: list[Coverage] = []

    def of_trace(self, pid: int, start_ns: int) -> Coverage:
        """Return what is to be fed with a process's trace."""
        self._found.append(Coverage(pid, start_ns))
        return self._found[-1]

    def of_calls(self, pid: int, start_ns: int) -> Coverage:
        """Return what the trace of the same process covers; nothing where there is none."""
        traces = [one for one in self._found if one.pid == pid and one.calls is None]
        traces = [one for one in traces if one.process is not None]
        if not traces:
            return self.of_trace(pid, start_ns)
        return min(traces, key=lambda one: abs(one.start_ns - start_ns))

    def processes(self) -> tuple[Process, ...]:
        """Return each process once."""
        return tuple(
            one.result() for one in self._found if one.process is not None or one.calls is not None
        )
