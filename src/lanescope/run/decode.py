"""Rebuilds results from the rows of a run folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from lanescope.experiment import Copy, Engine, Experiment, Memory, Operation, Place, Timing
from lanescope.measurement.result import (
    CopyResult,
    Result,
    Source,
    Statistics,
    Status,
    Stop,
    Verdict,
)
from lanescope.run.rows import Row

#: Columns of a table of samples by name, all of one length.
Columns = dict[str, npt.NDArray[Any]]


def results_from_rows(rows: Sequence[Row], samples: Columns) -> list[Result]:
    """Return the results that a table of results and its table of samples hold.

    Raises
    ------
    KeyError, TypeError, ValueError
        If a column is missing or holds what it cannot.
    """
    # A row for each copy, those of one experiment behind each other.
    groups = itertools.groupby(rows, key=lambda row: row["experiment"])
    return [_result(list(group), samples) for _, group in groups]


def _result(rows: list[Row], samples: Columns) -> Result:
    first = rows[0]
    experiment = Experiment(
        name=first["experiment"],
        title=first["title"],
        copies=tuple(_copy(row) for row in rows),
        timing=Timing(first["timing"]),
    )
    source, method = Source(first["provenance"]), first["method"]
    if first["n"] is None:
        return Result(experiment, source, (), method, not_measured=_verdict(first))
    copies = tuple(
        _copy_result(copy, row, samples) for copy, row in zip(experiment.copies, rows, strict=True)
    )
    return Result(experiment, source, copies, method, _stop(first))


def _copy(row: Row) -> Copy:
    return Copy(
        source=Place(row["source"], Memory(row["source_memory"])),
        destination=Place(row["destination"], Memory(row["destination_memory"])),
        bytes=row["bytes"],
        engine=Engine(row["engine"]),
        operation=Operation(row["operation"]),
        cpus=tuple(row["cpus"]),
    )


def _copy_result(copy: Copy, row: Row, samples: Columns) -> CopyResult:
    mine = (samples["experiment"] == row["experiment"]) & (samples["copy"] == row["copy"])
    seconds = samples["seconds"][mine]
    if seconds.size != row["n"]:
        raise ValueError("the samples do not belong to the result")
    statistics = Statistics(
        n=row["n"],
        median_seconds=row["median_seconds"],
        min_seconds=row["min_seconds"],
        max_seconds=row["max_seconds"],
        p5_seconds=row["p5_seconds"],
        p95_seconds=row["p95_seconds"],
        half_width=row["half_width"],
    )
    return CopyResult(
        copy, seconds, statistics, row["limit_gbs"], row["limit_reason"], _verdict(row)
    )


def _verdict(row: Row) -> Verdict:
    return Verdict(Status(row["verdict"]), row["reason"], row["remedy"])


def _stop(row: Row) -> Stop:
    return Stop(row["stop_reason"], row["stop_target"], row["spent_seconds"], row["budget_seconds"])
