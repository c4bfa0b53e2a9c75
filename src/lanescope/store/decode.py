"""Rebuilds results from the rows of a run folder, of older versions too."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lanescope.codec.fields import FieldError, build, from_attributes, shown
from lanescope.codec.files import fields_of
from lanescope.codec.parquet import Holds, read_columns, read_rows
from lanescope.copies import (
    Access,
    Copy,
    Experiment,
    Place,
    Purpose,
)
from lanescope.copies.experiment import Cell, Matrix
from lanescope.copies.limit import limits, staging_node
from lanescope.copies.terms import PLAIN
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.results import (
    CopyResult,
    Result,
    Status,
    Stop,
    Verdict,
    summarise,
)
from lanescope.store.run import Manifest, ResultRow
from lanescope.units.sizes import bandwidth_gbs
from lanescope.units.words import rate_text

#: What the method of a copy through host memory said up to version 4.
_STAGED = "no peer access, staged through host memory"
#: What the method of a set said up to version 3 if some of its copies waited for others.
_OLD_TURNS = "they take turns, so that each is timed from the start of the first to the end of all"


def put_right(machine: Machine, result: Result, version: int) -> Result:
    """Return a result of an older version as today's would be."""
    if version <= 3:
        result = _version_3(machine, result)
    return _version_4(result)


def _version_4(result: Result) -> Result:
    """What a result was for stood in the beginning of its name, and that it was staged in words."""
    first, slash, _ = result.experiment.name.partition("/")
    known = bool(slash) and first in set(Purpose) - {Purpose.PATH, Purpose.SOCKETS}
    experiment = replace(result.experiment, purpose=Purpose(first) if known else Purpose.PATH)
    if result.experiment.name.startswith("contention/sockets/"):
        experiment = replace(experiment, purpose=Purpose.SOCKETS)
    return replace(result, experiment=experiment, staged=_STAGED in result.method)


def _version_3(machine: Machine, result: Result) -> Result:
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


#: Samples by experiment and number of the copy.
Seconds = dict[tuple[str, int], npt.NDArray[np.float64]]
_REMEDY = "name another run"
_SAMPLES = {"experiment": Holds.TEXT, "copy": Holds.WHOLE, "seconds": Holds.NUMBER}
#: No repetition is shorter, and none longer: a femtosecond, 30 years.
_SHORTEST, _LONGEST = 1e-15, 1e9
#: Rows and columns of the largest matrix: pairs of GPUs.
_MOST_PARTS = 1024


def read_results(
    path: Path, samples: Path, machine: Machine, without: Collection[str] = (), inner: int = 1
) -> list[Result]:
    """Return the results that a table of results and its table of samples hold.

    Parameters
    ----------
    without
        Experiments that are not wanted; their samples may be missing.
    inner
        How many of the last names of both paths lie in the run folder: see `open_file`.

    Raises
    ------
    InputError
        If a file cannot be read or is damaged; with the file, the row and the field.
    """
    with fields_of(path, _REMEDY):
        rows = [
            build(ResultRow, row, "rows", number, others=True)
            for number, row in enumerate(read_rows(path, inner))
        ]
        rows = [row for row in rows if row.experiment not in without]
        # A row for each copy, those of one experiment behind each other.
        groups = [list(group) for _, group in itertools.groupby(rows, lambda row: row.experiment)]
        _require_once([group[0].experiment for group in groups])
        experiments = [_experiment(group, machine) for group in groups]
    sorted_out = _by_copy(samples, inner)
    with fields_of(path, _REMEDY):
        return [
            _result(experiment, group, sorted_out, samples)
            for experiment, group in zip(experiments, groups, strict=True)
        ]


def require_whole_cases(manifest: Manifest, results: Sequence[Result]) -> None:
    """Check that the cells of a run's cases are in their matrices and of its experiments.

    An experiment may not have been measured yet.

    Raises
    ------
    FieldError
        If one is not.
    """
    copies = {r.experiment.name: len(r.experiment.copies) for r in results}
    _require_once([case.name for case in manifest.cases])
    for number, case in enumerate(manifest.cases):
        if not case.matrices and case.not_applicable is None:
            raise FieldError("a case that can be run has a matrix", "matrices", "cases", number)
        for matrix in case.matrices:
            if not (0 < matrix.rows <= _MOST_PARTS and 0 < matrix.columns <= _MOST_PARTS):
                raise FieldError(
                    f"a matrix of {matrix.rows} rows and {matrix.columns} columns cannot be",
                    "matrices",
                    "cases",
                    number,
                )
            for cell in matrix.cells:
                if problem := _cell_problem(cell, matrix, copies):
                    raise FieldError(problem, "cells", "cases", number)


def _cell_problem(cell: Cell, matrix: Matrix, copies: dict[str, int]) -> str | None:
    place = f"the cell in row {cell.row}, column {cell.column}"
    if cell.row >= matrix.rows or cell.column >= matrix.columns:
        return f"{place} is outside of its matrix"
    if cell.experiment is None:
        return f"{place} says no experiment" if cell.not_applicable is None else None
    if not cell.measured:
        return f"{place} says no copy of {shown(cell.experiment)}"
    if len(set(cell.measured)) != len(cell.measured):
        return f"{place} counts a copy of {shown(cell.experiment)} twice"
    there = copies.get(cell.experiment)
    if there is not None and max(cell.measured) >= there:
        return f"{place} is of copy {max(cell.measured)} of {shown(cell.experiment)}: it has none"
    return None


