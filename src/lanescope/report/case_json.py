"""The matrices of a run as JSON: every cell with its number and verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lanescope.experiment.case import Case, Matrix
from lanescope.measurement.result import Result
from lanescope.model.case_values import CellValue, cell_values
from lanescope.run.run import Run

Json = dict[str, Any]


def cases_json(run: Run) -> list[Json]:
    """Return a run's cases with the values of their cells; empty for a run without cases.

    Numbers are in the unit that their matrix names; what is missing is None.
    """
    results = {r.experiment.name: r for r in run.results}
    return [_case(case, results) for case in run.manifest.cases]


def _case(case: Case, results: Mapping[str, Result]) -> Json:
    return {
        "name": case.name,
        "description": case.description,
        "not_applicable": case.not_applicable,
        "matrices": [_matrix(matrix, results) for matrix in case.matrices],
    }


def _matrix(matrix: Matrix, results: Mapping[str, Result]) -> Json:
    return {
        "suffix": matrix.suffix,
        "caption": matrix.caption,
        "unit": str(matrix.unit),
        "rows": matrix.rows,
        "columns": matrix.columns,
        "cells": [_cell(value) for value in cell_values(matrix, results)],
    }


def _cell(value: CellValue) -> Json:
    return {
        "row": value.cell.row,
        "column": value.cell.column,
        "experiment": value.cell.experiment,
        "median": value.median,
        "mean": value.mean,
        "p5": value.low,
        "p95": value.high,
        "half_width": value.half_width,
        "variation": value.variation,
        "limit_gbs": value.limit_gbs,
        "share_of_limit": value.share_of_limit,
        "status": str(value.verdict.status),
        "reason": value.verdict.reason,
        "remedy": value.verdict.remedy,
    }
