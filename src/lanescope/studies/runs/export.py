"""A run as JSON and CSV. docs/schema/run.json is made from the dataclasses here."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lanescope.codec.fields import from_attributes
from lanescope.copies.experiment import Case, Matrix, Unit
from lanescope.document.contents import Finding
from lanescope.errors import ExitCode
from lanescope.findings.machine import diagnose
from lanescope.machine import Machine
from lanescope.report.format import safe_cells
from lanescope.results import Result, Status
from lanescope.store.folder import State
from lanescope.store.run import COLUMNS, ResultRow, Run, rows_of
from lanescope.studies.runs.outcome import Word, outcome
from lanescope.studies.runs.rows import CellValue, cell_values
from lanescope.studies.taruc.findings import findings


@dataclass(frozen=True, slots=True)
class ExportedCell:
    """A cell of a matrix, in the unit that the matrix names.

    Attributes
    ----------
    half_width
        Half of the 95 % confidence interval, as a share of the median.
    variation
        Standard deviation over mean.
    """

    row: int
    column: int
    experiment: str | None
    median: float | None
    mean: float | None
    p5: float | None
    p95: float | None
    half_width: float | None
    variation: float | None
    limit_gbs: float | None
    share_of_limit: float | None
    status: Status
    reason: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class ExportedMatrix:
    """A matrix of a case; cells that are not in it have no value."""

    suffix: str
    caption: str
    unit: Unit
    rows: int
    columns: int
    cells: tuple[ExportedCell, ...]


@dataclass(frozen=True, slots=True)
class ExportedCase:
    """A case: `not_applicable` says why it has no matrices here."""

    name: str
    description: str
    not_applicable: str | None
    matrices: tuple[ExportedMatrix, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """What copies that ran at the same time carried together, in 1e9 bytes a second."""

    experiment: str
    gbs: float | None
    limit_gbs: float | None


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run. Bandwidths are numbers in 1e9 bytes a second; what is missing is null.

    Attributes
    ----------
    verdict, summary, exit_code
        What the run comes to; the code is null where it goes on or was killed.
    schema_version
        Of the run folder.
    started
        ISO 8601 with the offset from UTC.
    predicted
        Whether any number is a prediction.
    baseline
        How it compares with the baseline, in a sentence; null without one.
    notes
        What was done otherwise than requested.
    missing
        How the machine differs from the expected one.
    unmeasured
        What there are no results of although it was to be measured.
    diagnoses
        What is wrong with the machine.
    findings
        What the micro-benchmarks of TARUC show.
    """

    verdict: Word
    summary: str
    exit_code: ExitCode | None
    schema_version: int
    tool_version: str
    verb: str
    command: str
    started: str
    state: State
    predicted: bool
    baseline: str | None
    folder: str | None
    machine: Machine
    notes: tuple[str, ...]
    missing: tuple[str, ...]
    unmeasured: tuple[str, ...]
    results: tuple[ResultRow, ...]
    totals: tuple[Total, ...]
    cases: tuple[ExportedCase, ...]
    diagnoses: tuple[Finding, ...]
    findings: tuple[Finding, ...]


def run_json(run: Run, *, strict: bool = False) -> str:
    """Return a run as one JSON object; see `ExportedRun`.

    Parameters
    ----------
    strict
        Whether what could not be measured counts; see `lanescope.studies.runs.outcome`.
    """
    content = exported(run, strict=strict)
    return json.dumps(content, indent=2, allow_nan=False, default=dataclasses.asdict)


def exported(run: Run, *, strict: bool = False) -> ExportedRun:
    """Return what is printed of a run as JSON; see `run_json`."""
    manifest, out = run.manifest, outcome(run, strict=strict)
    return from_attributes(
        ExportedRun,
        *(manifest, out, run),
        verdict=out.word,
        baseline=None if run.against is None else run.against.summary,
        folder=str(run.folder) if run.folder else None,
        results=tuple(rows_of(run.results)),
        totals=tuple(_totals(run.results)),
        cases=exported_cases(run),
        diagnoses=diagnose(manifest.machine, run.results),
        findings=findings(manifest.machine, run.results),
    )


def run_csv(run: Run) -> str:
    """Return a run's rows as CSV with a header; missing is empty."""
    rows = rows_of(run.results)
    text = io.StringIO()
    if rows:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            table = row.to_table()
            lists = {key: " ".join(map(str, table[key])) for key in ("cpus", "in_turns_with")}
            writer.writerow(safe_cells((table | lists).values()))
    return text.getvalue()


def exported_cases(run: Run) -> tuple[ExportedCase, ...]:
    """Return a run's cases with the values of their cells; empty for a run without cases."""
    results = {r.experiment.name: r for r in run.results}
    return tuple(_case(case, results) for case in run.manifest.cases)


def _totals(results: Iterable[Result]) -> list[Total]:
    several = (result for result in results if len(result.copies) > 1)
    return [Total(r.experiment.name, r.total_gbs, r.total_limit_gbs) for r in several]


def _case(case: Case, results: Mapping[str, Result]) -> ExportedCase:
    matrices = tuple(_matrix(matrix, results) for matrix in case.matrices)
    return ExportedCase(case.name, case.description, case.not_applicable, matrices)


def _matrix(matrix: Matrix, results: Mapping[str, Result]) -> ExportedMatrix:
    cells = tuple(_cell(value) for value in cell_values(matrix, results))
    return from_attributes(ExportedMatrix, matrix, cells=cells)


def _cell(value: CellValue) -> ExportedCell:
    return from_attributes(
        ExportedCell, value.cell, value, value.verdict, p5=value.low, p95=value.high
    )
