"""A whole suite, as charts and findings look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lanescope.experiment.taruc.benchmark import Benchmark
from lanescope.machine import Machine
from lanescope.measurement.result import Result, Source
from lanescope.model.taruc.contended import Scaling, scalings_of
from lanescope.model.taruc.points import Series, series_of


@dataclass(frozen=True, slots=True)
class Suite:
    """What a run holds of the micro-benchmarks; empty tuples where it has none.

    Attributes
    ----------
    predicted
        Whether its numbers are predictions; those lead to no findings.
    """

    machine: Machine
    predicted: bool
    series: tuple[Series, ...]
    scalings: tuple[Scaling, ...]

    def of(self, bench: Benchmark) -> tuple[Series, ...]:
        """Return the series of one micro-benchmark."""
        return tuple(s for s in self.series if s.setting.bench is bench)


def suite_of(machine: Machine, results: Sequence[Result]) -> Suite:
    """Return the micro-benchmarks of a run, which is measured or predicted as a whole."""
    predicted = any(r.source is Source.PREDICTED for r in results)
    return Suite(machine, predicted, series_of(machine, results), scalings_of(machine, results))
