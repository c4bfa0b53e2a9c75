"""Latencies made ready to be measured on this machine."""

from __future__ import annotations

import numpy as np

from lanescope._core import native
from lanescope.errors import NotMeasuredError
from lanescope.experiment import Copy, Experiment, Operation
from lanescope.measurement.result import FloatArray, LinkEvidence

#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.15
#: A line of the GPU's cache, and the step of nvbandwidth's chase.
_STRIDE_BYTES = 128
#: The first chases are this long: they tell how many loads make up a batch.
_TRIAL_HOPS = 256
_FEWEST_HOPS = 64
_MOST_HOPS = 1 << 20


class ChaseProbe:
    """Dependent loads by one thread of a GPU."""

    def __init__(self, topology: native.Topology, pool: native.BufferPool, copy: Copy) -> None:
        memory = getattr(native.Memory, str(copy.source.memory).replace("-", "_"))
        shuffled = copy.operation is Operation.CHASE_RANDOM
        self._probe = native.ChaseProbe(
            topology,
            pool,
            source=native.PlaceSpec(memory, copy.source.index),
            device=copy.destination.index,
            bytes=copy.bytes,
            order=native.ChaseOrder.random if shuffled else native.ChaseOrder.sequential,
            stride=_STRIDE_BYTES,
            cpus=list(copy.cpus),
        )
        self._hops = _TRIAL_HOPS
        self._tried = False
        order = "in random order" if shuffled else "by address"
        self.method = (
            f"GPU clock around a chain of dependent 8-byte loads by one thread, {_STRIDE_BYTES} B "
            f"apart, {order}, past the first-level cache; the thread moves on to another of "
            f"{self._probe.multiprocessors()} SMs with each sample"
        )

    def batch(self, seconds: float) -> FloatArray:
        """Chase once from every SM, for about so long in all; empty after the trial."""
        samples = self._probe.multiprocessors()
        found = np.array(self._probe.run(samples, self._hops))
        wanted = seconds / samples / max(float(np.median(found)), 1e-9)
        self._hops = int(np.clip(wanted, _FEWEST_HOPS, _MOST_HOPS))
        tried, self._tried = self._tried, True
        return found if tried else found[:0]

    def check(self) -> None:
        """Raise `NotMeasuredError` if a chase did not end where its ring says."""
        if wrong := self._probe.count_mismatches():
            raise NotMeasuredError(
                f"{wrong} pointer chases ended at a wrong place: the data was corrupted.",
                "Look for ECC and Xid errors in the kernel log; do not trust this path.",
            )


class LatencySession:
    """One latency on an idle path."""

    staged = False

    def __init__(self, probe: ChaseProbe) -> None:
        self._probe = probe
        self.method = probe.method

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        return [self._probe.batch(_BATCH_SECONDS)]

    def check(self) -> None:
        """Look at what arrived; see `Session.check`."""
        self._probe.check()

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """A latency is not judged, so nobody looks at the link."""
        return ()


def latency_session(
    topology: native.Topology, pool: native.BufferPool, experiment: Experiment
) -> LatencySession:
    """Make an experiment ready whose first copy is a latency."""
    return LatencySession(ChaseProbe(topology, pool, experiment.copies[0]))
