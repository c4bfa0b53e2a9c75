"""Copies by host threads, made ready to run on this machine: whole arrays, and blocks."""

from __future__ import annotations

import os
import time

import numpy as np

from lanescope._core import native
from lanescope.copies import Copy, Experiment, Operation
from lanescope.copies.operation import PLAIN, Access, Caches, Pattern
from lanescope.engine.reasons import require_equal
from lanescope.engine.specs import place_spec
from lanescope.errors import NotMeasuredError
from lanescope.results.result import FloatArray, LinkEvidence
from lanescope.results.turns import overlapping_spans, shares_of_common_time

#: Threads that share an array move numbers of this size.
WORD_BYTES = 8


def is_by_blocks(experiment: Experiment) -> bool:
    """Whether it is one thread's copy that says which addresses it touches."""
    first = experiment.copies[0]
    one = len(experiment.copies) == len(first.cpus) == 1
    return one and first.operation is Operation.COPY and first.access is not None


def require_no_walk(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` if more than one thread's copy says which addresses it touches."""
    for copy in experiment.copies:
        if copy.access not in (None, PLAIN):
            raise NotMeasuredError(
                f"Only one copy by one host thread walks over memory; this {copy.operation} has "
                f"{len(copy.cpus)} thread(s), and there are {len(experiment.copies)} such at once.",
                "Name one CPU, or leave the pattern, the span and the caches out.",
            )


def require_cpus(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` if a thread cannot be bound to the CPU that a copy names."""
    allowed = os.sched_getaffinity(0)
    for cpu in (cpu for copy in experiment.copies for cpu in copy.cpus):
        if cpu not in allowed:
            raise NotMeasuredError(
                f"CPU {cpu} is none that this process may use.",
                "Name another one, or let more be used: 'taskset -p', or the job's limits.",
            )


def require_words(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` if the threads of a copy cannot share its numbers."""
    for copy in experiment.copies:
        if copy.bytes % WORD_BYTES or copy.bytes < WORD_BYTES * len(copy.cpus):
            raise NotMeasuredError(
                f"{len(copy.cpus)} host thread(s) cannot share {copy.bytes} bytes.",
                f"Give a multiple of {WORD_BYTES}, {WORD_BYTES} or more for each thread.",
            )


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


class _OfHost:
    """What sessions of host threads share: no GPU stages their copies, and no link carries them."""

    staged = False

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Host memory has no link to look at."""
        return ()


class HostSession(_OfHost):
    """Copies by host threads; several of them run free of each other.

    Parameters
    ----------
    device
        The GPU that pins memory, where it is to be pinned.
    """

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


#: A batch aims at this time, flushes included, so that a signal is answered.
_BLOCKS_BATCH_SECONDS = 0.1
_FIRST_SAMPLES = 6
_MOST_SAMPLES = 1000

_ORDER_WORDS = {
    Pattern.REPEATED: "always the same block",
    Pattern.ASCENDING: "block after block upwards",
    Pattern.DESCENDING: "block after block downwards",
    Pattern.RANDOM: "every block once in random order, and so again",
}


class BlockSession(_OfHost):
    """One copy by one thread, whose repetitions walk over memory block by block.

    Parameters
    ----------
    device
        The GPU that pins memory, where it is to be pinned.
    """

    def __init__(
        self,
        topology: native.Topology,
        pool: native.BufferPool,
        experiment: Experiment,
        device: int = 0,
    ) -> None:
        (copy,) = experiment.copies
        (cpu,) = copy.cpus
        access = copy.access or PLAIN
        self._copier = native.BlockCopier(
            topology,
            pool,
            place_spec(copy.source),
            place_spec(copy.destination),
            copy.bytes,
            copy.span_bytes,
            getattr(native.BlockPattern, str(access.pattern)),
            access.caches is Caches.FLUSHED,
            cpu,
            device,
        )
        self.batch_seconds = _BLOCKS_BATCH_SECONDS
        self._samples = _FIRST_SAMPLES
        self.method = self._describe(copy, access)

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        begin = time.perf_counter()
        seconds = np.array(self._copier.run(self._samples))
        each = (time.perf_counter() - begin) / self._samples
        self._samples = int(np.clip(self.batch_seconds / each, 1, _MOST_SAMPLES))
        return [seconds]

    def check(self) -> None:
        """Copy every block once more and compare every byte; see `Session.check`."""
        require_equal(self._copier.count_mismatches(), "bytes")

    def clock_seconds(self) -> float:
        """Return what reading the clock adds to one copy; see `ReadsClock`."""
        return self._copier.clock_seconds()

    def _describe(self, copy: Copy, access: Access) -> str:
        loops, step = self._copier.loops(), self._copier.step_bytes()
        walk = _ORDER_WORDS[access.pattern]
        if access.pattern is not Pattern.REPEATED:
            walk += f" over {copy.span_bytes} bytes of each array"
        caches = "caches as the copies before left them"
        if access.caches is Caches.FLUSHED:
            caches = "all blocks of a sample flushed from the caches before it"
            if step != copy.bytes and access.pattern is not Pattern.REPEATED:
                caches += f", {step} bytes from one to the next so that none share a line"
        return (
            f"host clock around {loops} memcpy call(s) a sample by one pinned thread, {walk}; "
            f"{caches}; bytes counted as STREAM does (read + written)"
        )
