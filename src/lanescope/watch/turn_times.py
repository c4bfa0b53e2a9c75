"""How long a program took, watched and unwatched."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import FieldError, Positive, build
from lanescope.codec.files import fields_of, read_json
from lanescope.measurement.statistics import median_interval

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
        told = build(Turns, read_json(path, inner=1))
        if not told.plain or len(told.plain) != len(told.watched):
            raise FieldError("it has no turns, or not as many watched as plain", "watched")
        return told
