"""Measured and predicted cases as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from lanescope.model.overlap.errors import PUBLISHED_ERRORS
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.validation.compare import Compared, ComparedCase, Row
from lanescope.model.validation.measured import MeasuredCase, Validation
from lanescope.report.validate_tables import held_out, notes

_SCHEMA = 1


def validate_json(validation: Validation, compared: Sequence[Compared]) -> str:
    """Return all rows of all predictors; times are seconds, errors and losses shares."""
    told = {
        "schema": _SCHEMA,
        "measured": {
            "gpu": validation.gpu,
            "grid": list(validation.grid),
            "started": validation.started,
            "finished": validation.finished,
            "cases": [_measured(case) for case in validation.cases],
        },
        "wrong_outputs": len(validation.wrong),
        "predicted": [_compared(each) for each in compared],
        "held_out": held_out(compared[0]),
        "notes": list(notes(validation, compared[0])),
    }
    return json.dumps(told, indent=1, ensure_ascii=False)


def _measured(case: MeasuredCase) -> dict[str, Any]:
    return {
        "name": case.name,
        "kernel_by_columns": _estimate(case.kernel_of(Method.EXPLICIT)),
        "kernel_by_points": _estimate(case.kernel_of(Method.STREAMS)),
        "mapped_reads": case.mapped_reads,
        "counted_reads": case.counted_reads,
        "checks": [dataclasses.asdict(check) | {"right": check.right} for check in case.checks],
    }


def _compared(compared: Compared) -> dict[str, Any]:
    known = compared.parameters
    return {
        "predictor": compared.predictor,
        "machine": known.name,
        "origin": str(known.origin),
        "source": known.source,
        "cases": [_case(case) for case in compared.cases],
        "largest_errors": {
            str(method): _largest(compared, method)
            for method in Method
            if compared.largest(method) is not None
        },
    }


def _case(case: ComparedCase) -> dict[str, Any]:
    return {
        "name": case.measured.name,
        "chosen": _which(case.chosen),
        "fastest": _which(case.fastest),
        "choice": str(case.choice),
        "loss": case.loss,
        "streams": [
            {
                "method": str(method),
                "picked": case.picked(method).streams,
                "best": case.best(method).streams,
                "loss": case.streams_loss(method),
            }
            for method in case.methods
            if method in STREAMED
        ],
        "rows": [_row(row) for row in case.rows],
        "skipped": [{"method": str(one.method), "reason": one.reason} for one in case.skipped],
    }


def _largest(compared: Compared, method: Method) -> dict[str, Any]:
    found, picked = compared.largest(method), compared.largest(method, picked=True)
    assert found is not None
    assert picked is not None
    paper = None if method is Method.PAGEABLE else PUBLISHED_ERRORS[method]
    return {
        "error": found[1].error,
        "case": found[0].measured.name,
        "streams": found[1].streams,
        "error_with_picked_streams": picked[1].error,
        "paper": paper,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        **_which(row),
        "measured": _estimate(row.measured),
        "runs": len(row.timed.seconds),
        "predicted": _estimate(row.predicted),
        "busiest": row.prediction.busiest,
        "error": row.error,
        "inside": row.inside,
    }


def _which(row: Row) -> dict[str, Any]:
    return {"method": str(row.method), "streams": row.streams}


def _estimate(one: Estimate) -> dict[str, float]:
    return {"seconds": one.value, "low_seconds": one.low, "high_seconds": one.high}
