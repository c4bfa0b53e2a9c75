"""TARUC's suite: parameters, the experiments they stand for, findings and report."""

from lanescope.studies.taruc.axes import Only
from lanescope.studies.taruc.parameters import (
    Benchmark,
    Contention,
    Nurma,
    Parameters,
    Sizes,
    require_sound,
)
from lanescope.studies.taruc.suite import Section, plan_suite

__all__ = [
    "Benchmark",
    "Contention",
    "Nurma",
    "Only",
    "Parameters",
    "Section",
    "Sizes",
    "plan_suite",
    "require_sound",
]
