"""What a probe tells of a program's steps: bandwidth and delay in each, and which it noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lanescope.studies.pcie_thesis.steps import Step
from lanescope.trace.probe import PROBE_DIRECTIONS, Probe
from lanescope.trace.probed import Episode, Sign, episodes

#: An episode belongs to a step from so much before it to so much after.
_MARGIN_NS = 2_000_000
#: A step shorter than a few records says nothing of its own.
_FEWEST = 5


@dataclass(frozen=True, slots=True)
class Probed:
    """One direction of the probe in one step, or on an idle link.

    Attributes
    ----------
    gbs, delay_seconds
        Medians of its records; None with fewer than five.
    """

    direction: str
    records: int
    gbs: float | None
    delay_seconds: float | None


@dataclass(frozen=True, slots=True)
class Noticed:
    """Which steps that copy a probe has noticed in their own direction, by longer copies.

    Attributes
    ----------
    seen, steps
        Of so many steps so many.
    alarms
        Times it told of use where no step copied.
    longest_seconds
        The longest time between the begins of two of its records, in which it saw nothing.
    """

    direction: str
    seen: int
    steps: int
    alarms: int
    longest_seconds: float | None


def probed(probe: Probe, step: Step | None = None) -> tuple[Probed, ...]:
    """Return for each direction what the records tell that began in a step; None is all."""
    if step is not None:
        inside = (probe.begin_ns >= step.begin_ns) & (probe.begin_ns < step.end_ns)
        probe = probe.rows(inside)
    return tuple(
        _probed(probe.one_direction(i), direction) for i, direction in enumerate(PROBE_DIRECTIONS)
    )


def _probed(own: Probe, direction: str) -> Probed:
    enough = len(own) >= _FEWEST
    known = own.gbs[np.isfinite(own.gbs)]
    return Probed(
        direction,
        len(own),
        float(np.median(known)) if enough and known.size else None,
        float(np.median(own.delay_ns)) * 1e-9 if enough else None,
    )


def noticed(probe: Probe, steps: Sequence[Step]) -> tuple[Noticed, ...]:
    """Return which steps that copy were noticed, for each direction."""
    return tuple(_noticed(probe, steps, i) for i in range(len(PROBE_DIRECTIONS)))


def _noticed(probe: Probe, steps: Sequence[Step], direction: int) -> Noticed:
    own = probe.one_direction(direction)
    link_episodes = [one for one in episodes(probe, direction) if one.sign is Sign.LINK]
    mine = [step for step in steps if step.moved[direction]]
    # copies the other way share the requests, the root port and the host's memory
    any_copy = [step for step in steps if sum(step.moved)]
    first = min((step.begin_ns for step in steps), default=0)
    last = max((step.end_ns for step in steps), default=0)
    alarms = sum(
        first <= one.start_ns < last and not any(_meet(one, step) for step in any_copy)
        for one in link_episodes
    )
    waits = np.diff(own.begin_ns)
    return Noticed(
        PROBE_DIRECTIONS[direction],
        sum(any(_meet(one, step) for one in link_episodes) for step in mine),
        len(mine),
        alarms,
        float(waits.max()) * 1e-9 if waits.size else None,
    )


def _meet(one: Episode, step: Step) -> bool:
    return one.start_ns < step.end_ns + _MARGIN_NS and one.end_ns > step.begin_ns - _MARGIN_NS
