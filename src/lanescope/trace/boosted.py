"""What became of a watched program's copies that were to be carried, in the watch's folder."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import build
from lanescope.codec.files import fields_of, read_json

BOOST = "boost.json"


@dataclass(frozen=True, slots=True)
class BoostOutcome:
    """What a boost did.

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
    with writing_to(folder):
        write_atomically(folder / BOOST, json.dumps(dataclasses.asdict(boost)).encode())


def read_boost(folder: Path) -> BoostOutcome | None:
    """Return what is stored; None where the program was not to be boosted.

    Raises
    ------
    InputError
        If it cannot be read or is damaged.
    """
    path = folder / BOOST
    if not path.exists():
        return None
    with fields_of(path, "name another run"):
        return build(BoostOutcome, read_json(path, inner=1))
