"""Copies as data and as text: places, experiments, patterns, and their limits."""

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.operation import Access, Caches, Pattern, Route, Submission
from lanescope.copies.place import Memory, Place

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
