"""Experiments: copies as data, the catalogue of cases, and their limits."""

from lanescope.experiment.copy import Copy, Engine, Operation, Submission
from lanescope.experiment.experiment import Experiment, Timing
from lanescope.experiment.place import Memory, Place

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
