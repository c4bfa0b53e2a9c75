"""Writes docs/schema/run.json from the dataclasses: python tools/schema.py."""

from __future__ import annotations

import json
from pathlib import Path

from lanescope.codec.schema import schema_of
from lanescope.studies.runs.export import ExportedRun

PLACE = Path(__file__).resolve().parent.parent / "docs" / "schema" / "run.json"


def text() -> str:
    return json.dumps(schema_of(ExportedRun, "lanescope run"), indent=1) + "\n"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(text())
