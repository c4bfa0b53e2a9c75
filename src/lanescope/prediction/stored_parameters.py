"""Parameters of links as JSON files, those that ship, and the ones kept for this machine.

What no link has is refused: mostly a number in another unit. The bounds are far apart: 1 MB/s to
100 TB/s, a tenth of a second for what takes microseconds. What a fit measured on any machine lies
within, however disturbed it was."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib.resources
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lanescope.calls import checked
from lanescope.codec.fields import FieldError, build, shown
from lanescope.codec.files import (
    fields_of,
    parse_json,
    read_text,
    require_version,
    write_atomically,
    writing_to,
)
from lanescope.errors import InputError, argument, command
from lanescope.kinds import StrPath
from lanescope.machine import HostBandwidth
from lanescope.machine.machine import LinkKind, Machine
from lanescope.prediction.parameters import PAGEABLE_COPIES, CopyCost, LinkParameters
from lanescope.store.folder import default_runs_folder
from lanescope.units.estimate import Estimate, TimeCurve

#: The name of such a file in a run folder, and of the one that is kept among the runs.
FILE = "link-parameters.json"
SCHEMA = 1

_SEVERAL = 2
#: Seconds for each byte.
_LEAST_PER_BYTE, _MOST_PER_BYTE = 1e-14, 1e-6
#: Seconds that a call, a launch or the gap between two copies takes.
_MOST_CALL = 0.1
#: Seconds of a curve: what takes microseconds, and its bytes at the slowest.
_MOST_FIXED = 1.0
#: How many times as long, or as short, as by ``first`` and ``per_byte`` a copy may take by size.
_MOST_TIMES = 30
_MOST_FACTOR = 100
_MOST_HOST_GBS = 1e4
_COPIES = ("h2d", "d2h", *PAGEABLE_COPIES)
_CALLS = ("first", "gap", "call", "event_call")


def dumps(parameters: LinkParameters) -> str:
    """Return parameters as the text of a file; what is unknown is left out."""
    content = {"schema": SCHEMA} | _without_unknown(dataclasses.asdict(parameters))
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def save(parameters: LinkParameters, path: Path) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    with writing_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, dumps(parameters).encode())


def load(path: Path) -> LinkParameters:
    """Read a file of parameters.

    Raises
    ------
    InputError
        If it cannot be read or is broken, with the field.
    """
    inner = int(path.name == FILE)  # then it may lie in a folder of somebody else's
    return parse(read_text(path, f"link parameters {path}", inner), str(path))


def parse(text: str, name: str) -> LinkParameters:
    """Return the parameters of a file's text; `name` is for messages.

    Raises
    ------
    InputError
        If the text is broken.
    """
    return parameters_of(parse_json(text, name), name)


def parameters_of(table: Any, name: str) -> LinkParameters:
    """Return the parameters that a file's table holds; raises `InputError` as `parse` does."""
    if not isinstance(table, dict) or "schema" not in table:
        raise InputError(
            f"{name} holds no link parameters: it has no 'schema'; name a file that "
            f"{command('model fit')} wrote"
        )
    with fields_of(f"link parameters {name}", f"correct it or run {command('model fit')} again"):
        require_version(table["schema"], SCHEMA, name)
        known = {key: value for key, value in table.items() if key != "schema"}
        parameters = build(LinkParameters, known)
        require_possible(parameters)
    return parameters


def _without_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_unknown(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_unknown(v) for v in value]
    return value


def machine_key(machine: Machine, gpu: int = 0) -> str | None:
    """Return what tells machines apart whose transfers differ; None without that GPU.

    The GPU, the processor and the GPU's link at its best: links are trained down at rest.
    """
    found = next((g for g in machine.gpus if g.index == gpu), None)
    if found is None:
        return None
    return "; ".join([found.name, machine.cpu or "unknown CPU", link_text(machine, gpu)])


def link_text(machine: Machine, gpu: int = 0) -> str:
    """Return the link above a GPU, such as ``PCIe 5.0 x16``."""
    for link in machine.links:
        if link.b == f"g{gpu}" and link.kind is LinkKind.PCIE:
            return link.best_label
    return "unknown link"


