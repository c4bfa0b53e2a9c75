"""Examines every source on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lanescope.machine import Machine
from lanescope.watch.ladder import every_source
from lanescope.watch.nvlink import nvlinked
from lanescope.watch.sources.counters import counts_nvlink


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found of one source; a sentence each for what is wrong and what to do."""

    name: str
    works: bool
    reason: str | None
    remedy: str | None


def nvlink_text(machine: Machine) -> str:
    """Return on which NVLinks the driver counts bytes, as half a sentence."""
    linked = nvlinked(machine)
    if not linked:
        return "none"
    gpus = [gpu for gpu in machine.gpus if gpu.index in linked]
    counted = [gpu.id for gpu in gpus if counts_nvlink(gpu)]
    others = [gpu.id for gpu in gpus if gpu.id not in counted]
    told = [f"bytes of {', '.join(counted)} are counted by source counters"] if counted else []
    told += [f"the driver does not count bytes of {', '.join(others)}"] if others else []
    return "; ".join(told)


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
