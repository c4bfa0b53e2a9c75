"""One workload on several GPUs of a machine at once, and what they share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.model.overlap.errors import error_share
from lanescope.model.overlap.graphs import graph_for, on_gpus
from lanescope.model.overlap.predictor import Prediction
from lanescope.model.overlap.rank import Ranking
from lanescope.model.overlap.replay import interval, order_for
from lanescope.model.overlap.shared_links import shared_links

_LEAST, _MOST = 2, 16


@dataclass(frozen=True, slots=True)
class Several:
    """A round on each of several GPUs, begun by one thread.

    Attributes
    ----------
    gpus
        How many there are; the first ones of the machine.
    machine
        Its name.
    shared
        What its GPUs share on their way to host memory, in words; empty: nothing whose speed is
        known.
    predictions
        Of the methods of a ranking, with the numbers of streams that are best on one GPU.
    """

    gpus: int
    machine: str
    shared: tuple[str, ...]
    predictions: tuple[Prediction, ...]


def on_several(ranking: Ranking, gpus: int, machine: Machine) -> Several:
    """Replay the best of each method on several GPUs at once.

    Each GPU has the same parameters and a link of its own; what else of the way to the host's
    memory several use, they share max-min fairly.

    Raises
    ------
    InputError
        If the machine has not so many GPUs.
    """
    if not _LEAST <= gpus <= _MOST:
        raise InputError(f"--gpus {gpus} is not {_LEAST} to {_MOST}")
    if len(machine.gpus) < gpus:
        raise InputError(
            f"--gpus {gpus}: {machine.name} has {len(machine.gpus)}; name a machine that has as "
            "many with --topology"
        )
    first = machine.nodes[0].index
    nodes = {g.index: first if g.node is None else g.node for g in machine.gpus[:gpus]}
    links = shared_links(machine, nodes)
    known = ranking.parameters
    predictions = []
    for best in ranking.best:
        graph = graph_for(ranking.workload, best.method, best.streams, order=order_for(known))
        error = error_share(known, best.method)
        seconds, replayed = interval(on_gpus(graph, gpus), known, error, links=links)
        busiest = replayed.busiest
        predictions.append(Prediction(best.method, best.streams, seconds, "replay", busiest))
    return Several(gpus, machine.name, _words(links.capacity), tuple(predictions))


def _words(resources: Iterable[Hashable]) -> tuple[str, ...]:
    """Return each memory and each link once, whatever its direction."""
    return tuple(dict.fromkeys(_word(resource) for resource in resources))


def _word(resource: Hashable) -> str:
    match resource:
        case ("memory", str(part)):
            return f"the memory of {part}"
        case (str(a), str(b), _, _):
            return f"the link between {a} and {b}"
    return str(resource)
