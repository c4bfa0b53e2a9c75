"""A run as JSON and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

from lanescope.codec.cells import safe_cells
from lanescope.diagnosis import diagnose
from lanescope.model.taruc.findings import findings
from lanescope.report.case_json import cases_json
from lanescope.report.outcome import outcome
from lanescope.run.rows import rows_of
from lanescope.run.run import Run


def run_json(run: Run, *, strict: bool = False) -> str:
    """Return a run as one JSON object; bandwidths are numbers, missing is null.

    Parameters
    ----------
    strict
        Whether what could not be measured counts; see `lanescope.report.outcome`.
    """
    manifest, out = run.manifest, outcome(run, strict=strict)
    content: dict[str, Any] = {
        "verdict": str(out.word),
        "summary": out.summary,
        "exit_code": out.exit_code,
        "schema_version": manifest.schema_version,
        "tool_version": manifest.tool_version,
        "verb": manifest.verb,
        "command": manifest.command,
        "started": manifest.started,
        "state": str(manifest.state),
        "predicted": run.predicted,
        "folder": str(run.folder) if run.folder else None,
        "machine": dataclasses.asdict(manifest.machine),
        "notes": list(manifest.notes),
        "missing": list(manifest.missing),
        "unmeasured": list(manifest.unmeasured),
        "results": rows_of(run.results),
        "totals": [
            {
                "experiment": result.experiment.name,
                "gbs": result.total_gbs,
                "limit_gbs": result.total_limit_gbs,
            }
            for result in run.results
            if len(result.copies) > 1
        ],
        "cases": cases_json(run),
        "diagnoses": [dataclasses.asdict(d) for d in diagnose(manifest.machine, run.results)],
        "findings": [dataclasses.asdict(f) for f in findings(manifest.machine, run.results)],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def run_csv(run: Run) -> str:
    """Return a run's rows as CSV with a header; missing is empty."""
    rows = rows_of(run.results)
    text = io.StringIO()
    if rows:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows:
            lists = {key: " ".join(map(str, row[key])) for key in ("cpus", "in_turns_with")}
            writer.writerow(safe_cells((row | lists).values()))
    return text.getvalue()