def _require_once(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError(f"{shown(twice)} is there twice", "")


def _by_copy(path: Path, inner: int) -> Seconds:
    """Return the samples of each copy of each experiment; they stand behind each other."""
    samples = read_columns(path, _SAMPLES, inner=inner)
    names, copies, seconds = samples["experiment"], samples["copy"], samples["seconds"]
    if not len(names):
        return {}
    if not (seconds.min() >= _SHORTEST and seconds.max() <= _LONGEST):
        raise InputError(f"{path} holds times that no copy takes; {_REMEDY}")
    new = (names[1:] != names[:-1]) | (copies[1:] != copies[:-1])
    begins = [0, *(np.flatnonzero(new) + 1)]
    ends = [*begins[1:], len(names)]
    found: Seconds = {}
    for begin, end in zip(begins, ends, strict=True):
        key = (str(names[begin]), int(copies[begin]))
        if key in found:
            raise InputError(f"{path}: the samples of a copy stand in two places; {_REMEDY}")
        found[key] = seconds[begin:end].astype(np.float64)
    return found


def _experiment(rows: list[ResultRow], machine: Machine) -> Experiment:
    first = rows[0]
    if [row.copy for row in rows] != list(range(len(rows))):
        raise FieldError(f"the copies of {shown(first.experiment)} are not numbered from 0", "")
    parts = {*(node.id for node in machine.nodes), *(gpu.id for gpu in machine.gpus)}
    for row in rows:
        link_parts = [link.part for link in row.links_seen or ()]
        for part in (row.source, row.destination, row.executor, *link_parts):
            if part is not None and part not in parts:
                raise FieldError(
                    f"{shown(row.experiment)} is of {shown(part)}, which its machine.toml has not",
                    "",
                )
    try:
        return Experiment(
            name=first.experiment,
            title=first.title,
            copies=tuple(_copy(row) for row in rows),
            timing=first.timing,
            purpose=first.purpose,
        )
    except (InputError, ValueError) as error:
        raise FieldError(f"{shown(first.experiment)}: {error}", "") from error


def _result(experiment: Experiment, rows: list[ResultRow], samples: Seconds, path: Path) -> Result:
    first = rows[0]
    if len({row.n is None for row in rows}) > 1:
        raise FieldError(f"only some copies of {shown(first.experiment)} were measured", "")
    if first.n is None:
        stop = None if first.stop_reason is None else _stop(first)
        return Result(experiment, first.provenance, (), first.method, stop, _verdict(first))
    others = {number for row in rows for number in row.in_turns_with or ()}
    if others - set(range(len(rows))):
        raise FieldError(
            f"{shown(first.experiment)} has no copy {max(others)}, with which one took turns",
            "in_turns_with",
        )
    copies = tuple(
        _copy_result(copy, row, samples, path)
        for copy, row in zip(experiment.copies, rows, strict=True)
    )
    links = first.links_seen or ()
    stop = _stop(first)
    return Result(
        experiment, first.provenance, copies, first.method, stop, None, links, first.staged
    )


def _copy(row: ResultRow) -> Copy:
    return from_attributes(
        Copy,
        row,
        source=Place(row.source, row.source_memory),
        destination=Place(row.destination, row.destination_memory),
        access=_access(row),
    )


def _access(row: ResultRow) -> Access | None:
    if row.pattern is None:
        return None
    access = Access(row.pattern, row.span_bytes, row.stride_bytes, row.caches)
    return None if access == PLAIN else access


def _copy_result(copy: Copy, row: ResultRow, samples: Seconds, path: Path) -> CopyResult:
    seconds = samples.get((row.experiment, row.copy), np.empty(0))
    if seconds.size != row.n:
        raise FieldError(
            f"{shown(row.experiment)} has {row.n} samples of copy {row.copy}, and {path.name} has "
            f"{seconds.size}",
            "n",
        )
    if row.limit_reason is None:
        raise FieldError(f"{shown(row.experiment)} has no 'limit_reason'", "limit_reason")
    return CopyResult(
        copy,
        seconds,
        summarise(seconds),
        row.limit_gbs,
        row.limit_reason,
        _verdict(row),
        row.submit_seconds,
        row.clock_seconds,
        row.own_rate is not False,
        row.in_turns_with or (),
    )


def _verdict(row: ResultRow) -> Verdict:
    return Verdict(row.verdict, row.reason, row.remedy)


def _stop(row: ResultRow) -> Stop:
    fields = (row.stop_reason, row.stop_target, row.spent_seconds, row.budget_seconds)
    reason, target, spent, budget = fields
    if reason is None or target is None or spent is None or budget is None:
        raise FieldError(f"{shown(row.experiment)} does not say why sampling ended", "stop_reason")
    return Stop(reason, target, spent, budget)
