"""What a watch says about itself: which program, by which sources, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.codec.fields import Moment
from lanescope.machine import Machine
from lanescope.store.folder import SCHEMA_VERSION, State

#: The verb of such runs.
WATCH = "watch"


@dataclass(frozen=True, slots=True)
class SampleLearning:
    """What ``pm`` learned of how the values of samples follow from their bits.

    Attributes
    ----------
    state
        ``in use``, ``learning``, or why it is not used.
    sample_bytes
        Of a sample as CUPTI has written it; 0 where that is not known.
    rows
        Samples that are no sums of others: so many were learned.
    columns
        Bits of samples that have changed.
    begun_anew
        Times that all was forgotten, as samples after a new beginning contradicted it.
    seconds
        What it took, with CUPTI's evaluation of these samples and of proofs.
    """

    state: str
    sample_bytes: int
    rows: int
    columns: int
    begun_anew: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What became of one source.

    Attributes
    ----------
    used
        Whether it watched.
    reason, remedy
        Why it did not, or what went wrong on the way, and what to do; None when all is well.
    samples, lost_samples
        Of counters; None for other sources.
    asked
        Samples of ``pm`` whose values CUPTI was asked for; None of older runs.
    learned
        By ``pm``; None of other sources and of older runs.
    cpu_seconds
        Processor time that it took beside the program; None when unknown.
    rate_note
        A sentence where the requested rate could not be held; None where it could.
    """

    name: str
    used: bool
    reason: str | None = None
    remedy: str | None = None
    samples: int | None = None
    lost_samples: int | None = None
    asked: int | None = None
    cpu_seconds: float | None = None
    rate_note: str | None = None
    learned: SampleLearning | None = None

    @property
    def sentence(self) -> str:
        """Whether it watched; if not, or not as wanted, why, and what to do."""
        state = "watched" if self.used else "did not watch"
        why = " ".join(filter(None, (self.reason, self.remedy)))
        return f"{self.name}: {state}" + (f". {why}" if why else "")


@dataclass(frozen=True, slots=True)
class WatchManifest:
    """What a watch's folder says about itself.

    Attributes
    ----------
    command
        Command line of lanescope.
    program
        The watched program with its arguments; empty when the whole machine was watched.
    started
        ISO 8601 with the offset from UTC.
    start_ns, end_ns
        When watching began and ended, nanoseconds since 1970; the end is None while it goes
        on, and for ever when it was killed.
    exit_code
        The program's, as a shell tells it; None while it runs or when there is none.
    impossible
        How many records were left out of what is stored, as their times cannot be.
    damage
        Sentences on what was damaged and is left out of it.
    """

    command: str
    program: tuple[str, ...]
    started: Moment
    tool_version: str
    machine: Machine
    start_ns: int
    end_ns: int | None = None
    exit_code: int | None = None
    state: State = State.RUNNING
    sources: tuple[SourceRecord, ...] = ()
    notes: tuple[str, ...] = ()
    impossible: int = 0
    damage: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION
