"""The replay: predicts a workload by running the graph of its tasks over a model of the machine.

Where the equations of van Werkhoven et al. (2014) take equal parts that need nothing of one
another and one GPU, the replay takes any graph. docs/replay.md has its rules."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from lanescope.calls import checked
from lanescope.errors import InputError, argument
from lanescope.machine import HostBandwidth, Machine
from lanescope.machine.part_names import part_name
from lanescope.prediction.costs import Level, Rates, Rules
from lanescope.prediction.flows import SharedLinks, shared_links
from lanescope.prediction.graphs import Order, Replayed, TaskGraph, TaskKind, graph_for, on_gpus
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.prediction.predictor import STREAMED, Method, Prediction, Workload, error_band
from lanescope.prediction.rank import Ranking
from lanescope.prediction.simulation import Simulation
from lanescope.prediction.stored_parameters import contended_by
from lanescope.units.estimate import Estimate

#: What the parameters do not tell, where nobody says otherwise.
USUAL = Rules()
#: Sums of thousands of times are exact to a far smaller share.
_ROUNDING = 1e-9


@checked
def replay(
    graph: TaskGraph,
    parameters: LinkParameters,
    *,
    level: Level = Level.VALUE,
    rules: Rules = USUAL,
    links: SharedLinks | None = None,
) -> Replayed:
    """Run a graph over a model of the machine, once.

    Parameters
    ----------
    graph
        Its GPUs all have the same parameters.
    level
        Which number of the interval of each parameter is taken.
    links
        What transfers of several GPUs compete for; None: nothing.

    Raises
    ------
    NotMeasuredError
        If the parameters lack what a task takes (mapped or pageable memory).
    """
    return Simulation(graph, Rates(parameters, level, rules), links).run()


def interval(
    graph: TaskGraph,
    parameters: LinkParameters,
    band: tuple[float, float],
    *,
    rules: Rules = USUAL,
    links: SharedLinks | None = None,
) -> tuple[Estimate, Replayed]:
    """Return the time of a graph with its interval, and its replay at the middle of all of them.

    All parameters are taken at the low ends of their intervals together, and at the high ends;
    `band` has the factors by which these two times are moved, as the model may be off even so.
    """
    middle = replay(graph, parameters, rules=rules, links=links)
    spread = 0.0 if links is None else links.spread
    low, high = (
        Simulation(
            graph,
            Rates(parameters, level, rules),
            None if links is None else links.with_contended(factor),
        ).seconds()
        for level, factor in ((Level.LOW, 1 + spread), (Level.HIGH, 1 - spread))
    )
    times = (low, middle.seconds, high)
    return (
        Estimate(
            middle.seconds,
            min(middle.seconds, min(times) * band[0]),
            max(middle.seconds, max(times) * band[1]),
        ),
        middle,
    )


def order_for(parameters: LinkParameters) -> Order:
    """Return in which order a program should hand over independent parts.

    With a single queue a copy back keeps the copies in behind it from starting: they go first.
    """
    single = parameters.copy_engines == 1 or parameters.implicit_synchronisation
    return Order.BREADTH if single else Order.DEPTH


@dataclass(slots=True)
@checked
class Replay:
    """The predictor of that name.

    Attributes
    ----------
    rules
        What the parameters do not tell.
    """

    name: str = "replay"
    is_slow: bool = True
    rules: Rules = USUAL

    def predict(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> Prediction:
        """Return the time of one round; see `Predictor.predict`."""
        used = streams if method in STREAMED else 1
        graph = graph_for(workload, method, used, order=order_for(parameters))
        band = error_band(parameters, workload, method, used)
        seconds, middle = interval(graph, parameters, band, rules=self.rules)
        return Prediction(method, used, seconds, self.name, middle.busiest)

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the time of one round alone; see `Predictor.value`."""
        used = streams if method in STREAMED else 1
        graph = graph_for(workload, method, used, order=order_for(parameters))
        return Simulation(graph, Rates(parameters, Level.VALUE, self.rules), None).seconds()

    def least(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return what the copies of the slower direction take, one behind the other."""
        used = streams if method in STREAMED else 1
        rates = Rates(parameters, Level.VALUE, self.rules)
        spent = {Direction.H2D: 0.0, Direction.D2H: 0.0}
        for task in graph_for(workload, method, used, order=order_for(parameters)).tasks:
            if task.kind is not TaskKind.KERNEL:
                direction = Direction(task.kind.value)
                cost = rates.copy(direction, task.bytes, task.pageable, task.fresh)
                spent[direction] += cost.fixed + cost.flowing
        return max(spent.values()) * (1 - _ROUNDING)


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
    one_gpu
        The same on one GPU alone, replayed too, in the same order: times of two predictors
        cannot be compared.
    """

    gpus: int
    machine: str
    shared: tuple[str, ...]
    predictions: tuple[Prediction, ...]
    one_gpu: tuple[Prediction, ...]


def on_several(ranking: Ranking, gpus: int, machine: Machine) -> Several:
    """Replay the best of each method on several GPUs at once.

    Each GPU has the same parameters and a link of its own; what else of the way to the host's
    memory several use, they share max-min fairly, or as it was measured. What the machine does not
    tell of that, the parameters may.

    Raises
    ------
    InputError
        If the machine has not so many GPUs.
    """
    if len(machine.gpus) < gpus:
        raise InputError(
            f"{argument.gpus} {gpus}: {machine.name} has {len(machine.gpus)}; name a machine that "
            f"has as many with {argument.machine}"
        )
    machine = contended_by(machine, ranking.parameters)
    first = machine.nodes[0].index
    nodes = {g.index: first if g.node is None else g.node for g in machine.gpus[:gpus]}
    links = shared_links(machine, nodes)
    known = ranking.parameters
    predictions = []
    for best in ranking.best:
        graph = graph_for(ranking.workload, best.method, best.streams, order=order_for(known))
        band = error_band(known, ranking.workload, best.method, best.streams)
        seconds, replayed = interval(on_gpus(graph, gpus), known, band, links=links)
        busiest = replayed.busiest
        predictions.append(Prediction(best.method, best.streams, seconds, "replay", busiest))
    alone = Replay()
    return Several(
        gpus,
        machine.name,
        _words([*links.capacity, *links.contended], machine),
        tuple(predictions),
        tuple(
            alone.predict(ranking.workload, best.method, best.streams, known)
            for best in ranking.best
        ),
    )


def _words(resources: Iterable[Hashable], machine: Machine) -> tuple[str, ...]:
    """Return each memory and each link once, whatever its direction."""
    return tuple(dict.fromkeys(_word(resource, machine) for resource in resources))


def _word(resource: Hashable, machine: Machine) -> str:
    match resource:
        case ("memory", str(part)):
            return f"the memory of {part}"
        case ("contention", int(number), str()):
            return _contention_words(machine.host_bandwidth[number])
        case (str(a), str(b), _, _):
            return f"the link between {a} and {b}"
    return str(resource)


def _contention_words(one: HostBandwidth) -> str:
    most = "at most " if one.at_capacity < 1 else ""
    known = ", ".join(f"{name} {most}{gbs:.0f} GB/s" for name, gbs in one.rates)
    return f"the memory of {part_name('h', one.node)} ({len(one.gpus)} GPUs {known})"
