"""Experiments: copies as data, the catalogue of cases, and their limits."""

from lanescope.experiment.access import Access, Caches, Pattern
from lanescope.experiment.copy import Copy, Engine, Operation
from lanescope.experiment.experiment import Experiment, Purpose, Timing
from lanescope.experiment.place import Memory, Place
from lanescope.experiment.route import Route
from lanescope.experiment.submission import Submission

__all__ = [
    "Access",
    "Caches",
    "Copy",
    "Engine",
    "Experiment",
    "Memory",
    "Operation",
    "Pattern",
    "Place",
    "Purpose",
    "Route",
    "Submission",
    "Timing",
]
