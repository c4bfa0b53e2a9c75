"""A case: a pattern of copies laid out as matrices, as nvbandwidth prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lanescope.calls import checked
from lanescope.copies.experiment import Experiment


class Unit(StrEnum):
    """What the cells of a matrix hold."""

    GBS = "GB/s"
    NANOSECONDS = "ns"


@dataclass(frozen=True, slots=True)
@checked
class Cell:
    """One number of a matrix.

    Attributes
    ----------
    row, column
        Its place.
    experiment
        Name of the experiment that gives it; None when it is not applicable.
    measured
        Numbers of the experiment's copies whose rates are added up. The others
        are there to interfere; they are reported with the experiment.
    not_applicable
        Why this machine has no such number; None when it has.
    """

    row: int
    column: int
    experiment: str | None = None
    measured: tuple[int, ...] = ()
    not_applicable: str | None = None


@dataclass(frozen=True, slots=True)
@checked
class Matrix:
    """Numbers of a case by row and column.

    Attributes
    ----------
    suffix
        What distinguishes it from other matrices of its case, such as ``read1``;
        empty for the only one.
    caption
        What rows and columns are, in nvbandwidth's words.
    rows, columns
        Its shape.
    """

    suffix: str
    caption: str
    rows: int
    columns: int
    cells: tuple[Cell, ...]
    unit: Unit = Unit.GBS


@dataclass(frozen=True, slots=True)
@checked
class Case:
    """A case with its matrices.

    Attributes
    ----------
    name
        nvbandwidth's name of it.
    description
        What is measured, in a sentence or two.
    not_applicable
        Why this machine cannot run it at all; None when it can.
    """

    name: str
    description: str
    matrices: tuple[Matrix, ...]
    not_applicable: str | None = None


@dataclass(frozen=True, slots=True)
class CaseSet:
    """Cases and the experiments that their cells refer to.

    Attributes
    ----------
    experiments
        Each set of copies once: cells of several cases may share it.
    """

    cases: tuple[Case, ...]
    experiments: tuple[Experiment, ...]
