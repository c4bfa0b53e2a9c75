"""Latencies of this machine, a batch at a time, on an idle path or a busy one."""

from __future__ import annotations

import math
import time
from typing import Protocol

import numpy as np

from lanescope._core import native
from lanescope.copies import Copy, Engine, Experiment, Operation
from lanescope.engine.base import Session, WithoutLinks
from lanescope.engine.core import CLOCK_SECONDS, copy_spec, device_of, place_spec, require_equal
from lanescope.errors import NotApplicableError, NotMeasuredError
from lanescope.results import MIN_SAMPLES, FloatArray

#: A line of the GPU's cache, and the step of nvbandwidth's chase.
_STRIDE_BYTES = 128
#: The first batch is small: it tells how long the others may be.
_TRIAL_HOPS = 128
_TRIAL_REPETITIONS = 32
_FEWEST_HOPS = 64
#: A chase from every SM takes about this long: near and far SMs differ, and their mean is
#: what can be compared.
_ROUND_SECONDS = 0.005
_MOST_HOPS = 1 << 20
_FEWEST_REPETITIONS = 8
#: A probe that takes a microsecond would otherwise fill the run folder.
_MOST_REPETITIONS = 2000

_CORRUPTED = "Look for ECC and Xid errors in the kernel log; do not trust this path."

_CALLS = {
    Operation.LAUNCH: "the call that launches an empty kernel",
    Operation.KERNEL_SYNC: "the launch of a kernel until cudaStreamSynchronize returns",
    Operation.KERNEL_SPIN: "the launch of a kernel until the word it writes is seen",
    Operation.COPY_SUBMIT: "the call of cudaMemcpyAsync",
    Operation.COPY_SYNC: "cudaMemcpyAsync until cudaStreamSynchronize returns",
    Operation.COPY_SPIN: "cudaMemcpyAsync until its last byte is seen",
}


class LatencyProbe(Protocol):
    """One latency made ready to be measured.

    Attributes
    ----------
    method
        How it is timed, in a phrase.
    """

    method: str

    def measure(self) -> FloatArray:
        """Run a batch; return the seconds of each sample."""

    def plan(self, seconds: float, found: FloatArray) -> None:
        """Make the next batch last about so long, judging by what a batch has found."""

    def shorten(self) -> None:
        """Make the next batch shorter."""

    def check(self) -> None:
        """Raise `NotMeasuredError` if what was sent did not arrive."""


def probe_of(topology: native.Topology, pool: native.BufferPool, copy: Copy) -> LatencyProbe:
    """Make ready what measures the latency `copy`."""
    if copy.operation.is_chase:
        return ChaseProbe(topology, pool, copy)
    if copy.operation is Operation.PING_PONG:
        return PingPongProbe(topology, pool, copy)
    return CallProbe(topology, pool, copy)


