"""Copies of whole arrays by host threads, made ready to run on this machine."""

from __future__ import annotations

import time

import numpy as np

from lanescope._core import native
from lanescope.backend.reasons import require_equal
from lanescope.backend.specs import place_spec
from lanescope.experiment import Copy, Experiment
from lanescope.measurement.overlap import overlapping_spans, shares_of_common_time
from lanescope.measurement.result import FloatArray, LinkEvidence

#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.15
#: On a machine that others have begun to use it may become longer, but no more than this.
_LONGEST_BATCH_SECONDS = 0.6
_MOST_REPETITIONS = 1000
#: So many times the time of repetitions is usual for a batch of them.
_WAITING_COUNTS_FROM = 2
#: Of copies at once the first repetition may not count.
_LEAST_AT_ONCE = 3
#: No clock here has finer steps.
_CLOCK_SECONDS = 1e-9


class HostSession:
    """Copies by host threads; several of them run free of each other.

    Parameters
    ----------
    device
        The GPU that pins memory, where it is to be pinned.
    """

    staged = False

    def __init__(
        self,
        topology: native.Topology,
        pool: native.BufferPool,
        experiment: Experiment,
        device: int = 0,
    ) -> None:
        specs = [
            native.HostCopySpec(
                source=place_spec(copy.source),
                destination=place_spec(copy.destination),
                bytes=copy.bytes,
                operation=getattr(native.Operation, str(copy.operation)),
                cpus=list(copy.cpus),
            )
            for copy in experiment.copies
        ]
        self.batch_seconds = _BATCH_SECONDS
        self._team = native.HostTeam(topology, pool, specs, device)
        self._least = 1 if len(specs) == 1 else _LEAST_AT_ONCE
        self._repetitions = self._least
        self._in_turns = _share_cpus(experiment.copies)
        self.method = self._describe(experiment)

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        begin = time.perf_counter()
        spans = self._team.run(self._repetitions, _LONGEST_BATCH_SECONDS)
        took = time.perf_counter() - begin
        longest = max(float(np.median([end - begin for begin, end in copy])) for copy in spans)
        # Threads wait for each other, too, and where others have the CPUs that takes longer.
        longest = max(longest, took / max(map(len, spans)) / _WAITING_COUNTS_FROM)
        wanted = self.batch_seconds / max(longest, _CLOCK_SECONDS)
        self._repetitions = int(np.clip(wanted, self._least, _MOST_REPETITIONS))
        return shares_of_common_time(spans) if self._in_turns else overlapping_spans(spans)

    def check(self) -> None:
        """Compare every element; see `Session.check`."""
        require_equal(self._team.count_mismatches(), "elements")

    def clock_seconds(self) -> float:
        """Return what reading the clock adds to a repetition; see `ReadsClock`."""
        return native.host_clock_cost()

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Host memory has no link to look at."""
        return ()

    def _describe(self, experiment: Experiment) -> str:
        copies = experiment.copies
        threads = sum(len(copy.cpus) for copy in copies)
        return (
            f"host clock, first thread's start to last thread's end; {threads} pinned thread(s), "
            f"{self._stores_text(len(copies))}, bytes counted as STREAM does (read + written)"
            f"{_at_once_text(copies)}"
        )

    def _stores_text(self, copies: int) -> str:
        if not native.has_streaming_stores():
            return "cached stores (lanescope has no streaming ones for this CPU)"
        streaming = {self._team.streaming_stores(i) for i in range(copies)}
        stores = " and ".join("streaming" if past else "cached" for past in sorted(streaming))
        return f"{stores} stores (the faster on trial)"


def _at_once_text(copies: tuple[Copy, ...]) -> str:
    if len(copies) == 1:
        return ""
    text = f"; {len(copies)} copies, none of which waits for another"
    if _share_cpus(copies):
        return (
            f"{text}; threads that share a CPU take turns on it, so that a sample is the time "
            "of all divided by a copy's repetitions"
        )
    return f"{text}, and repetitions during which all ran"


def _share_cpus(copies: tuple[Copy, ...]) -> bool:
    """Whether threads of several copies are pinned to one CPU."""
    used = [cpu for copy in copies for cpu in set(copy.cpus)]
    return len(set(used)) < len(used)
