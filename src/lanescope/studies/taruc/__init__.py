"""TARUC's suite: parameters, the experiments they stand for, findings and report."""

from lanescope.studies.taruc.axes import Only
from lanescope.studies.taruc.parameters import (
    Benchmark,
    Contention,
    Nurma,
    Parameters,
    Sizes,
)

__all__ = [
    "Benchmark",
    "Contention",
    "Nurma",
    "Only",
    "Parameters",
    "Sizes",
]
