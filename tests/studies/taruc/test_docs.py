"""The reference of parameters in the docs is that of the code."""

import dataclasses
from pathlib import Path

from lanescope.studies.taruc import Parameters
from lanescope.studies.taruc.parameter_file import taruc_label

DOCS = Path(__file__).parents[3] / "docs" / "taruc.md"


def rows():
    """A row for each parameter: key, default, meaning, TARUC's name."""
    parameters = Parameters()
    yield from _rows(parameters, "")
    for field in dataclasses.fields(parameters):
        section = getattr(parameters, field.name)
        if dataclasses.is_dataclass(section):
            yield from _rows(section, field.name)


def _rows(section, name):
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if dataclasses.is_dataclass(value):
            continue
        shown = "–" if value is None else str(value).lower()
        key = f"{name}.{field.name}" if name else field.name
        label = taruc_label(name, field.name)
        taruc = f"`{label}`" if label else "–"
        yield f"| `{key}` | {shown} | {field.metadata['words']} | {taruc} |"


def test_every_parameter_is_in_the_docs():
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    begin = lines.index("| key | default | meaning | TARUC's name |") + 2
    end = lines.index("", begin)
    assert lines[begin:end] == list(rows())
