"""A watch: what its sources saw, what watching cost, and what became of boosted copies."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import FieldError, Positive, build
from lanescope.codec.files import fields_of, read_json
from lanescope.results.result import median_interval
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.timeline import Timeline
from lanescope.trace.watch_folder import WATCH as WATCH
from lanescope.trace.watch_folder import SourceRecord as SourceRecord
from lanescope.trace.watch_folder import WatchManifest as WatchManifest

T = TypeVar("T")
TURNS = "turns.json"
#: With fewer turns their whole range is no 95 % interval of the median.
FEWEST_FOR_INTERVAL = 6
BOOST = "boost.json"


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
    _store(folder / TURNS, turns)


def read_turns(folder: Path) -> Turns | None:
    """Return the turns of a run; None where it has none.

    Raises
    ------
    InputError
        If they cannot be read or are damaged.
    """
    with fields_of(folder / TURNS, "name another run"):
        turns = _built(folder / TURNS, Turns)
        if turns and not 0 < len(turns.plain) == len(turns.watched):
            raise FieldError("it has no turns, or not as many watched as plain", "watched")
        return turns


@dataclass(frozen=True, slots=True)
class BoostOutcome:
    """What became of copies that were to be carried.

    Attributes
    ----------
    lines
        In sentences.
    numbers
        As `lanescope boost --json` writes them; None where the program could not be boosted.
    """

    lines: tuple[str, ...]
    numbers: dict[str, Any] | None = None


def store_boost(folder: Path, boost: BoostOutcome) -> None:
    """Write it into a run's folder; raises InputError."""
    _store(folder / BOOST, boost)


def read_boost(folder: Path) -> BoostOutcome | None:
    """Return what is stored; None where the program was not to be boosted.

    Raises
    ------
    InputError
        If it cannot be read or is damaged.
    """
    with fields_of(folder / BOOST, "name another run"):
        return _built(folder / BOOST, BoostOutcome)


def _store(path: Path, value: Turns | BoostOutcome) -> None:
    with writing_to(path.parent):
        write_atomically(path, json.dumps(dataclasses.asdict(value)).encode())


def _built(path: Path, kind: type[T]) -> T | None:
    return build(kind, read_json(path, inner=1)) if path.exists() else None


@dataclass(frozen=True, slots=True)
class WatchRun:
    """A watch in memory; `folder` is where it is stored.

    Attributes
    ----------
    link_errors
        By how much error counters rose, by GPU; empty where nobody looked.
    turns
        How long the program took with and without watching; None where that was not asked.
    boost
        What became of its copies that were to be carried; None where it was not boosted.
    """

    manifest: WatchManifest
    timeline: Timeline
    folder: Path | None = field(default=None)
    link_errors: tuple[LinkErrors, ...] = ()
    turns: Turns | None = None
    boost: BoostOutcome | None = None
