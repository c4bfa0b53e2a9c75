"""Predictions as JSON: all that the terminal shows, and the curves."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from lanescope.model.overlap.predictor import Prediction
from lanescope.model.overlap.question import Answer
from lanescope.model.overlap.rank import Ranking
from lanescope.model.overlap.roofline import Bounds
from lanescope.model.overlap.words import why

_SCHEMA = 1

if TYPE_CHECKING:
    from lanescope.model.overlap.several import Several


def predict_json(answer: Answer) -> str:
    """Return an answer as JSON; times are seconds, sizes bytes."""
    told = {
        "schema": _SCHEMA,
        "predicted": True,
        "predictor": answer.predictor,
        "workload": dataclasses.asdict(answer.ranking.workload),
        **_ranking(answer.ranking),
        "bounds": _bounds(answer.bounds),
        "bounds_as_printed": None if answer.printed is None else _bounds(answer.printed),
        "curves": {
            str(method): [_prediction(one) for one in curve]
            for method, curve in answer.ranking.curves.items()
        },
        "on": [_ranking(ranking) for ranking in answer.on],
        "several": None if answer.several is None else _several(answer.several),
    }
    return json.dumps(told, indent=1, ensure_ascii=False)


def _ranking(ranking: Ranking) -> dict[str, Any]:
    known = ranking.parameters
    return {
        "machine": known.name,
        "link": known.link,
        "origin": str(known.origin),
        "source": known.source,
        "ranking": [_prediction(one) for one in ranking.best],
        "decided": ranking.decided,
        "skipped": [{"method": str(s.method), "reason": s.reason} for s in ranking.skipped],
        "closed_form_streams": ranking.closed_form,
        "why": why(ranking),
    }


def _several(several: Several) -> dict[str, Any]:
    return {
        "gpus": several.gpus,
        "machine": several.machine,
        "shared": list(several.shared),
        "predictions": [_prediction(one) for one in several.predictions],
    }


def _bounds(bounds: Bounds) -> dict[str, Any]:
    named = (
        ("full_overlap", bounds.full_overlap),
        ("zero_overlap", bounds.zero_overlap),
        ("mapped", bounds.mapped),
    )
    return {
        name: {
            "seconds": seconds.value,
            "low_seconds": seconds.low,
            "high_seconds": seconds.high,
            "flops_per_second": bounds.rate(seconds),
        }
        for name, seconds in named
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "method": str(one.method),
        "streams": one.streams,
        "seconds": one.seconds.value,
        "low_seconds": one.seconds.low,
        "high_seconds": one.seconds.high,
        "busiest": one.busiest,
    }
