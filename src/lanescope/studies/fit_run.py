"""The run of a fit: its folder, and what it measures and shows of several GPUs at once.

Layout::

    manifest.json          verb, command, start, state
    machine.toml           the machine, as a machine file
    fit.json               what is known of the link without timing it
    transfers.parquet      all samples, also of what the fit does not use
    contention.json        what copies of several GPUs at once got; of machines with several
    link-parameters.json   the parameters

What GPUs contend for is host memory: each GPU alone, each pair, three and all of them copy to the
GPU, from it, and both ways.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from lanescope.codec.fields import build
from lanescope.codec.files import fields_of, read_json
from lanescope.copies import Experiment
from lanescope.copies.experiment import experiment_of
from lanescope.document.blocks import Bullets, Column, Group, Kind, Table, Text
from lanescope.engine.base import Backend
from lanescope.engine.sampling import Plan, measure_one
from lanescope.errors import InputError, command
from lanescope.machine import HostBandwidth, Machine
from lanescope.machine.part_names import part_name
from lanescope.prediction.contention import (
    NotTogether,
    Together,
    expected_gbs,
    fit_contention,
    key_of,
    together_of,
)
from lanescope.prediction.fit import LinkFacts, fit
from lanescope.prediction.flows import host_copy
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.prediction.points import SAMPLES, MeasuredPoint, read_measured, write_measured
from lanescope.prediction.stored_parameters import dumps, link_text, machine_key, parse
from lanescope.report.format import gbs_text
from lanescope.report.terminal import host_bandwidth_text
from lanescope.results import Result
from lanescope.store.folder import RunFolder

FACTS = "fit.json"
CONTENTION = "contention.json"
#: After so many points the samples are written, so that a kill leaves most of them.
_POINTS_A_WRITE = 60
#: So many of the sets that have no numbers are named.
_NAMED = 3
_Value = str | int | float | None
#: Over large sets and over small ones, and seconds of sampling for one set in each.
ROUNDS, _SMALL_ROUNDS, _BUDGET_SECONDS = 4, 2, 0.1
_PAIR, _THREE = 2, 3
_WAYS = ((Direction.H2D,), (Direction.D2H,), tuple(Direction))


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


def store_samples(run: RunFolder, facts: LinkFacts, points: Iterable[MeasuredPoint]) -> None:
    """Write samples as they come, and what is known besides; raises `InputError`."""
    measured: list[MeasuredPoint] = []
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


def fit_folder(folder: Path) -> tuple[LinkParameters, tuple[MeasuredPoint, ...], Sets]:
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


def contention_blocks(
    sets: Sets, contention: Sequence[HostBandwidth]
) -> list[Table | Text | Bullets]:
    """Return the rates of all sets, what is expected of them, and what GPUs contend for."""
    found: list[Table | Text | Bullets] = [_table(sets.sets, contention)] if sets.sets else []
    sentences = [contention_text(one) for one in contention]
    if sets.sets and not sentences:
        sentences = ["No set of GPUs got less than each of them alone: they contend for nothing."]
    found += [Text(sentence) for sentence in sentences]
    if sets.failed:
        few = len(sets.failed) == 1
        missing = "One set has no numbers" if few else f"{len(sets.failed)} sets have no numbers"
        found.append(Text(f"{missing}; run the fit again when nobody else uses the machine:"))
        found.append(Bullets([f"{one.title}: {one.why}" for one in sets.failed[:_NAMED]]))
    return found


def contention_text(one: HostBandwidth) -> str:
    """Return what some GPUs contend for, in a sentence."""
    shared = (
        ""
        if one.both_gbs is None
        else f"; both ways a copy to it gets {one.write_weight:.2f} times as much as one from it"
    )
    return (
        f"The memory of {part_name('h', one.node)}, {host_bandwidth_text(one)}{shared}. The "
        "copies of a new run are expected within the spread in 95 of 100 cases, all together."
    )


def _table(sets: Sequence[Together], contention: Sequence[HostBandwidth]) -> Table:
    columns = (
        Column("GPUs"),
        Column("directions"),
        Column("to the GPUs GB/s", Kind.GBS, "Sum, median of all rounds"),
        Column("from them GB/s", Kind.GBS, "Sum, median of all rounds"),
        Column("rounds", Kind.COUNT),
        Column("most and least, sum GB/s", Kind.FIGURES),
        Column("without contention GB/s", Kind.GBS, "What each gets alone, in sum"),
        Column("by this fit, sum GB/s", Kind.FIGURES, "With the spread"),
    )
    return Table(
        "Copies of several GPUs at once (measured)",
        columns,
        [Group(list(_rows(sets, contention)))],
    )


def _rows(
    sets: Sequence[Together], contention: Sequence[HostBandwidth]
) -> Iterator[tuple[_Value, ...]]:
    by_key: dict[object, list[Together]] = defaultdict(list)
    for one in sets:
        by_key[one.node, key_of(one)].append(one)
    for same in by_key.values():
        first = same[0]
        into, back = (
            float(np.median([one.gbs(way) for one in same])) if way in first.directions else None
            for way in Direction
        )
        sums = [one.gbs() for one in same]
        several = len(first.gpus) > 1
        yield (
            _names(first.gpus),
            _directions(first),
            into,
            back,
            len(same),
            f"{gbs_text(min(sums))} to {gbs_text(max(sums))}",
            sum(expected_gbs(first, sets, ())) if several else None,
            _fitted(first, sets, contention) if several else None,
        )


def _names(gpus: Iterable[int]) -> str:
    return ", ".join(part_name("g", gpu) for gpu in sorted(gpus))


def _directions(one: Together) -> str:
    into, back = ({r.gpu for r in one.rates if r.direction is way} for way in Direction)
    if into == back:
        return "both"
    if into and back:
        return f"to {_names(into)}; from {_names(back)}"
    return "to the GPU" if into else "from it"


def _fitted(one: Together, sets: Sequence[Together], contention: Sequence[HostBandwidth]) -> str:
    """Return the sum that is expected, with the spread where anything may hold it up."""
    alone = sum(expected_gbs(one, sets, ()))
    gbs = sum(expected_gbs(one, sets, contention))
    spread = max((c.spread for c in contention if len(one.gpus & set(c.gpus)) > 1), default=0.0)
    low, high = gbs * (1 - spread), min(gbs * (1 + spread), alone)
    return f"{gbs_text(gbs)} ({gbs_text(low)} to {gbs_text(high)})"


def _small_sets(machine: Machine) -> list[Experiment]:
    """Return each GPU alone, and each pair where there are more, in each direction and in both.

    GPUs copy from and to the memory of their nearest node; there are no sets for a node with
    fewer than two of them.
    """
    found: list[Experiment] = []
    for node, gpus in _by_node(machine).items():
        pairs = combinations(gpus, _PAIR) if len(gpus) > _PAIR else ()
        found += _each_way(node, [*combinations(gpus, 1), *pairs])
    return found


def _large_sets(machine: Machine) -> list[Experiment]:
    """Return three of four GPUs or more, and all, in each direction and in both; and by halves.

    Of these one half copies to the GPUs and the other one from them.
    """
    found: list[Experiment] = []
    for node, gpus in _by_node(machine).items():
        count = len(gpus)
        three = [tuple(gpus[i * count // 3] for i in range(3))] if count > _THREE else []
        found += _each_way(node, [*three, tuple(gpus)])
        halves = [(Direction.H2D, gpus[: count // 2]), (Direction.D2H, gpus[count // 2 :])]
        found.append(experiment_of([host_copy(g, node, way) for way, half in halves for g in half]))
    return found


def _each_way(node: int, groups: Sequence[tuple[int, ...]]) -> Iterator[Experiment]:
    for ways in _WAYS:
        for group in groups:
            yield experiment_of([host_copy(gpu, node, way) for way in ways for gpu in group])


def sets_by_round(
    machine: Machine, backends: Sequence[Backend]
) -> list[tuple[Backend, Experiment]]:
    """Return all sets, with the backends that measure them: a round each.

    A set gets up to 7 % more or less in other pages, so each backend has memory of its own.
    """
    found: list[tuple[Backend, Experiment]] = []
    for number, backend in enumerate(backends):
        small = _small_sets(machine) if number < _SMALL_ROUNDS else []
        found += [(backend, one) for one in (*small, *_large_sets(machine))]
    return found


def measure_sets(
    sets: Iterable[tuple[Backend, Experiment]], machine: Machine
) -> Iterator[Together | NotTogether]:
    """Measure sets one after the other.

    Yields
    ------
    Together or NotTogether
        What a set got, or why that is not known: a GPU or the host was busy.
    """
    plan = Plan(budget_seconds=_BUDGET_SECONDS, verify=False)
    for backend, experiment in sets:
        results: list[Result] = []
        measure_one(experiment, backend, machine, plan, results.append)
        found = together_of(results[0])
        verdict = results[0].not_measured
        why = "not all of its copies ran at once" if verdict is None else verdict.reason
        yield found or NotTogether(experiment.title, why)


def _by_node(machine: Machine) -> dict[int, list[int]]:
    first = machine.nodes[0].index
    found: dict[int, list[int]] = defaultdict(list)
    for gpu in machine.gpus:
        if gpu.unavailable is None:
            found[first if gpu.node is None else gpu.node].append(gpu.index)
    return {node: gpus for node, gpus in found.items() if len(gpus) >= _PAIR}
