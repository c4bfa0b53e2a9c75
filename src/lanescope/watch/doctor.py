"""Examines every source on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lanescope.machine import Machine
from lanescope.watch.ladder import every_source


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found of one source; a sentence each for what is wrong and what to do."""

    name: str
    works: bool
    reason: str | None
    remedy: str | None


def examine(machine: Machine, folder: Path) -> tuple[Examined, ...]:
    """Try every source for a moment.

    Parameters
    ----------
    folder
        For what they write meanwhile.
    """
    found = []
    for source in every_source(machine, folder):
        answer = source.available(machine, thorough=True)
        found.append(Examined(source.name, answer.ok, answer.reason, answer.remedy))
    return tuple(found)
