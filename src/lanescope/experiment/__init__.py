"""Experiments: copies as data, the catalogue of cases, and their limits."""

from lanescope.experiment.copy import Copy, Engine, Operation
from lanescope.experiment.experiment import Experiment, Timing
from lanescope.experiment.place import Memory, Place
from lanescope.experiment.submission import Submission

__all__ = [
    "Copy",
    "Engine",
    "Experiment",
    "Memory",
    "Operation",
    "Place",
    "Submission",
    "Timing",
]
