"""How much memory an experiment takes, and where."""

from __future__ import annotations

from collections import Counter

from lanescope.experiment.copy import Copy, Engine
from lanescope.experiment.experiment import Experiment
from lanescope.experiment.operation import ARRAYS, Operation

_WORD_BYTES = 8
#: A host thread keeps the order of a chase, a number for each place.
_ORDER_BYTES = 4


def taken_bytes(experiment: Experiment) -> Counter[str]:
    """Return what an experiment takes of the memory of each part of the machine."""
    taken: Counter[str] = Counter()
    stages = [c for c in experiment.copies if c.operation.is_of_memory]
    for copy in stages[:1] or experiment.copies:  # the stages of one piece of memory
        for part, arrays in _arrays(copy).items():
            taken[part] += arrays * copy.span_bytes
        if copy.engine is Engine.CPU and copy.operation.is_chase:
            taken[copy.source.part] += copy.bytes // _WORD_BYTES * _ORDER_BYTES
    return taken


def _arrays(copy: Copy) -> Counter[str]:
    """How many arrays a copy has in each part."""
    source, destination = copy.source.part, copy.destination.part
    if copy.engine is not Engine.CPU:
        return Counter([source, destination])
    if copy.operation not in ARRAYS or copy.operation is Operation.GATHER:
        return Counter([source])
    return Counter({source: ARRAYS[copy.operation] - 1}) + Counter([destination])
