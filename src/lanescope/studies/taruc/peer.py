"""GPU to GPU: peer, by unified addresses, staged; every pair, and inside each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lanescope.copies.copy import Copy, Engine
from lanescope.copies.experiment import Experiment, Purpose
from lanescope.copies.operation import Route
from lanescope.copies.patterns import reach_each_other
from lanescope.copies.place import Memory, Place
from lanescope.machine import Gpu, Machine
from lanescope.studies.taruc import axes
from lanescope.studies.taruc.axes import EVERYTHING, Only, Planned, fitting, memory_of
from lanescope.studies.taruc.parameters import Parameters

PREFIX = "peer"


def peer_experiments(
    machine: Machine,
    parameters: Parameters,
    only: Only = EVERYTHING,
    free_bytes: Mapping[str, int] | None = None,
) -> Planned:
    """Return copies: GPU x GPU x route x size; of two that cannot reach each other, staged.

    Inside one GPU nothing is staged.
    """
    gpus = axes.gpus_of(machine, parameters, only)
    found = fitting(_points(parameters, gpus), free_bytes or memory_of(machine), PREFIX)
    apart = [
        f"{a.id} and {b.id}"
        for i, a in enumerate(gpus)
        for b in gpus[i + 1 :]
        if not reach_each_other(a, b)
    ]
    notes = found.notes
    if apart:
        pairs = "; ".join(apart)
        notes += (f"{PREFIX}: staged alone where GPUs cannot reach each other's memory: {pairs}.",)
    return Planned(found.experiments, notes)


def _points(parameters: Parameters, gpus: tuple[Gpu, ...]) -> Iterator[Experiment]:
    for source in gpus:
        for destination in gpus:
            for route in _routes(source, destination):
                for size in axes.sizes_of(parameters.peer, parameters):
                    yield _point(source, destination, route, size)


def _routes(source: Gpu, destination: Gpu) -> tuple[Route, ...]:
    if source is destination:
        return (Route.PEER, Route.UVA)
    return tuple(Route) if reach_each_other(source, destination) else (Route.STAGED,)


def _point(source: Gpu, destination: Gpu, route: Route, size: int) -> Experiment:
    ends = (Place(source.id, Memory.DEVICE), Place(destination.id, Memory.DEVICE))
    return Experiment(
        name=f"{PREFIX}/{source.id}-{destination.id}/{route}/{size}",
        title=f"{source.id} → {destination.id}, {route}, {size} B",
        copies=(Copy(*ends, size, Engine.CE, route=route),),
        purpose=Purpose.PEER,
    )
