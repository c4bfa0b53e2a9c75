"""What is advised of a watch: phases, what the model says of them now, and changes."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.model.advice.change import Change
from lanescope.model.advice.phase import Phase
from lanescope.model.transfer.estimate import Estimate


@dataclass(frozen=True, slots=True)
class PhaseAdvice:
    """What is advised of one phase.

    Attributes
    ----------
    predicted_seconds
        What the model says a round takes as it is now, but for the host's pauses; None where
        it cannot tell.
    error
        Of that: predicted over measured, less 1; None where it cannot tell.
    described
        Whether the model describes this phase: only then its changes are predicted by it.
    reason
        Why it does not; None where it does.
    changes
        Those that are advised, then those that are not worth it, the largest gain first.
    notes
        Sentences on what the numbers do not say.
    """

    phase: Phase
    predicted_seconds: Estimate | None
    error: float | None
    described: bool
    reason: str | None
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()

    @property
    def advised(self) -> tuple[Change, ...]:
        """The changes that are worth it."""
        return tuple(change for change in self.changes if change.worth)

    @property
    def not_worth(self) -> tuple[Change, ...]:
        """The changes that are not."""
        return tuple(change for change in self.changes if not change.worth)


@dataclass(frozen=True, slots=True)
class Advice:
    """What is advised of a watch.

    Attributes
    ----------
    commands
        By process, its command line.
    seconds
        That were watched.
    parameters, predictor
        By whose parameters and by which predictor.
    phases
        By process and GPU, of each the phase with the most time first.
    notes
        Sentences on the whole.
    """

    commands: dict[int, str]
    seconds: float
    parameters: str
    predictor: str
    phases: tuple[PhaseAdvice, ...]
    notes: tuple[str, ...]
