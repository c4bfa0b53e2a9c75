"""Copies as data and as text: places, experiments, patterns, and their limits."""

from lanescope.copies.copy import Copy, Engine, Operation
from lanescope.copies.experiment import Experiment, Purpose, Timing
from lanescope.copies.terms import Access, Caches, Memory, Pattern, Place, Route, Submission

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
