"""How long a suite may take, by rule of thumb: no measurement, no promise."""

from __future__ import annotations

from collections.abc import Sequence

from lanescope.experiment.copy import Engine
from lanescope.experiment.experiment import Experiment
from lanescope.experiment.footprint import taken_bytes
from lanescope.experiment.taruc.suite import Section
from lanescope.machine import Machine

#: Beside its sampling, a point is made ready, checked and stored.
_POINT_SECONDS = 0.02
#: Memory is touched first at about this rate by one thread.
_TOUCH_BYTES_A_SECOND = 2e9
#: And gone through like this, a few times at least.
_USE_BYTES_A_SECOND = 10e9
_FEWEST_SAMPLES = 6
#: More of them are no faster together.
_THREADS_THAT_FILL_MEMORY = 8


def suite_seconds(machine: Machine, sections: Sequence[Section], budget_seconds: float) -> float:
    """Return the seconds that a suite may take."""
    return sum(
        point_seconds(machine, experiment, budget_seconds, section.samples)
        for section in sections
        for experiment in section.experiments
    )


def point_seconds(
    machine: Machine, experiment: Experiment, budget_seconds: float, samples: int | None
) -> float:
    """Return the seconds that one point may take; threads share the touching of memory."""
    moved = sum(copy.counted_bytes for copy in experiment.copies) / _USE_BYTES_A_SECOND
    touching = sum(taken_bytes(experiment).values()) / _TOUCH_BYTES_A_SECOND
    if experiment.copies[0].engine is Engine.CPU:
        cores = sum(len(node.cores) for node in machine.nodes)
        threads = min(len({copy.cpus for copy in experiment.copies}), cores)
        touching /= threads
        moved /= min(threads, _THREADS_THAT_FILL_MEMORY)
    enough = moved * (samples or _FEWEST_SAMPLES)
    sampling = enough if samples else max(budget_seconds, enough)
    return _POINT_SECONDS + touching + sampling


def seconds_text(seconds: float) -> str:
    """Return a time as people say it.

    >>> seconds_text(40), seconds_text(300), seconds_text(9000)
    ('about 40 s', 'about 5 min', 'about 2.5 h')
    """
    if seconds < 100:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