class ChaseProbe:
    """Dependent loads by one thread of a GPU."""

    def __init__(self, topology: native.Topology, pool: native.BufferPool, copy: Copy) -> None:
        shuffled = copy.operation is Operation.CHASE_RANDOM
        by_bulk = copy.operation is Operation.CHASE_TMA
        self._probe = native.ChaseProbe(
            topology,
            pool,
            source=place_spec(copy.source),
            device=copy.destination.index,
            bytes=copy.bytes,
            order=native.ChaseOrder.random if shuffled else native.ChaseOrder.sequential,
            stride=_STRIDE_BYTES,
            cpus=list(copy.cpus),
            by_bulk=by_bulk,
        )
        self._hops, self._rounds = _TRIAL_HOPS, 1
        order = "in random order" if shuffled else "by address"
        what = "bulk copies of 16 B to shared memory (TMA)" if by_bulk else "8 B loads"
        self.method = (
            f"GPU clock around dependent {what}, {_STRIDE_BYTES} B apart, {order}; "
            f"one thread, the mean over {self._probe.multiprocessors()} SMs in turn"
        )

    def measure(self) -> FloatArray:
        """Chase from every SM, a round or more; the mean of each round."""
        every = self._probe.multiprocessors()
        found = np.array(self._probe.run(every * self._rounds, self._hops))
        means: FloatArray = found.reshape(self._rounds, every).mean(axis=1)
        return means

    def plan(self, seconds: float, found: FloatArray) -> None:
        """Choose how many loads make a chase, and how many rounds a batch."""
        of_each = self._probe.multiprocessors() * _median(found)
        self._hops = int(np.clip(min(seconds, _ROUND_SECONDS) / of_each, _FEWEST_HOPS, _MOST_HOPS))
        # the fewest loads from every SM may take longer than a round should
        fitting = max(MIN_SAMPLES, int(seconds / (self._hops * of_each)))
        self._rounds = max(1, min(int(seconds / _ROUND_SECONDS), fitting))

    def shorten(self) -> None:
        """Halve the chase."""
        self._hops = max(_FEWEST_HOPS, self._hops // 2)
        self._rounds = max(1, self._rounds // 2)

    def check(self) -> None:
        """Compare where each chase has ended with the ring."""
        if wrong := self._probe.count_mismatches():
            raise NotMeasuredError(f"{wrong} pointer chases ended at a wrong place.", _CORRUPTED)


class _Repeated:
    """A probe whose batch is so many repetitions."""

    def __init__(self) -> None:
        self._repetitions = _TRIAL_REPETITIONS

    def plan(self, seconds: float, found: FloatArray) -> None:
        """Choose how many repetitions make a batch."""
        wanted = seconds / _median(found)
        self._repetitions = int(np.clip(wanted, _FEWEST_REPETITIONS, _MOST_REPETITIONS))

    def shorten(self) -> None:
        """Halve the batch."""
        self._repetitions = max(_FEWEST_REPETITIONS, self._repetitions // 2)


class CallProbe(_Repeated):
    """A kernel or a small copy, as the host thread sees it that asked for it."""

    def __init__(self, topology: native.Topology, pool: native.BufferPool, copy: Copy) -> None:
        super().__init__()
        self._probe = native.CallProbe(
            topology,
            pool,
            call=getattr(native.Call, str(copy.operation).replace("-", "_")),
            source=place_spec(copy.source),
            destination=place_spec(copy.destination),
            bytes=copy.bytes,
            device=device_of(copy),
            cpus=list(copy.cpus),
        )
        self.method = f"host clock, {_CALLS[copy.operation]}; stream empty before; {_clock_words()}"

    def measure(self) -> FloatArray:
        """Call so many times."""
        return np.array(self._probe.run(self._repetitions))

    def check(self) -> None:
        """Look whether the last message arrived."""
        if wrong := self._probe.count_mismatches():
            raise NotMeasuredError(f"{wrong} bytes of the message arrived wrong.", _CORRUPTED)


class PingPongProbe(_Repeated):
    """A word that a host thread and a running kernel pass back and forth."""

    def __init__(self, topology: native.Topology, pool: native.BufferPool, copy: Copy) -> None:
        super().__init__()
        host, gpu = copy.source, copy.destination
        if not host.is_host:
            host, gpu = gpu, host
        self._probe = native.PingPong(
            topology, pool, words=place_spec(host), device=gpu.index, cpus=list(copy.cpus)
        )
        self.method = (
            f"host clock, from writing a word until the running kernel's answer is seen, both in "
            f"{host.memory} memory of {host.part}; {_clock_words()}"
        )

    def measure(self) -> FloatArray:
        """Play so many rounds."""
        return np.array(self._probe.run(self._repetitions))

    def check(self) -> None:
        """Every round has waited for its own number, so that all have arrived."""


def _median(found: FloatArray) -> float:
    return max(float(np.median(found)), CLOCK_SECONDS)


def _clock_words() -> str:
    return f"reading the clock takes {native.host_clock_cost() * 1e9:.0f} ns, not subtracted"


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


class LatencySession(WithoutLinks):
    """One latency on an idle path."""

    def __init__(self, probe: LatencyProbe) -> None:
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


class LoadedSession(WithoutLinks):
    """One latency while copies keep a path busy.

    The copies are queued first and run alone until one has ended; then the probe
    runs. Where they have all ended before the probe has, the batch does not count.
    """

    def __init__(self, probe: LatencyProbe, load: native.CopyLoad, experiment: Experiment) -> None:
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
        require_equal(self._load.count_mismatches(), "bytes of the load")
