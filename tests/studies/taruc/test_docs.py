"""The reference of parameters is what `lanescope bench params` prints; the docs name its keys."""

import dataclasses
import re
import tomllib
from pathlib import Path

from lanescope.studies.taruc import Parameters
from lanescope.studies.taruc.parameters import parameters_text, taruc_label

DOCS = Path(__file__).parents[3] / "docs" / "taruc.md"


def rows():
    """Of each parameter: section, key, default, meaning, TARUC's name."""
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
        yield name, field.name, value, field.metadata["words"], taruc_label(name, field.name)


def test_every_parameter_is_in_what_bench_params_prints():
    section, shown = "", {}
    for line in parameters_text(Parameters()).splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif found := re.match(r"(?:# )?(\w+) = *(\S*) +# (.+?)(?: \[(.+)\])?$", line):
            key, default, words, label = found.groups()
            shown[section, key] = (default, words, label)
    assert set(shown) == {row[:2] for row in rows()}
    for name, key, default, words, label in rows():
        text, meaning, taruc = shown[name, key]
        assert (meaning, taruc) == (words, label or None)
        parsed = tomllib.loads(f"value = {text}")["value"] if text else None
        assert parsed == default


def test_keys_and_defaults_in_the_docs_are_those_of_the_code():
    table = DOCS.read_text(encoding="utf-8").partition("| key | default | effect |")[2]
    named = re.findall(r"`([a-z_.]+)`", table.partition("\n\n")[0])
    known = {f"{section}.{key}".lstrip("."): default for section, key, default, *_ in rows()}
    assert len(named) > 8
    assert set(named) <= set(known)
    assert all(known[key] is True for key in ("all_gpus", "patterns", "host.run", "sockets"))
    assert (known["host.min_bytes"], known["host.max_bytes"]) == (10, 1_500_000_000)
