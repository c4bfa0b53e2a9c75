"""Latencies made ready to be measured on this machine, on an idle path or a busy one."""

from __future__ import annotations

import math
import time

import numpy as np

from lanescope._core import native
from lanescope.backend.base import Session
from lanescope.backend.probes import Probe, probe_of
from lanescope.backend.specs import copy_spec
from lanescope.errors import NotApplicableError, NotMeasuredError
from lanescope.experiment import Engine, Experiment
from lanescope.measurement.result import FloatArray, LinkEvidence

#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.04
#: The load is queued before the probe starts. Each copy is two entries of the driver's queue,
#: which ends near 1,000; a full one would hold up the thread that has to start the probe.
_MOST_COPIES = 200
_FEWEST_COPIES = 8
_FIRST_COPIES = 32
#: So often a load that was as long as it may be has ended too early, before it is given up.
_MOST_TRIALS = 4
#: The load should go on for this many times as long as the probe.
_MARGIN = 2.0


def latency_session(
    topology: native.Topology, pool: native.BufferPool, experiment: Experiment
) -> Session:
    """Make ready an experiment with one latency and, perhaps, one copy as its load."""
    probes = [copy for copy in experiment.copies if copy.operation.is_latency]
    loads = [copy for copy in experiment.copies if not copy.operation.is_latency]
    probe = probe_of(topology, pool, probes[0])
    if not loads:
        return LatencySession(probe)
    if len(loads) > 1 or loads[0].engine is not Engine.CE or loads[0].pieces > 1:
        raise NotMeasuredError("The load of a latency is one copy in one piece, by a copy engine.")
    load = native.CopyLoad(topology, pool, copy_spec(loads[0]))
    return LoadedSession(probe, load, experiment)


class LatencySession:
    """One latency on an idle path."""

    staged = False

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._tried = False
        self.method = probe.method

    def sample(self) -> list[FloatArray]:
        """Run a batch, the first one as a trial that does not count; see `Session.sample`."""
        found = self._probe.measure()
        self._probe.plan(_BATCH_SECONDS, found)
        tried, self._tried = self._tried, True
        return [found if tried else found[:0]]

    def check(self) -> None:
        """Look at what arrived; see `Session.check`."""
        self._probe.check()

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """A latency is not judged, so nobody looks at the link."""
        return ()


class LoadedSession:
    """One latency while copies keep a path busy.

    The copies are queued first and run alone until one has ended; then the probe
    runs. Where they have all ended before the probe has, the batch does not count.
    """

    staged = False

    def __init__(self, probe: Probe, load: native.CopyLoad, experiment: Experiment) -> None:
        self._probe = probe
        self._load = load
        self._loaded_first = not experiment.copies[0].operation.is_latency
        self._copies = _FIRST_COPIES
        self._too_short = 0
        self._tried = False
        self.method = (
            f"{probe.method}; while a copy engine copies, which began before and ended after: "
            "its own times by GPU events"
        )

    def sample(self) -> list[FloatArray]:
        """Run a batch under load; see `Session.sample`."""
        self._load.start(self._copies)
        begin = time.perf_counter()
        try:
            found = self._probe.measure()
            completed = self._load.completed()
            took = time.perf_counter() - begin
        finally:
            seconds = np.array(self._load.finish())
        one = float(np.median(seconds))
        if completed >= self._copies:
            return self._again()
        self._probe.plan(min(_BATCH_SECONDS, one * _MOST_COPIES / _MARGIN / 2), found)
        wanted = math.ceil(_MARGIN * max(took, _BATCH_SECONDS) / one)
        self._copies = int(np.clip(wanted, _FEWEST_COPIES, _MOST_COPIES))
        tried, self._tried = self._tried, True
        # The first copy ran alone, and those that went on after the probe did so again.
        both = [found, seconds[1:completed]] if tried else [found[:0], seconds[:0]]
        return both[::-1] if self._loaded_first else both

    def _again(self) -> list[FloatArray]:
        """Try a longer load, or else a shorter probe: some of these samples had no load."""
        if self._copies < _MOST_COPIES:
            self._copies = min(_MOST_COPIES, self._copies * 4)
        elif self._too_short < _MOST_TRIALS:
            self._too_short += 1
            self._probe.shorten()
        else:
            raise NotApplicableError(
                "It ends only when the load does, however short it is: what was queued before it "
                "goes first."
            )
        return [np.empty(0), np.empty(0)]

    def check(self) -> None:
        """Look at what arrived, of the load too; see `Session.check`."""
        self._probe.check()
        if wrong := self._load.count_mismatches():
            raise NotMeasuredError(
                f"{wrong} bytes of the load arrived wrong: the data was corrupted on the way.",
                "Look for ECC and Xid errors in the kernel log; do not trust this path.",
            )

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """A latency is not judged, so nobody looks at the link."""
        return ()
