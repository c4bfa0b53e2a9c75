"""Copies as data and as text: places, experiments, patterns, and their limits."""

from lanescope.copies.copy import Copy as Copy
from lanescope.copies.copy import Engine as Engine
from lanescope.copies.experiment import Experiment as Experiment
from lanescope.copies.experiment import Purpose as Purpose
from lanescope.copies.experiment import Timing as Timing
from lanescope.copies.terms import Access as Access
from lanescope.copies.terms import Caches as Caches
from lanescope.copies.terms import Memory as Memory
from lanescope.copies.terms import Operation as Operation
from lanescope.copies.terms import Pattern as Pattern
from lanescope.copies.terms import Place as Place
from lanescope.copies.terms import Route as Route
from lanescope.copies.terms import Submission as Submission
