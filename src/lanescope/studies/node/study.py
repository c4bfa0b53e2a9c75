"""What is measured of a node, by how much time there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from lanescope.calls import checked
from lanescope.copies import Copy, Experiment
from lanescope.copies.experiment import experiment_of
from lanescope.engine.sampling import Plan
from lanescope.kinds import StrPath
from lanescope.machine import Machine
from lanescope.studies.check import CHECK_BYTES, EXPECT, EXPECT_GPUS, check_experiments
from lanescope.studies.nvbandwidth_cases import CaseOptions, build_cases, choose
from lanescope.studies.options import Option
from lanescope.studies.running import machine_differences
from lanescope.studies.study import Study, Work
from lanescope.units.values import OneOf

#: From so many seconds on there is time for a level.
FULL_SECONDS, LONG_SECONDS = 45, 300


class Level(StrEnum):
    """How much is measured."""

    QUICK = "quick"
    """Each GPU with the host in both directions, and with the next GPU: some seconds."""
    FULL = "full"
    """Every path that ``check`` measures, and all GPUs with the host at once: about a minute."""
    LONG = "long"
    """So, and all cases of nvbandwidth, each for its share of the time: ten minutes or more."""


def level_within(seconds: float) -> Level:
    """Return the level that fits into a time."""
    if seconds < FULL_SECONDS:
        return Level.QUICK
    return Level.FULL if seconds < LONG_SECONDS else Level.LONG


@dataclass(frozen=True, slots=True, kw_only=True)
@checked
class NodeCheck(Study):
    """Say in one line whether this node may run jobs, and which part is broken if not.

    Attributes
    ----------
    level
        How much: ``quick``, ``full`` or ``long``.
    expected, expected_gpus
        As of ``check``.
    """

    verb: ClassVar[str] = "node"
    title: ClassVar[str] = "Node"
    sampling: ClassVar[Plan] = Plan(budget_seconds=0.5)

    level: Annotated[
        str, Option(OneOf("--level", lambda: Level), "NAME", "How much is measured.", "full")
    ] = "full"
    expected: Annotated[Machine | StrPath | None, EXPECT] = None
    expected_gpus: Annotated[int | None, EXPECT_GPUS] = None

    def work(self, machine: Machine) -> Work:
        """Return the experiments of the level, GPUs before the host's memory."""
        return Work(
            level_experiments(machine, Level(self.level)),
            missing=machine_differences(machine, self.expected, self.expected_gpus),
            unmeasured=() if machine.gpus else machine.notes[:1],
        )


def level_experiments(machine: Machine, level: Level) -> tuple[Experiment, ...]:
    """Return what a level measures; what matters most comes first, as time may run out."""
    every = check_experiments(machine, CHECK_BYTES)
    of_gpus = [e for e in every if e.copies[0].executing_gpu]
    alone = {e.copies[0]: e for e in of_gpus if len(e.copies) == 1}
    to_gpus, from_gpus = (_with_host(alone, machine, down=down) for down in (True, False))
    if level is Level.QUICK:
        quick = [*to_gpus, *from_gpus, *_in_a_ring(alone, machine)]
        return tuple(alone[copy] for copy in quick) or every[-1:]  # by all cores of a node
    more = []
    if len(machine.gpus) > 1:
        more = [experiment_of(c) for c in (to_gpus, from_gpus, [*to_gpus, *from_gpus])]
    if level is Level.LONG and machine.gpus:
        more += build_cases(machine, choose(), CaseOptions(bytes=CHECK_BYTES)).experiments
    known = {e.copies for e in of_gpus}
    extra = {e.name: e for e in more if e.copies not in known}
    of_host = [e for e in every if e not in of_gpus]
    return (*of_gpus, *extra.values(), *of_host)


def _with_host(alone: Iterable[Copy], machine: Machine, *, down: bool) -> list[Copy]:
    """Return the copies between each GPU and the memory next to it, to the GPUs or from them."""
    near = {gpu.id: machine.nearest_node(gpu).id for gpu in machine.gpus}
    found = []
    for copy in alone:
        ends = copy.source.part, copy.destination.part
        host, gpu = ends if down else reversed(ends)
        if near.get(gpu) == host:
            found.append(copy)
    return found


def _in_a_ring(alone: Iterable[Copy], machine: Machine) -> list[Copy]:
    """Return the copies from each GPU to the next one: each GPU sends once, and receives once."""
    gpus = [gpu.id for gpu in machine.gpus]
    following = set(zip(gpus, [*gpus[1:], *gpus[:1]], strict=True))
    return [copy for copy in alone if (copy.source.part, copy.destination.part) in following]