def store_fit(parameters: LinkParameters, runs: Path | None = None) -> Path:
    """Write a fit among the runs, where `newest_fit` finds it.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    path = (runs or default_runs_folder()) / FILE
    save(parameters, path)
    return path


def newest_fit(machine: Machine, runs: Path | None = None) -> LinkParameters:
    """Return the newest fit of this machine among the runs.

    Raises
    ------
    InputError
        If there is none, or only those of other machines.
    """
    folder = runs or default_runs_folder()
    files = sorted(_fit_files(folder), key=lambda file: file.stat().st_mtime, reverse=True)
    if not files:
        names = (
            f"{argument.parameters}: {', '.join(shipped_names())}, a GPU such as a100-sxm, a file "
            "or a run"
        )
        if not machine.gpus:
            raise InputError(f"no fit of this machine is there, as it has no GPU; name {names}")
        raise InputError(
            f"no fit of this machine is under {folder}; run {command('model fit')}, or name {names}"
        )
    key = machine_key(machine)
    others = []
    for file in files:
        parameters = load(file)
        if key is not None and parameters.machine_key == key:
            return _with_driver(parameters, machine)
        others.append((file, parameters))
    file, other = others[0]
    here = "a machine without a GPU" if key is None else key
    refit = f", or run {command('model fit')}" if machine.gpus else ""
    raise InputError(
        f"the newest fit, {file}, is of another machine ({other.machine_key or other.name}), not "
        f"of this one ({here}); name it with {argument.parameters} to use it all the same{refit}"
    )


def _with_driver(parameters: LinkParameters, machine: Machine) -> LinkParameters:
    """Return parameters with a note where they were measured with another driver."""
    before, now = parameters.driver, machine.driver
    if before is None or now is None or before == now:
        return parameters
    note = (
        f"The parameters were measured with driver {before}, and this machine has {now} now: what "
        f"copies cost may have changed, so run {command('model fit')} again."
    )
    return dataclasses.replace(parameters, note=note)


def with_contention(machine: Machine, runs: Path | None = None) -> Machine:
    """Return a machine with what its newest fit tells of GPUs that contend for host memory.

    As it is where it has no two GPUs, or no fit.
    """
    if len(machine.gpus) < _SEVERAL or machine.host_bandwidth:
        return machine
    with contextlib.suppress(InputError):
        return contended_by(machine, newest_fit(machine, runs))
    return machine


def contended_by(machine: Machine, parameters: LinkParameters) -> Machine:
    """Return a machine with the contention of parameters, where it has none of its own."""
    if machine.host_bandwidth:
        return machine
    known = {gpu.index for gpu in machine.gpus}
    nodes = {node.index for node in machine.nodes}
    found = [
        dataclasses.replace(one, gpus=tuple(gpu for gpu in one.gpus if gpu in known))
        for one in parameters.host_bandwidth
        if one.node in nodes
    ]
    few = tuple(one for one in found if len(one.gpus) >= _SEVERAL)
    return dataclasses.replace(machine, host_bandwidth=few)


def _fit_files(folder: Path) -> Iterator[Path]:
    for path in (folder / FILE, *folder.glob(f"*/{FILE}")):
        if path.is_file():
            yield path


@checked
def named_parameters(name: StrPath | None = None, runs: StrPath | None = None) -> LinkParameters:
    """Return the parameters of a file, a run, or a name that ships; without one, those kept.

    Raises
    ------
    InputError
        If there are none, or the file is broken.
    """
    runs = None if runs is None else Path(runs)
    if name is None:
        from lanescope.machine.discovery import discover, discover_without_cuda

        with contextlib.suppress(InputError):  # where CUDA sees others than the driver
            return newest_fit(discover_without_cuda(), runs)
        return newest_fit(discover(), runs)
    path, name = Path(name), os.fspath(name)
    if name and path.is_dir():
        return _of_run(path)
    if path.suffix == ".json" or path.is_file() or os.sep in name:
        return load(path)
    if name in shipped_names():
        return _shipped(name)
    run = (runs or default_runs_folder()) / name
    if name and run.is_dir():
        return _of_run(run)
    return _of_gpu(name)


def _shipped(name: str) -> LinkParameters:
    file = importlib.resources.files("lanescope.prediction") / "library" / f"{name}.json"
    return parse(file.read_text(encoding="utf-8"), name)


def _of_gpu(name: str) -> LinkParameters:
    """Return the parameters of a GPU of the library, which are derived.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    from lanescope.prediction.other_links import BASE, known_gpus, library_parameters

    if name in known_gpus():
        return library_parameters(name, _shipped(BASE))
    names = list(dict.fromkeys([*shipped_names(), *known_gpus()]))
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, files and runs"
    raise InputError(f"{argument.parameters}: no link parameters are named {shown(name)}; {hint}")


def names_parameters(name: str) -> bool:
    """Whether a name stands for link parameters and for nothing else, such as a machine file."""
    path = Path(name)
    return name in shipped_names() or path.suffix == ".json" or (path / FILE).is_file()


def shipped_names() -> list[str]:
    """Return the names of the parameters that ship with lanescope."""
    folder = importlib.resources.files("lanescope.prediction") / "library"
    return sorted(
        f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json")
    )


def _of_run(folder: Path) -> LinkParameters:
    path = folder / FILE
    if not path.is_file():
        from lanescope.prediction.points import SAMPLES  # takes long, and is seldom needed

        if (folder / SAMPLES).is_file():
            raise InputError(
                f"{folder} holds the samples of a fit and no {FILE}; run "
                f"{command('model fit {} --out DIR', str(folder))} and name DIR"
            )
        raise InputError(
            f"{folder} has no {FILE}; name the folder of a run of {command('model fit')}"
        )
    return load(path)


