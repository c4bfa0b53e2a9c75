"""A backend for tests: plays given samples back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from lanescope.copies import Copy, Experiment
from lanescope.results import FloatArray, LinkEvidence, Source
from lanescope.results.turns import Turns

_NO_TURNS = Turns()


class FakeBackend:
    """Takes the seconds of each copy from a function.

    Parameters
    ----------
    seconds
        Called with a copy and the number of the batch; returns the batch's
        seconds. It may raise whatever a backend may raise.
    evidence
        What `Session.evidence` returns.
    turns
        Which copies of an experiment took turns on an engine.
    """

    source = Source.MEASURED

    def __init__(
        self,
        seconds: Callable[[Copy, int], list[float]],
        evidence: tuple[LinkEvidence, ...] = (),
        turns: Turns = _NO_TURNS,
    ) -> None:
        self._seconds = seconds
        self._evidence = evidence
        self._turns = turns

    @contextmanager
    def prepare(self, experiment: Experiment) -> Iterator[FakeSession]:
        """Make the experiment ready; see `Backend.prepare`."""
        yield FakeSession(experiment, self._seconds, self._evidence, self._turns)


class FakeSession:
    """One experiment of a `FakeBackend`."""

    method = "fake samples for a test"
    staged = False

    def __init__(
        self,
        experiment: Experiment,
        seconds: Callable[[Copy, int], list[float]],
        evidence: tuple[LinkEvidence, ...],
        turns: Turns = _NO_TURNS,
    ) -> None:
        self._experiment = experiment
        self._seconds = seconds
        self._evidence = evidence
        self._turns = turns
        self._batch = 0

    def sample(self) -> list[FloatArray]:
        """Return the next batch."""
        batch = [np.array(self._seconds(c, self._batch)) for c in self._experiment.copies]
        self._batch += 1
        return batch

    def turns(self) -> Turns:
        """Return what the test gave."""
        return self._turns

    def check(self) -> None:
        """Nothing was moved."""

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return what the test gave."""
        return self._evidence
