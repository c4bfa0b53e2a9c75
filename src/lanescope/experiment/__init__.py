"""Experiments: copies as data, the catalogue of cases, and their limits."""

from lanescope.experiment.copy import (
    Copy,
    Engine,
    Experiment,
    Memory,
    Operation,
    Place,
    Timing,
)

__all__ = ["Copy", "Engine", "Experiment", "Memory", "Operation", "Place", "Timing"]
