"""What runs experiments: the protocol that this machine and predictions share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from lanescope.experiment import Experiment
from lanescope.measurement.result import FloatArray, Source


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """What a GPU's PCIe link was seen doing right after its copies ran.

    Attributes
    ----------
    part
        The GPU, such as ``g0``.
    generation, width
        State under load: idle links may run slower to save power.
    replays
        Packets that had to be sent again while it was measured; None when the
        driver does not count them.
    """

    part: str
    generation: int
    width: int
    replays: int | None = None


class Session(Protocol):
    """An experiment made ready to run.

    Attributes
    ----------
    method
        How it is timed, in a sentence.
    staged
        Whether a copy between GPUs goes through host memory, as they cannot
        reach each other.
    """

    method: str
    staged: bool

    def sample(self) -> list[FloatArray]:
        """Run a batch of repetitions; return seconds, an array for each copy.

        Arrays may be of different lengths, and empty.
        """

    def check(self) -> None:
        """Raise `NotMeasuredError` if the destinations do not hold what was sent."""

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return what was seen of the links, as far as the machine tells."""


class Backend(Protocol):
    """Runs experiments.

    Attributes
    ----------
    source
        Whether its numbers are measured or predicted.
    """

    source: Source

    def prepare(self, experiment: Experiment) -> AbstractContextManager[Session]:
        """Make an experiment ready.

        Raises
        ------
        NotMeasuredError
            If this experiment cannot run now; others may.
        """