def require_possible(parameters: LinkParameters) -> None:
    """Refuse parameters that no link has.

    Raises
    ------
    FieldError
        With the field, and what it may be.
    """
    if parameters.copy_engines not in (1, 2):
        raise FieldError("field 'copy_engines' must be 1 or 2", "copy_engines")
    for name in _COPIES:
        direction = getattr(parameters, name)
        if direction is not None and not direction.per_byte.low > 0:
            raise FieldError("field 'per_byte' must be above zero", "per_byte", name)
    for name in ("duplex", "explicit_mapped"):
        duplex = getattr(parameters, name)
        if duplex is not None and not min(duplex.h2d_per_byte.low, duplex.d2h_per_byte.low) > 0:
            raise FieldError("both directions' 'per_byte' must be above zero", name, name)
    for field in dataclasses.fields(parameters):
        _require(getattr(parameters, field.name), (field.name,))
    for name in _COPIES:
        if (cost := getattr(parameters, name)) is not None:
            _require_alike(cost, name)
    for number, one in enumerate(parameters.host_bandwidth):
        _require_host_bandwidth(one, number)


def _require(value: Any, path: tuple[str, ...]) -> None:
    """Look at each estimate of a value by the name of its field."""
    if isinstance(value, Estimate):
        _require_estimate(value, path)
    elif isinstance(value, TimeCurve):
        for place, (size, seconds) in enumerate(zip(value.sizes, value.seconds, strict=True)):
            if seconds.high > (most := _MOST_FIXED + size * _MOST_PER_BYTE):
                where = (*path, f"seconds[{place}]")
                raise _wrong(where, seconds.high, f"seconds for {size} bytes, at most {most:.3g}")
    elif isinstance(value, tuple):
        for place, one in enumerate(value):
            _require(one, (*path[:-1], f"{path[-1]}[{place}]"))
    elif dataclasses.is_dataclass(value) and not isinstance(value, HostBandwidth):
        for field in dataclasses.fields(value):
            _require(getattr(value, field.name), (*path, field.name))


def _require_estimate(one: Estimate, path: tuple[str, ...]) -> None:
    name = path[-1]
    if name.endswith("per_byte"):
        if not (one.value >= _LEAST_PER_BYTE and one.high <= _MOST_PER_BYTE):
            wrong = one.high if one.high > _MOST_PER_BYTE else one.value
            words = f"seconds for each byte, {_LEAST_PER_BYTE:g} to {_MOST_PER_BYTE:g}"
            raise _wrong(path, wrong, f"{words}, as 2e-11 for 50 GB/s")
    elif name in _CALLS:
        if one.high > _MOST_CALL:
            raise _wrong(path, one.high, f"seconds, at most {_MOST_CALL:g}")
    elif one.high > _MOST_FACTOR:  # of a mixture
        raise _wrong(path, one.high, f"times as long, at most {_MOST_FACTOR}")


def _require_alike(cost: CopyCost, name: str) -> None:
    """Refuse times by size that have nothing to do with those of no bytes and of long copies."""
    for field, curve, least in _curves(cost):
        for place, (size, seconds) in enumerate(zip(curve.sizes, curve.seconds, strict=True)):
            flowing = size * cost.per_byte.value
            whole = cost.first.value + cost.gap.value + flowing
            few = {"whole": whole, "bytes": flowing, "": 0.0}[least] / _MOST_TIMES
            if not few <= seconds.value <= whole * _MOST_TIMES:
                raise _wrong(
                    (name, f"{field}.seconds[{place}]"),
                    seconds.value,
                    f"seconds for {size} bytes, {few:.3g} to {whole * _MOST_TIMES:.3g} by 'first', "
                    "'gap' and 'per_byte'",
                )


def _curves(cost: CopyCost) -> Iterator[tuple[str, TimeCurve, str]]:
    """Yield each curve with its name, and what it cannot be far below."""
    if cost.single is not None:
        yield "single", cost.single, "whole"
    if cost.engine is not None:
        yield "engine", cost.engine, "bytes"
    if cost.call is not None:
        yield "call", cost.call, ""
    if cost.next is not None:
        for place, curve in enumerate(cost.next.curves):
            yield f"next.curves[{place}]", curve, "bytes"


def _require_host_bandwidth(one: HostBandwidth, number: int) -> None:
    for field in ("read_gbs", "write_gbs", "both_gbs"):
        if (getattr(one, field) or 0) > _MOST_HOST_GBS:
            problem = f"GB/s (1e9 bytes a second), at most {_MOST_HOST_GBS:g}"
            raise _wrong((f"host_bandwidth[{number}]", field), getattr(one, field), problem)
    if one.spread >= 1:
        raise _wrong((f"host_bandwidth[{number}]", "spread"), one.spread, "a share below 1")
    if one.at_capacity > 1:
        raise _wrong((f"host_bandwidth[{number}]", "at_capacity"), one.at_capacity, "a share to 1")


def _wrong(path: tuple[str, ...], found: float, words: str) -> FieldError:
    problem = f"field {path[-1]!r} is {found:.4g}; it is {words}"
    return FieldError(problem, path[-1], path[0], inside=".".join(path[1:-1]) or None)
