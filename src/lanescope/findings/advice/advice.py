"""What is advised of a watch: phases, what the model says of them now, and changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from lanescope.document.contents import Finding
from lanescope.findings.advice.phase import Phase
from lanescope.prediction.predictor import Method
from lanescope.units.estimate import Estimate


class Step(StrEnum):
    """What is done to the program; a change takes one or several."""

    PIN = "pin"
    ASYNC = "async"
    BATCH = "batch"
    STREAMS = "streams"
    PREFETCH = "prefetch"
    DEFER = "defer"
    KEEP = "keep"
    MAPPED = "mapped"
    HYBRID = "hybrid"
    PLACE = "place"


#: Of these a program can take one: they are different ways to move the same data.
EXCLUSIVE = (Step.STREAMS, Step.PREFETCH, Step.MAPPED, Step.HYBRID)
#: For these the kernels themselves are changed.
KERNELS = frozenset((Step.MAPPED, Step.HYBRID))
#: These cut a round into parts, each of which goes through all of its kernels.
IN_PARTS = frozenset((Step.STREAMS, Step.HYBRID))
#: A round that launches so many kernels asks more of the program to be cut.
MANY_KERNELS = 8
#: What a step asks of the program: where memory comes from (0), the calls that copy (1), the loop
#: around them or the whole of its work in parts (2).
ASKS = {
    **{Step.PIN: 0, Step.PLACE: 0, Step.KEEP: 0},
    **{Step.ASYNC: 1, Step.BATCH: 1, Step.DEFER: 1, Step.PREFETCH: 1},
    **{Step.STREAMS: 2, Step.HYBRID: 2, Step.MAPPED: 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Finding):
    """A finding about a phase: one way to change it, all of whose times are predicted.

    The remedy is the change in words, the evidence how it was predicted, and `gain_seconds` that
    of all rounds of the run.

    Attributes
    ----------
    steps
        What is done, together.
    method, streams
        What the round is afterwards; None where that stays as it is.
    seconds
        Predicted time of a round, with its interval; by the phase's own error at least. As that
        before, `PhaseAdvice.base_seconds`, it is from round to round where rounds were replayed.
    round_gain_seconds
        Of a round: measured before less predicted after; its interval is of both.
    why
        Why it is not worth it; None where it is.
    pin_seconds
        To get the pinned memory of a round's buffers, once; predicted. None: nothing is pinned,
        or the link parameters do not know it.
    kernels
        Different ones in a round.
    waits_once
        Whether copies back that were waited for one by one are waited for together, without
        `Step.ASYNC`: their calls are asynchronous already.
    """

    steps: tuple[Step, ...]
    method: Method | None
    streams: int
    seconds: Estimate
    round_gain_seconds: Estimate
    why: str | None
    pin_seconds: Estimate | None = None
    kernels: int = 0
    waits_once: bool = False

    @property
    def break_even_rounds(self) -> int | None:
        """After so many rounds the pinning is gained back; None where it is not known or never."""
        gain = self.round_gain_seconds.value
        if self.pin_seconds is None or gain <= 0:
            return None
        return max(ceil(self.pin_seconds.value / gain), 1)

    @property
    def asks(self) -> int:
        """What it asks of the program: as much as the step that asks most.

        Where many launches have to be right for a part of the data, one more: steps of a loop may
        need all of what the one before them made. One more, too, where results that become pinned
        are looked at a round later, as the loop is another one then.
        """
        many = self.kernels >= MANY_KERNELS and bool(IN_PARTS & set(self.steps))
        later = {Step.PIN, Step.DEFER} <= set(self.steps)
        return max(ASKS[step] for step in self.steps) + many + later

    @property
    def worth(self) -> bool:
        """Whether it is advised."""
        return self.why is None

    def excludes(self, other: Change) -> bool:
        """Whether the program can take this one or the other, and not both."""
        mine, theirs = (next((s for s in c.steps if s in EXCLUSIVE), None) for c in (self, other))
        return mine is not None and theirs is not None and self is not other


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change before its gain is known."""

    steps: tuple[Step, ...]
    remedy: str
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PhaseAdvice:
    """What is advised of one phase.

    Attributes
    ----------
    base_seconds
        What a round takes now, which changes shorten: from round to round where rounds that follow
        each other were replayed, else of a round alone. Measured.
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
        Those that are advised, then those that are not worth it, by their gain and by what they
        ask of the program.
    notes
        Sentences on what the numbers do not say.
    """

    phase: Phase
    base_seconds: float
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
        That whose first advice gains most of the run first.
    notes
        Sentences on the whole.
    """

    commands: dict[int, str]
    seconds: float
    parameters: str
    predictor: str
    phases: tuple[PhaseAdvice, ...]
    notes: tuple[str, ...]
