"""What Vega says of specifications."""

from __future__ import annotations

import json
from typing import Any

import pytest


def accepted(spec: dict[str, Any]) -> dict[str, Any]:
    """Return what Vega-Lite makes of a specification, which it must understand."""
    converter = pytest.importorskip("vl_convert")
    made: dict[str, Any] = converter.vegalite_to_vega(json.dumps({**spec, "width": 640}))
    assert made["marks"]
    return made
