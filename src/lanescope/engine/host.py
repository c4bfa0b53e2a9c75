"""Host threads, made ready to run: copies of whole arrays and of blocks, and single loads."""

from __future__ import annotations

import math
import os
import time

import numpy as np

from lanescope._core import native
from lanescope.copies import Copy, Experiment, Operation
from lanescope.copies.terms import PLAIN, Access, Caches, Pattern
from lanescope.engine.base import WithoutLinks
from lanescope.engine.core import CLOCK_SECONDS, place_spec, require_equal
from lanescope.errors import NotMeasuredError
from lanescope.results import FloatArray
from lanescope.results.turns import overlapping_spans, shares_of_common_time

#: Threads that share an array move numbers of this size, and loads are of it.
WORD_BYTES = 8
#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.15
#: On a machine that others have begun to use it may become longer, but no more than this.
_LONGEST_BATCH_SECONDS = 0.6
_MOST_REPETITIONS = 1000
#: So many times the time of repetitions is usual for a batch of them.
_WAITING_COUNTS_FROM = 2
#: Of copies at once the first repetition may not count.
_LEAST_AT_ONCE = 3
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
#: A batch aims at this time, so that a signal is answered and a budget is kept.
_LOADS_BATCH_SECONDS = 0.05
_LOADS_MOST_SAMPLES = 250
#: A sample takes so long at least, so that reading the clock is below 1 % of it.
_SHORTEST_SECONDS = 2e-4
#: A chase takes no longer for one sample; the next one goes on where it has ended.
_LONGEST_SECONDS = 1e-2
#: The first run does not count. It tells how long the others may be, and warms the caches.
_TRIAL_LOADS = 1 << 20
_LOADS_WORDS = {
    Operation.GATHER: "none waiting for another; the time of a pass over all",
    Operation.CHASE: "each needing the one before, by address; the mean of one over many",
    Operation.CHASE_RANDOM: "each needing the one before, in random order; the mean of one "
    "over many",
}


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


class HostSession(WithoutLinks):
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
        wanted = self.batch_seconds / max(longest, CLOCK_SECONDS)
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


class BlockSession(WithoutLinks):
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


class LoadSession(WithoutLinks):
    """Loads of 8 bytes by one thread: a chain of them, or many in flight.

    `device` is the GPU that pins memory, for the kinds that need one.
    """

    def __init__(
        self,
        topology: native.Topology,
        pool: native.BufferPool,
        experiment: Experiment,
        device: int,
    ) -> None:
        copy = _only_copy(experiment)
        access = copy.access or PLAIN
        self._loads = copy.bytes // WORD_BYTES
        self._stride = access.stride_bytes or WORD_BYTES
        self._chases = copy.operation.is_chase
        self._flushed = access.caches is Caches.FLUSHED
        _require_places(copy, self._loads, self._stride)
        self._probe = native.LoadProbe(
            topology,
            pool,
            source=place_spec(copy.source),
            span=copy.span_bytes,
            stride=self._stride,
            loads=self._loads,
            chase=_order(copy.operation),
            flushed=self._flushed,
            device=device,
            cpus=list(copy.cpus[:1]),
        )
        self._clock_cost = native.host_clock_cost()
        self._per_sample = self._trial_loads()
        self._samples = 0  # not known before the trial
        self.method = self._describe(copy)

    def sample(self) -> list[FloatArray]:
        """Run a batch, the first one as a trial that does not count; see `Session.sample`."""
        if not self._samples:
            self._plan()
            return [np.empty(0)]
        found = np.array(self._probe.run(self._samples, self._per_sample))
        return [found / self._repetitions]

    def check(self) -> None:
        """Look where chases ended and what gathers summed up to; see `Session.check`."""
        if wrong := self._probe.count_mismatches():
            what = "ended at a wrong place" if self._chases else "had a wrong sum"
            raise NotMeasuredError(
                f"{wrong} runs of loads {what}: the data was corrupted in memory.",
                "Look for ECC errors in the kernel log; do not trust this memory.",
            )

    def clock_seconds(self) -> float:
        """Share of one reading of the clock that falls to a load or a pass."""
        return self._clock_cost / self._repetitions

    @property
    def _repetitions(self) -> int:
        """How many times what is reported is in a sample: loads of a chase, else passes."""
        return self._per_sample if self._chases else self._per_sample // self._loads

    def _trial_loads(self) -> int:
        return self._loads if self._flushed else self._whole(min(self._loads, _TRIAL_LOADS))

    def _whole(self, loads: float) -> int:
        """Round up to whole passes, unless a chase is content with a part of one."""
        if self._chases and loads < self._loads:
            return math.ceil(loads)
        return self._loads * math.ceil(loads / self._loads)

    def _plan(self) -> None:
        """Choose how many loads make a sample, and how many samples a batch."""
        begin = time.perf_counter()
        (seconds,) = self._probe.run(1, self._per_sample)
        while not self._flushed and seconds < _SHORTEST_SECONDS:  # mostly clock and cold code
            self._per_sample = self._whole(2 * max(self._per_sample, self._loads))
            begin = time.perf_counter()
            (seconds,) = self._probe.run(1, self._per_sample)
        took = time.perf_counter() - begin
        one = max(seconds, CLOCK_SECONDS) / self._per_sample
        if not self._flushed:
            least, most = _SHORTEST_SECONDS / one, _LONGEST_SECONDS / one
            self._per_sample = self._whole(float(np.clip(self._loads, least, most)))
            took = one * self._per_sample
        self._samples = int(np.clip(_LOADS_BATCH_SECONDS / took, 1, _LOADS_MOST_SAMPLES))

    def _describe(self, copy: Copy) -> str:
        cpu = f"bound to CPU {copy.cpus[0]}" if copy.cpus else "not bound"
        caches = "flushed before each pass, outside of the time" if self._flushed else "warm"
        how = f"8 B loads, {self._stride} B apart, {_LOADS_WORDS[copy.operation]}"
        return (
            f"host clock around {how}; one thread, {cpu}; caches {caches}; reading the clock "
            f"takes {self._clock_cost * 1e9:.0f} ns a sample, not subtracted"
        )


def _order(operation: Operation) -> native.ChaseOrder | None:
    if operation is Operation.GATHER:
        return None
    shuffled = operation is Operation.CHASE_RANDOM
    return native.ChaseOrder.random if shuffled else native.ChaseOrder.sequential


def _only_copy(experiment: Experiment) -> Copy:
    if len(experiment.copies) > 1:
        raise NotMeasuredError(
            "Single loads are measured alone, not beside others.", "Give each an own experiment."
        )
    return experiment.copies[0]


def _require_places(copy: Copy, loads: int, stride: int) -> None:
    """Every load needs 8 bytes of its own, and a chase a place to go to."""
    least = 2 if copy.operation.is_chase else 1
    if copy.bytes % WORD_BYTES or loads < least:
        raise NotMeasuredError(
            f"{copy.bytes} bytes are no {least} or more loads of {WORD_BYTES} bytes.",
            f"Give a multiple of {WORD_BYTES}, {least * WORD_BYTES} or more.",
        )
    if stride % WORD_BYTES:
        raise NotMeasuredError(
            f"Loads of {WORD_BYTES} bytes that are {stride} bytes apart would cross lines.",
            f"Give a stride that is a multiple of {WORD_BYTES}.",
        )
    room = copy.span_bytes // stride * (stride // WORD_BYTES)
    if loads > room:
        raise NotMeasuredError(
            f"A span of {copy.span_bytes} bytes has room for {room} different loads that are "
            f"{stride} bytes apart, not for {loads}.",
            "Give a larger span or a smaller stride.",
        )
