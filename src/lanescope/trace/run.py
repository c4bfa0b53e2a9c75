"""A watch: which program, by which sources, what they saw, and what watching cost."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import FieldError, Moment, Positive, build
from lanescope.codec.files import fields_of, read_json
from lanescope.machine import Machine
from lanescope.results.statistics import median_interval
from lanescope.store.folder import SCHEMA_VERSION, State
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.timeline import Timeline

TURNS = "turns.json"
#: With fewer turns their whole range is no 95 % interval of the median.
FEWEST_FOR_INTERVAL = 6


@dataclass(frozen=True, slots=True)
class Turns:
    """How long a program took from its start to its end, in seconds, turn by turn.

    Attributes
    ----------
    plain, watched
        Of each turn: without and with watching.
    """

    plain: tuple[Positive, ...]
    watched: tuple[Positive, ...]

    @property
    def slowdown(self) -> tuple[float, float, float]:
        """The median of the turns' slowdowns, and the 95 % interval of it, as shares."""
        pairs = zip(self.plain, self.watched, strict=True)
        shares = [watched / plain - 1 for plain, watched in pairs]
        return (statistics.median(shares), *median_interval(np.array(shares)))


def store_turns(folder: Path, turns: Turns) -> None:
    """Write turns into a run's folder; raises InputError."""
    with writing_to(folder):
        write_atomically(folder / TURNS, json.dumps(dataclasses.asdict(turns)).encode())


def read_turns(folder: Path) -> Turns | None:
    """Return the turns of a run; None where it has none.

    Raises
    ------
    InputError
        If they cannot be read or are damaged.
    """
    path = folder / TURNS
    if not path.exists():
        return None
    with fields_of(path, "name another run"):
        turns = build(Turns, read_json(path, inner=1))
        if not turns.plain or len(turns.plain) != len(turns.watched):
            raise FieldError("it has no turns, or not as many watched as plain", "watched")
        return turns


#: The verb of such runs.
WATCH = "watch"


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
    cpu_seconds
        Processor time that it took beside the program; None when unknown.
    """

    name: str
    used: bool
    reason: str | None = None
    remedy: str | None = None
    samples: int | None = None
    lost_samples: int | None = None
    asked: int | None = None
    cpu_seconds: float | None = None


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
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class WatchRun:
    """A watch in memory; `folder` is where it is stored.

    Attributes
    ----------
    link_errors
        By how much error counters rose, by GPU; empty where nobody looked.
    turns
        How long the program took with and without watching; None where that was not asked.
    """

    manifest: WatchManifest
    timeline: Timeline
    folder: Path | None = field(default=None)
    link_errors: tuple[LinkErrors, ...] = ()
    turns: Turns | None = None
