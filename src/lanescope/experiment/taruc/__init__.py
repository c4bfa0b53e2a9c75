"""The micro-benchmarks of TARUC: parameters, and the experiments that they stand for."""

from lanescope.experiment.taruc.axes import Only
from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.experiment.taruc.parameters import (
    Contention,
    Nurma,
    Parameters,
    Sizes,
    require_sound,
)
from lanescope.experiment.taruc.suite import Section, plan_suite

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
