"""The replay: predicts a workload by running the graph of its tasks over a model of the machine.

Where the equations of van Werkhoven et al. (2014) take equal parts that need nothing of one
another and one GPU, the replay takes any graph. docs/replay.md has its rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from lanescope.calls import checked
from lanescope.model.overlap.errors import error_share
from lanescope.model.overlap.graphs import Order, graph_for
from lanescope.model.overlap.methods import STREAMED, Method
from lanescope.model.overlap.predictor import Prediction
from lanescope.model.overlap.rates import Level, Rates, Rules
from lanescope.model.overlap.replayed import Replayed
from lanescope.model.overlap.shared_links import SharedLinks
from lanescope.model.overlap.simulation import Simulation
from lanescope.model.overlap.tasks import TaskGraph
from lanescope.model.overlap.workload import Workload
from lanescope.model.transfer.estimate import Estimate
from lanescope.model.transfer.parameters import LinkParameters

#: What the parameters do not tell, where nobody says otherwise.
USUAL = Rules()


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
    error: float,
    *,
    rules: Rules = USUAL,
    links: SharedLinks | None = None,
) -> tuple[Estimate, Replayed]:
    """Return the time of a graph with its interval, and its replay at the middle of all of them.

    All parameters are taken at the low ends of their intervals together, and at the high ends;
    `error` is the share of the time by which the model may be off even so.
    """
    middle = replay(graph, parameters, rules=rules, links=links)
    low, high = (
        Simulation(graph, Rates(parameters, level, rules), links).seconds()
        for level in (Level.LOW, Level.HIGH)
    )
    times = (low, middle.seconds, high)
    return (
        Estimate(middle.seconds, min(times) * max(0.0, 1 - error), max(times) * (1 + error)),
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
        error = error_share(parameters, method)
        seconds, middle = interval(graph, parameters, error, rules=self.rules)
        return Prediction(method, used, seconds, self.name, middle.busiest)

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the time of one round alone; see `Predictor.value`."""
        used = streams if method in STREAMED else 1
        graph = graph_for(workload, method, used, order=order_for(parameters))
        return Simulation(graph, Rates(parameters, Level.VALUE, self.rules), None).seconds()
