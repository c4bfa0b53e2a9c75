"""Copies of blocks by one host thread, made ready to run on this machine."""

from __future__ import annotations

import time

import numpy as np

from lanescope._core import native
from lanescope.backend.reasons import require_equal
from lanescope.backend.specs import place_spec
from lanescope.experiment import Copy, Experiment
from lanescope.experiment.access import PLAIN, Access, Caches, Pattern
from lanescope.measurement.result import FloatArray, LinkEvidence

#: A batch aims at this time, flushes included, so that a signal is answered.
_BATCH_SECONDS = 0.1
_FIRST_SAMPLES = 6
_MOST_SAMPLES = 1000

_ORDER_WORDS = {
    Pattern.REPEATED: "always the same block",
    Pattern.ASCENDING: "block after block upwards",
    Pattern.DESCENDING: "block after block downwards",
    Pattern.RANDOM: "every block once in random order, and so again",
}


class BlockSession:
    """One copy by one thread, whose repetitions walk over memory block by block.

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
        self.batch_seconds = _BATCH_SECONDS
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

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Host memory has no link to look at."""
        return ()

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
