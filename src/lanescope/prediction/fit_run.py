"""The folder of a fit: its samples, what they were fitted to, and the machine.

Layout::

    manifest.json          verb, command, start, state
    machine.toml           the machine, as a machine file
    fit.json               what is known of the link without timing it
    transfers.parquet      all samples, also of what the fit does not use
    contention.json        what copies of several GPUs at once got; of machines with several
    link-parameters.json   the parameters
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

from lanescope.argument_names import command
from lanescope.codec.fields import build
from lanescope.codec.files import fields_of, read_json
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.prediction.contention import NotTogether, Together, fit_contention
from lanescope.prediction.fit import LinkFacts, fit
from lanescope.prediction.parameters import LinkParameters
from lanescope.prediction.points import SAMPLES, Measured, read_measured, write_measured
from lanescope.prediction.stored_parameters import dumps, link_text, machine_key, parse
from lanescope.store.folder import RunFolder

FACTS = "fit.json"
CONTENTION = "contention.json"
#: After so many points the samples are written, so that a kill leaves most of them.
_POINTS_A_WRITE = 60


@dataclass(frozen=True, slots=True)
class Sets:
    """The sets of copies of a fit, in the order they were measured, and those without numbers."""

    sets: tuple[Together, ...]
    failed: tuple[NotTogether, ...] = ()


NO_SETS = Sets(())


def facts_of(machine: Machine, gpu: int, command: str) -> LinkFacts:
    """Return what is known of a GPU's link without timing it."""
    found = machine.gpu(gpu)
    return LinkFacts(
        name=f"{found.name} {found.id}",
        gpu=found.name,
        link=link_text(machine, gpu),
        source=f"{command} on {date.today():%Y-%m-%d}",
        copy_engines=found.copy_engines or 1,
        machine_key=machine_key(machine, gpu),
        day=f"{date.today():%Y-%m-%d}",
        memory_bytes=found.memory_bytes,
        driver=machine.driver,
    )


def store_samples(run: RunFolder, facts: LinkFacts, points: Iterable[Measured]) -> None:
    """Write samples as they come, and what is known besides; raises `InputError`."""
    measured: list[Measured] = []
    run.write_json(FACTS, facts)
    try:
        for one in points:
            measured.append(one)
            if len(measured) % _POINTS_A_WRITE == 0:
                run.write(SAMPLES, partial(write_measured, measured))
    finally:
        if measured:
            run.write(SAMPLES, partial(write_measured, measured))


def store_contention(run: RunFolder, sets: Iterable[Together | NotTogether]) -> None:
    """Write what sets of copies got, as they come; raises `InputError`."""
    measured: list[Together] = []
    failed: list[NotTogether] = []
    for one in sets:
        if isinstance(one, Together):
            measured.append(one)
        else:
            failed.append(one)
        run.write_json(CONTENTION, Sets(tuple(measured), tuple(failed)))


def fit_folder(folder: Path) -> tuple[LinkParameters, tuple[Measured, ...], Sets]:
    """Fit the samples of a folder, again if that was done before.

    Returns
    -------
    tuple
        The parameters, the samples, and the sets of copies of several GPUs.

    Raises
    ------
    InputError
        If the folder has no samples, or too few of them, or they contradict each other.
    """
    if not (folder / SAMPLES).is_file() or not (folder / FACTS).is_file():
        raise InputError(
            f"{folder} holds no fit: it has no {SAMPLES} and {FACTS}; name a run of "
            f"{command('model fit')}"
        )
    measured, facts = read_measured(folder / SAMPLES), _facts(folder / FACTS)
    sets = _sets(folder / CONTENTION)
    try:
        contention = fit_contention(sets.sets, facts.source)
        parameters = replace(fit(measured, facts), host_bandwidth=contention)
        parse(dumps(parameters), "the fit")  # numbers that no link has are none
    except (ArithmeticError, LookupError, ValueError, InputError) as error:
        own = isinstance(error, InputError)
        why = str(error) if own else "its points are too few, or contradict each other"
        raise InputError(f"{folder / SAMPLES} cannot be fitted: {why}") from error
    return parameters, measured, sets


def _sets(path: Path) -> Sets:
    if not path.is_file():
        return NO_SETS
    with fields_of(path, f"name another run, or run {command('model fit')} again"):
        return build(Sets, read_json(path, inner=1))


def _facts(path: Path) -> LinkFacts:
    with fields_of(path, f"name another run, or run {command('model fit')} again"):
        return build(LinkFacts, read_json(path, inner=1))
