"""What host threads can do of an experiment, and who does it."""

from __future__ import annotations

import os

from lanescope.errors import NotMeasuredError
from lanescope.experiment import Experiment, Operation
from lanescope.experiment.access import PLAIN

#: Threads that share an array move numbers of this size.
WORD_BYTES = 8


def is_by_blocks(experiment: Experiment) -> bool:
    """Whether it is one thread's copy that says which addresses it touches."""
    first = experiment.copies[0]
    one = len(experiment.copies) == len(first.cpus) == 1
    return one and first.operation is Operation.COPY and first.access is not None


def require_no_walk(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` if more than one thread's copy says which addresses it touches."""
    for copy in experiment.copies:
        if copy.access not in (None, PLAIN):
            raise NotMeasuredError(
                f"Only one copy by one host thread walks over memory; this {copy.operation} has "
                f"{len(copy.cpus)} thread(s), and there are {len(experiment.copies)} such at once.",
                "Name one CPU, or leave the pattern, the span and the caches out.",
            )


def require_cpus(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` if a thread cannot be bound to the CPU that a copy names."""
    allowed = os.sched_getaffinity(0)
    for cpu in (cpu for copy in experiment.copies for cpu in copy.cpus):
        if cpu not in allowed:
            raise NotMeasuredError(
                f"CPU {cpu} is none that this process may use.",
                "Name another one, or let more be used: 'taskset -p', or the job's limits.",
            )


def require_words(experiment: Experiment) -> None:
    """Raise `NotMeasuredError` if the threads of a copy cannot share its numbers."""
    for copy in experiment.copies:
        if copy.bytes % WORD_BYTES or copy.bytes < WORD_BYTES * len(copy.cpus):
            raise NotMeasuredError(
                f"{len(copy.cpus)} host thread(s) cannot share {copy.bytes} bytes.",
                f"Give a multiple of {WORD_BYTES}, {WORD_BYTES} or more for each thread.",
            )
