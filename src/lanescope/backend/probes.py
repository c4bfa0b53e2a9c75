"""What measures one latency on this machine, a batch at a time."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lanescope._core import native
from lanescope.backend.specs import device_of, place_spec
from lanescope.errors import NotMeasuredError
from lanescope.experiment import Copy, Operation
from lanescope.measurement.result import FloatArray

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
#: No clock here has finer steps.
_CLOCK_SECONDS = 1e-9

_CORRUPTED = "Look for ECC and Xid errors in the kernel log; do not trust this path."

_CALLS = {
    Operation.LAUNCH: "the call that launches an empty kernel",
    Operation.KERNEL_SYNC: "the launch of a kernel until cudaStreamSynchronize returns",
    Operation.KERNEL_SPIN: "the launch of a kernel until the word it writes is seen",
    Operation.COPY_SUBMIT: "the call of cudaMemcpyAsync",
    Operation.COPY_SYNC: "cudaMemcpyAsync until cudaStreamSynchronize returns",
    Operation.COPY_SPIN: "cudaMemcpyAsync until its last byte is seen",
}


class Probe(Protocol):
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


def probe_of(topology: native.Topology, pool: native.BufferPool, copy: Copy) -> Probe:
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
        self._probe = native.ChaseProbe(
            topology,
            pool,
            source=place_spec(copy.source),
            device=copy.destination.index,
            bytes=copy.bytes,
            order=native.ChaseOrder.random if shuffled else native.ChaseOrder.sequential,
            stride=_STRIDE_BYTES,
            cpus=list(copy.cpus),
        )
        self._hops, self._rounds = _TRIAL_HOPS, 1
        order = "in random order" if shuffled else "by address"
        self.method = (
            f"GPU clock around dependent 8 B loads, {_STRIDE_BYTES} B apart, {order}; "
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
        wanted = min(seconds, _ROUND_SECONDS) / self._probe.multiprocessors() / _median(found)
        self._hops = int(np.clip(wanted, _FEWEST_HOPS, _MOST_HOPS))
        self._rounds = max(1, int(seconds / _ROUND_SECONDS))

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
    return max(float(np.median(found)), _CLOCK_SECONDS)


def _clock_words() -> str:
    return f"reading the clock takes {native.host_clock_cost() * 1e9:.0f} ns, not subtracted"
