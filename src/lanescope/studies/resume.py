"""Going on with a run that was cut off: what it must share with the new one, what is left."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.store.folder import MANIFEST, SCHEMA_VERSION
from lanescope.store.run import Manifest, Run
from lanescope.store.store import read_run

_REMEDY = "name another folder with --out"


def run_to_resume(folder: Path | None, manifest: Manifest) -> Run | None:
    """Return the run of a folder that a new one, told by its manifest, may go on with.

    None where the folder holds no run yet: then it begins there.

    Raises
    ------
    InputError
        If no folder is named, or its run is of another kind, machine, version or
        other parameters.
    """
    if folder is None:
        raise InputError("--resume goes on with a run folder; name it with --out")
    if not (folder / MANIFEST).is_file():
        return None  # what else is in it, the writer will judge
    run = read_run(folder)
    before = run.manifest
    if before.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{folder} was written by lanescope {before.tool_version} in run schema "
            f"{before.schema_version}, this is {SCHEMA_VERSION}; {_REMEDY}"
        )
    if before.verb != manifest.verb:
        raise InputError(
            f"{folder} is a run of {before.verb!r}, not of {manifest.verb!r}; {_REMEDY}"
        )
    if other := _other_part(before.machine, manifest.machine):
        raise InputError(f"{folder} is a run of another machine ({other}); {_REMEDY}")
    if (key := _other_parameter(before.parameters, manifest.parameters)) is not None:
        raise InputError(
            f"{folder} is a run with other parameters ({key}); {_REMEDY}, or give it the same"
        )
    return run


def finished_names(run: Run) -> set[str]:
    """Return the experiments that need not be measured again.

    One that was cut off has few samples, and one that --within had no time for has none; what
    could not be measured is not tried again.
    """
    return {
        r.experiment.name
        for r in run.results
        if r.stop is None or r.stop.reason not in ("interrupted", "time")
    }


def _other_part(before: Machine, now: Machine) -> str | None:
    """Return how two machines differ; states of links and sizes of memory may change."""
    for what, mine, theirs in (
        ("name", before.name, now.name),
        ("CPU", before.cpu, now.cpu),
        ("driver", before.driver, now.driver),
        ("nodes", _nodes(before), _nodes(now)),
        ("GPUs", _gpus(before), _gpus(now)),
        ("kind", before.described, now.described),
    ):
        if mine != theirs:
            return f"its {what} differs"
    return None


def _nodes(machine: Machine) -> list[tuple[Any, ...]]:
    return [(node.index, node.cores) for node in machine.nodes]


def _gpus(machine: Machine) -> list[tuple[Any, ...]]:
    return [(gpu.index, gpu.name, gpu.uuid, gpu.pci_address) for gpu in machine.gpus]


def _other_parameter(before: str | None, now: str | None) -> str | None:
    """Return a parameter that differs; comments and the tag may."""
    old, new = _values(before), _values(now)
    differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return differing[0] if differing else None


def _values(text: str | None) -> dict[str, Any]:
    """Return every parameter by section and key, those left out with their defaults."""
    if text is None:
        return {}
    from lanescope.studies.taruc.parameter_file import parse_parameters

    values: dict[str, Any] = {}
    for key, value in dataclasses.asdict(parse_parameters(text, "of the run")).items():
        inner = {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {}
        values |= inner or {key: value}
    values.pop("tag", None)
    return values
