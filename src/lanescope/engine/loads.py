"""Single loads of host memory by one host thread: chases and gathers."""

from __future__ import annotations

import math
import time

import numpy as np

from lanescope._core import native
from lanescope.copies import Copy, Experiment, Operation
from lanescope.copies.operation import PLAIN, Caches
from lanescope.engine.specs import place_spec
from lanescope.errors import NotMeasuredError
from lanescope.results.result import FloatArray, LinkEvidence

_WORD_BYTES = 8
#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.05
_MOST_SAMPLES = 250
#: A sample takes so long at least, so that reading the clock is below 1 % of it.
_SHORTEST_SECONDS = 2e-4
#: A chase takes no longer for one sample; the next one goes on where it has ended.
_LONGEST_SECONDS = 1e-2
#: The first run does not count. It tells how long the others may be, and warms the caches.
_TRIAL_LOADS = 1 << 20
#: No clock here has finer steps.
_CLOCK_SECONDS = 1e-9


class LoadSession:
    """Loads of 8 bytes by one thread: a chain of them, or many in flight.

    `device` is the GPU that pins memory, for the kinds that need one.
    """

    staged = False

    def __init__(
        self,
        topology: native.Topology,
        pool: native.BufferPool,
        experiment: Experiment,
        device: int,
    ) -> None:
        copy = _only_copy(experiment)
        access = copy.access or PLAIN
        self._loads = copy.bytes // _WORD_BYTES
        self._stride = access.stride_bytes or _WORD_BYTES
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

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Host memory has no link to look at."""
        return ()

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
        one = max(seconds, _CLOCK_SECONDS) / self._per_sample
        if not self._flushed:
            least, most = _SHORTEST_SECONDS / one, _LONGEST_SECONDS / one
            self._per_sample = self._whole(float(np.clip(self._loads, least, most)))
            took = one * self._per_sample
        self._samples = int(np.clip(_BATCH_SECONDS / took, 1, _MOST_SAMPLES))

    def _describe(self, copy: Copy) -> str:
        cpu = f"bound to CPU {copy.cpus[0]}" if copy.cpus else "not bound"
        caches = "flushed before each pass, outside of the time" if self._flushed else "warm"
        how = f"8 B loads, {self._stride} B apart, {_ORDER_WORDS[copy.operation]}"
        return (
            f"host clock around {how}; one thread, {cpu}; caches {caches}; reading the clock "
            f"takes {self._clock_cost * 1e9:.0f} ns a sample, not subtracted"
        )


_ORDER_WORDS = {
    Operation.GATHER: "none waiting for another; the time of a pass over all",
    Operation.CHASE: "each needing the one before, by address; the mean of one over many",
    Operation.CHASE_RANDOM: "each needing the one before, in random order; the mean of one "
    "over many",
}


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
    if copy.bytes % _WORD_BYTES or loads < least:
        raise NotMeasuredError(
            f"{copy.bytes} bytes are no {least} or more loads of {_WORD_BYTES} bytes.",
            f"Give a multiple of {_WORD_BYTES}, {least * _WORD_BYTES} or more.",
        )
    if stride % _WORD_BYTES:
        raise NotMeasuredError(
            f"Loads of {_WORD_BYTES} bytes that are {stride} bytes apart would cross lines.",
            f"Give a stride that is a multiple of {_WORD_BYTES}.",
        )
    room = copy.span_bytes // stride * (stride // _WORD_BYTES)
    if loads > room:
        raise NotMeasuredError(
            f"A span of {copy.span_bytes} bytes has room for {room} different loads that are "
            f"{stride} bytes apart, not for {loads}.",
            "Give a larger span or a smaller stride.",
        )
