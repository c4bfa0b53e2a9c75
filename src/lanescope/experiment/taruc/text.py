"""Parameters as TOML text with a comment for each."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from lanescope.experiment.taruc.names import NAMES
from lanescope.experiment.taruc.parameters import Parameters

_HEADER = """\
# Parameters of a suite for 'lanescope bench --params FILE'. Sizes are bytes, or texts
# such as "1.5GB". What is left out keeps its default. In brackets: TARUC's name.
"""
_WIDTH = 36


def parameters_text(parameters: Parameters) -> str:
    """Return a file that reads back as these parameters."""
    lines = [_HEADER + "\n".join(_lines(parameters, ""))]
    for entry in dataclasses.fields(parameters):
        section = getattr(parameters, entry.name)
        if dataclasses.is_dataclass(section):
            lines.append(f"\n[{entry.name}]\n" + "\n".join(_lines(section, entry.name)))
    return "\n".join(lines) + "\n"


def taruc_label(section: str, key: str) -> str | None:
    """Return TARUC's name of a parameter."""
    labels = [n.label for n in NAMES if (n.section, n.key) == (section, key)]
    return labels[0] if labels else None


def _lines(section: Any, name: str) -> list[str]:
    lines = []
    for entry in dataclasses.fields(section):
        value = getattr(section, entry.name)
        if dataclasses.is_dataclass(value):
            continue
        label = taruc_label(name, entry.name)
        words = entry.metadata["words"] + (f" [{label}]" if label else "")
        # TOML has no word for nothing: the line is there to be filled in
        line = f"# {entry.name} =" if value is None else f"{entry.name} = {_toml(value)}"
        lines.append(f"{line:{_WIDTH}} # {words}")
    return lines


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:_}"
    # JSON's strings are TOML's, but for the one control character it leaves as it is
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
