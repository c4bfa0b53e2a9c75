"""What a reproduction tells, in numbers: the values that page, terminal and JSON share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lanescope.watch.chapters.counted import Payload
from lanescope.watch.chapters.plan import Program, Way
from lanescope.watch.chapters.quantity import Quantity
from lanescope.watch.chapters.steps import Step
from lanescope.watch.chapters.store import Reproduction
from lanescope.watch.limits import LinkLimit
from lanescope.watch.operations import Operations
from lanescope.watch.probe import Probe

#: To the GPU, and from it.
Pair = tuple[Quantity | None, Quantity | None]
NOTHING: Pair = (None, None)


def pair_of(values: Iterable[Quantity | None]) -> Pair:
    """Return two values, to the GPU and from it, as a pair."""
    down, up = values
    return down, up


@dataclass(frozen=True, slots=True)
class SourceTold:
    """What one source told of one program; pairs are to the GPU and from it.

    Attributes
    ----------
    reason
        Why it did not watch, or what went wrong; None when all is well.
    bytes, deviation
        In the steps that copy, and how far that is from what the program says, as a share.
    elsewhere_bytes
        That counters saw in the rest of the watch.
    highest_gbs
        Of counters the fastest record in those steps; of a trace the fastest copy.
    interval_seconds
        From record to record; None for a trace, which has each copy by itself.
    shaped, copying
        So many of the steps that copy are long enough for it to see their shape.
    samples, lost
        Of all repetitions together; None for a trace's samples.
    copies
        That a trace has.
    """

    source: str
    used: bool
    reason: str | None = None
    bytes: Pair = NOTHING
    deviation: Pair = NOTHING
    elsewhere_bytes: Pair = NOTHING
    highest_gbs: Pair = NOTHING
    interval_seconds: Quantity | None = None
    shaped: int | None = None
    copying: int = 0
    samples: int | None = None
    lost: int | None = None
    cpu_seconds: Quantity | None = None
    copies: Quantity | None = None


@dataclass(frozen=True, slots=True)
class StepTold:
    """A step: how long it took in each way of running, and what the probe found in it."""

    name: str
    h2d_bytes: int
    d2h_bytes: int
    copies: int
    seconds: Mapping[Way, Quantity]
    probe_gbs: Pair = NOTHING
    probe_delay_seconds: Pair = NOTHING


@dataclass(frozen=True, slots=True)
class NoticedTold:
    """Steps that copy one way, and how many of them the probe noticed, over all repetitions."""

    direction: str
    seen: int
    steps: int
    alarms: int
    longest_seconds: Quantity | None


@dataclass(frozen=True, slots=True)
class Sentences:
    """In words, what each source could and could not see, what the probe did, and the program."""

    sources: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    program: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The repetition that the page draws: what counters, trace and probe saw, and the steps."""

    payloads: tuple[Payload, ...] = ()
    operations: Operations | None = None
    steps: tuple[Step, ...] = ()
    probe: Probe | None = None
    probe_steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramTold:
    """One program.

    Attributes
    ----------
    truth_bytes, truth_copies
        What it says to have moved, each way, and by how many copies.
    fastest_step_gbs
        Each way, the rate of its fastest step, unwatched where that was run.
    work_seconds
        From its first step to its last, by way of running.
    slowdown
        Against the unwatched run of the same repetition; a share, 0 is none.
    """

    program: Program
    truth_bytes: tuple[int, int]
    truth_copies: int
    fastest_step_gbs: Pair
    work_seconds: Mapping[Way, Quantity]
    slowdown: Mapping[Way, Quantity]
    sources: tuple[SourceTold, ...]
    steps: tuple[StepTold, ...]
    noticed: tuple[NoticedTold, ...]
    sentences: Sentences = field(default_factory=Sentences)
    shown: Shown = field(default_factory=Shown, compare=False)


@dataclass(frozen=True, slots=True)
class Told:
    """A whole reproduction.

    Attributes
    ----------
    limits
        What the link carries at most, each way.
    idle_gbs, idle_delay_seconds
        What the probe found of the idle link.
    """

    reproduction: Reproduction
    planned: int
    limits: tuple[LinkLimit, LinkLimit]
    idle_gbs: Pair
    idle_delay_seconds: Pair
    programs: tuple[ProgramTold, ...]
