"""Rebuilds results from the rows of a run folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lanescope.experiment import (
    Access,
    Caches,
    Copy,
    Engine,
    Experiment,
    Memory,
    Operation,
    Pattern,
    Place,
    Route,
    Submission,
    Timing,
)
from lanescope.experiment.access import PLAIN
from lanescope.experiment.case import Case, Cell, Matrix, Unit
from lanescope.experiment.limit import limits, staging_node
from lanescope.machine import Machine
from lanescope.measurement.result import (
    CopyResult,
    LinkEvidence,
    Result,
    Source,
    Status,
    Stop,
    Verdict,
)
from lanescope.measurement.statistics import summarise
from lanescope.measurement.words import rate_text
from lanescope.run.rows import Row
from lanescope.units.bandwidth import bandwidth_gbs

#: What the method of a set said up to version 3 if some of its copies waited for others.
_OLD_TURNS = "they take turns, so that each is timed from the start of the first to the end of all"

#: Columns of a table of samples by name, all of one length.
Columns = dict[str, npt.NDArray[Any]]
#: Samples by experiment and number of the copy.
Seconds = dict[tuple[str, int], npt.NDArray[np.float64]]


def results_from_rows(rows: Sequence[Row], samples: Columns) -> list[Result]:
    """Return the results that a table of results and its table of samples hold.

    Raises
    ------
    KeyError, TypeError, ValueError
        If a column is missing or holds what it cannot.
    """
    # A row for each copy, those of one experiment behind each other.
    groups = itertools.groupby(rows, key=lambda row: row["experiment"])
    sorted_out = _by_copy(samples)
    return [_result(list(group), sorted_out) for _, group in groups]


def _by_copy(samples: Columns) -> Seconds:
    """Return the samples of each copy of each experiment; they stand behind each other."""
    names, copies, seconds = samples["experiment"], samples["copy"], samples["seconds"]
    if not len(names):
        return {}
    new = (names[1:] != names[:-1]) | (copies[1:] != copies[:-1])
    begins = [0, *(np.flatnonzero(new) + 1)]
    ends = [*begins[1:], len(names)]
    found: Seconds = {}
    for begin, end in zip(begins, ends, strict=True):
        key = (str(names[begin]), int(copies[begin]))
        if key in found:
            raise ValueError("the samples of a copy stand in two places")
        found[key] = seconds[begin:end]
    return found


def cases_from_json(entries: Iterable[dict[str, Any]]) -> tuple[Case, ...]:
    """Return the cases that a manifest holds.

    Raises
    ------
    KeyError, TypeError, ValueError
        If one is not a case.
    """
    return tuple(
        Case(**entry | {"matrices": tuple(map(_matrix, entry["matrices"]))}) for entry in entries
    )


def _matrix(entry: dict[str, Any]) -> Matrix:
    cells = tuple(Cell(**cell | {"measured": tuple(cell["measured"])}) for cell in entry["cells"])
    return Matrix(**entry | {"cells": cells, "unit": Unit(entry["unit"])})


def _result(rows: list[Row], samples: Seconds) -> Result:
    first = rows[0]
    experiment = Experiment(
        name=first["experiment"],
        title=first["title"],
        copies=tuple(_copy(row) for row in rows),
        timing=Timing(first["timing"]),
    )
    source, method = Source(first["provenance"]), first["method"]
    if first["n"] is None:
        stop = None if first["stop_reason"] is None else _stop(first)
        return Result(experiment, source, (), method, stop, _verdict(first))
    copies = tuple(
        _copy_result(copy, row, samples) for copy, row in zip(experiment.copies, rows, strict=True)
    )
    links = tuple(LinkEvidence(**link) for link in first.get("links_seen") or ())
    return Result(experiment, source, copies, method, _stop(first), links=links)


def _copy(row: Row) -> Copy:
    return Copy(
        source=Place(row["source"], Memory(row["source_memory"])),
        destination=Place(row["destination"], Memory(row["destination_memory"])),
        bytes=row["bytes"],
        engine=Engine(row["engine"]),
        operation=Operation(row["operation"]),
        cpus=tuple(row["cpus"]),
        # from here on not in version 1
        executor=row.get("executor"),
        sms=row.get("sms"),
        chunk_bytes=row.get("chunk_bytes"),
        pace_gbs=row.get("pace_gbs"),
        pieces=row.get("pieces", 1),
        submission=Submission(row.get("submission", Submission.SINGLE)),
        # from here on not in version 2
        access=_access(row),
        route=Route(row["route"]) if row.get("route") else None,
    )


def _access(row: Row) -> Access | None:
    if "pattern" not in row:
        return None
    caches = Caches(row["caches"])
    access = Access(Pattern(row["pattern"]), row["span_bytes"], row["stride_bytes"], caches)
    return None if access == PLAIN else access


def _copy_result(copy: Copy, row: Row, samples: Seconds) -> CopyResult:
    seconds = samples.get((row["experiment"], row["copy"]), np.empty(0))
    if seconds.size != row["n"]:
        raise ValueError("the samples do not belong to the result")
    statistics = summarise(seconds)
    return CopyResult(
        copy,
        seconds,
        statistics,
        row["limit_gbs"],
        row["limit_reason"],
        _verdict(row),
        row.get("submit_seconds"),
        row.get("clock_seconds"),
        row.get("own_rate", True),  # this and the next not in version 3
        tuple(row.get("in_turns_with") or ()),
    )


def put_right(machine: Machine, result: Result) -> Result:
    """Return a result of version 3 or older without what is known today to be wrong in it.

    Copies of which an engine took some in turns were each given a share of the time of all,
    and judged by it; copies that are staged through host memory had the limit of NVLink.
    """
    copies = result.copies
    if _OLD_TURNS in result.method:
        copies = tuple(_took_turns(copies, number) for number in range(len(copies)))
    parts = {node.id for node in machine.nodes} | {gpu.id for gpu in machine.gpus}
    ends = {place.part for entry in copies for place in (entry.copy.source, entry.copy.destination)}
    staged = [ends <= parts and staging_node(machine, entry.copy) is not None for entry in copies]
    if any(staged):
        bounds = limits(machine, result.experiment)
        copies = tuple(
            replace(entry, limit_gbs=limit.gbs, limit_reason=limit.reason) if through else entry
            for entry, limit, through in zip(copies, bounds, staged, strict=True)
        )
    return replace(result, copies=copies)


def _took_turns(copies: Sequence[CopyResult], number: int) -> CopyResult:
    others = tuple(other for other in range(len(copies)) if other != number)
    counted = sum(entry.copy.counted_bytes for entry in copies)
    total = rate_text(bandwidth_gbs(counted, copies[number].statistics.median_seconds))
    words = f"an engine took some of this set in turns: only the sum of all is known, {total}"
    verdict = Verdict(Status.UNJUDGED, words)
    return replace(copies[number], verdict=verdict, own_rate=False, in_turns_with=others)


def _verdict(row: Row) -> Verdict:
    return Verdict(Status(row["verdict"]), row["reason"], row["remedy"])


def _stop(row: Row) -> Stop:
    return Stop(row["stop_reason"], row["stop_target"], row["spent_seconds"], row["budget_seconds"])
