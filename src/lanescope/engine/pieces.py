"""Many small copies made ready to run on this machine."""

from __future__ import annotations

import numpy as np

from lanescope._core import native
from lanescope.copies import Experiment, Memory, Submission, Timing
from lanescope.engine.base import WithoutLinks
from lanescope.engine.core import CLOCK_SECONDS, device_of, place_spec, require_equal
from lanescope.errors import NotMeasuredError
from lanescope.results.result import FloatArray

#: A batch aims at this time: a map has hundreds of cells with a small budget each.
_BATCH_SECONDS = 0.01
_FIRST_REPETITIONS = 6
_MOST_REPETITIONS = 500

_HOW = {
    Submission.SINGLE: "a call of cudaMemcpyAsync for each piece",
    Submission.BATCH: "one call of cudaMemcpyBatchAsync, sources read in stream order",
    Submission.GRAPH: "one launch of a CUDA graph of independent copies, whose making and upload "
    "are left out",
    Submission.KERNEL: "one kernel that copies, with the addresses in a table in host memory",
}
_IN_PLACE = {
    True: "nothing copied: one kernel reads the pieces in host memory and sums them up",
    False: "nothing copied: one kernel makes the pieces and stores them in host memory",
}


class PieceSession(WithoutLinks):
    """One copy in pieces, by the host's clock.

    Its GPU's link is not looked at: pieces this small leave it idle enough to slow down.
    """

    def __init__(
        self, topology: native.Topology, pool: native.BufferPool, experiment: Experiment
    ) -> None:
        _require_measurable(experiment)
        copy = experiment.copies[0]
        spec = native.PieceSpec(
            place_spec(copy.source),
            place_spec(copy.destination),
            copy.bytes // copy.pieces,
            copy.pieces,
            device_of(copy),
            getattr(native.Submission, str(copy.submission)),
        )
        self._pieces = native.PieceSet(topology, pool, spec, list(copy.cpus))
        self._repetitions = _FIRST_REPETITIONS
        self._submit_seconds: list[float] = []
        self._in_place = copy.submission is Submission.MAPPED
        how = _IN_PLACE[copy.source.is_host] if self._in_place else _HOW[copy.submission]
        self._sums = self._in_place and copy.source.is_host
        self.method = f"host clock from before the first call to the completed transfer; {how}"

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        seconds, submit_seconds = self._pieces.run(self._repetitions)
        self._submit_seconds += submit_seconds
        typical = max(CLOCK_SECONDS, float(np.median(seconds)))
        self._repetitions = int(
            np.clip(_BATCH_SECONDS / typical, _FIRST_REPETITIONS, _MOST_REPETITIONS)
        )
        return [np.array(seconds)]

    def submit_seconds(self) -> float | None:
        """Return the median time until the last call returned."""
        return float(np.median(self._submit_seconds)) if self._submit_seconds else None

    def check(self) -> None:
        """Compare every byte, those between pieces too; see `Session.check`."""
        what = "sums of what was read" if self._sums else "bytes in or between pieces"
        require_equal(self._pieces.count_mismatches(), what, "are")


def _require_measurable(experiment: Experiment) -> None:
    if len(experiment.copies) > 1 or experiment.timing is not Timing.HOST:
        raise NotMeasuredError(
            "Pieces are timed by the host's clock, one copy at a time.",
            "Give an experiment of one copy with Timing.HOST.",
        )
    for place in (experiment.copies[0].source, experiment.copies[0].destination):
        if place.memory in (Memory.PAGEABLE, Memory.MANAGED):
            raise NotMeasuredError(
                f"Pieces of {place.memory} memory are not measured.", "Take pinned memory."
            )
