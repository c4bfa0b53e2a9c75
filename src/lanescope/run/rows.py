"""Results as flat rows: what Parquet, CSV and JSON share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from lanescope.experiment.access import PLAIN
from lanescope.measurement.result import CopyResult, Result, Verdict

Row = dict[str, Any]


def rows_of(results: Iterable[Result]) -> list[Row]:
    """Return a row for each copy of each result, measured or not.

    Columns carry their unit in their name; what is missing is None.
    """
    return [row for result in results for row in _rows(result)]


def _rows(result: Result) -> list[Row]:
    rows = []
    for index, copy in enumerate(result.experiment.copies):
        access = copy.access or PLAIN
        row: Row = {
            "experiment": result.experiment.name,
            "title": result.experiment.title,
            "timing": str(result.experiment.timing),
            "copy": index,
            "path": copy.path,
            "provenance": str(result.source),
            "source": copy.source.part,
            "source_memory": str(copy.source.memory),
            "destination": copy.destination.part,
            "destination_memory": str(copy.destination.memory),
            "engine": str(copy.engine),
            "operation": str(copy.operation),
            "cpus": list(copy.cpus),
            "executor": copy.executor,
            "sms": copy.sms,
            "chunk_bytes": copy.chunk_bytes,
            "pace_gbs": copy.pace_gbs,
            "pieces": copy.pieces,
            "submission": str(copy.submission),
            "pattern": str(access.pattern),
            "span_bytes": access.span_bytes,
            "stride_bytes": access.stride_bytes,
            "caches": str(access.caches),
            "route": str(copy.route) if copy.route else None,
            "bytes": copy.bytes,
            "counted_bytes": copy.counted_bytes,
        }
        measured = result.copies[index] if result.copies else None
        row |= _numbers(measured)
        row |= _turns(result, index)
        row |= _verdict(measured.verdict if measured else result.not_measured)
        row |= {
            "method": result.method,
            "stop_reason": result.stop.reason if result.stop else None,
            "stop_target": result.stop.target if result.stop else None,
            "spent_seconds": result.stop.spent_seconds if result.stop else None,
            "budget_seconds": result.stop.budget_seconds if result.stop else None,
            "links_seen": [dataclasses.asdict(link) for link in result.links],
        }
        rows.append(row)
    return rows


def _numbers(measured: CopyResult | None) -> Row:
    statistics = measured.statistics if measured else None
    return {
        "gbs": measured.gbs if measured else None,
        "limit_gbs": measured.limit_gbs if measured else None,
        "limit_reason": measured.limit_reason if measured else None,
        "share_of_limit": measured.share_of_limit if measured else None,
        "n": statistics.n if statistics else None,
        "median_seconds": statistics.median_seconds if statistics else None,
        "min_seconds": statistics.min_seconds if statistics else None,
        "max_seconds": statistics.max_seconds if statistics else None,
        "p5_seconds": statistics.p5_seconds if statistics else None,
        "p95_seconds": statistics.p95_seconds if statistics else None,
        "half_width": statistics.half_width if statistics else None,
        "mean_seconds": statistics.mean_seconds if statistics else None,
        "stdev_seconds": statistics.stdev_seconds if statistics else None,
        "submit_seconds": measured.submit_seconds if measured else None,
        "clock_seconds": measured.clock_seconds if measured else None,
    }


def _turns(result: Result, index: int) -> Row:
    measured = result.copies[index] if result.copies else None
    return {
        "own_rate": measured.own_rate if measured else None,
        "in_turns_with": list(measured.in_turns_with) if measured else [],
        "joint_gbs": result.joint_gbs(index) if measured else None,
    }


def _verdict(verdict: Verdict | None) -> Row:
    return {
        "verdict": str(verdict.status) if verdict else None,
        "reason": verdict.reason if verdict else None,
        "remedy": verdict.remedy if verdict else None,
    }
