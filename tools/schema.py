"""Writes docs/schema from the dataclasses: python tools/schema.py."""

from __future__ import annotations

import json
from pathlib import Path

from lanescope.codec.schema import schema_of
from lanescope.fleet.formats import NodeLine
from lanescope.studies.node.report import NodeReport
from lanescope.studies.runs.export import ExportedRun

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"
SCHEMAS = {"run": ExportedRun, "node": NodeReport, "fleet-line": NodeLine}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, cls in SCHEMAS.items():
        text = json.dumps(schema_of(cls, f"lanescope {name}"), indent=1)
        (FOLDER / f"{name}.json").write_text(f"{text}\n")
