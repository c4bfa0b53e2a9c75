"""What the four micro-benchmarks of a suite tell: curves, contention, findings.

Pure functions over stored results. Which micro-benchmark an experiment belongs to
is the first part of its name; everything else is read from its copies.
"""

from lanescope.model.taruc.contended import Suite, suite_of
from lanescope.model.taruc.points import Point, Series, Setting, bench_of, is_suite, plain_results

__all__ = [
    "Point",
    "Series",
    "Setting",
    "Suite",
    "bench_of",
    "is_suite",
    "plain_results",
    "suite_of",
]
