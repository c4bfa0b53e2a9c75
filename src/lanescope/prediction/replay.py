"""The replay: predicts a workload by running the graph of its tasks over a model of the machine.

Where the equations of van Werkhoven et al. (2014) take equal parts that need nothing of one
another and one GPU, the replay takes any graph. docs/replay.md has its rules."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import inf

from lanescope.calls import checked
from lanescope.errors import InputError, argument
from lanescope.machine import HostBandwidth, Machine
from lanescope.machine.part_names import part_name
from lanescope.prediction.costs import (
    Flow,
    IntervalPart,
    ParameterValues,
    Rules,
    TaskCost,
    at_contention,
)
from lanescope.prediction.flows import Flows, Going, Server, SharedLinks, shared_links
from lanescope.prediction.graphs import (
    Cause,
    Order,
    Replayed,
    Task,
    TaskGraph,
    TaskKind,
    critical_path,
    graph_for,
    on_gpus,
)
from lanescope.prediction.other_links import unlike_link
from lanescope.prediction.parameters import Direction, LinkParameters
from lanescope.prediction.predictor import STREAMED, Method, Prediction, Workload, error_band
from lanescope.prediction.rank import Ranking
from lanescope.prediction.stored_parameters import contended_by
from lanescope.units.estimate import Estimate

#: What the parameters do not tell, where nobody says otherwise.
USUAL = Rules()
#: Sums of thousands of times are exact to a far smaller share.
_ROUNDING = 1e-9
#: Kernels that a GPU runs at the same time where they do not fill it: of compute capability 3.5 and
#: later (CUDA C++ Programming Guide, technical specifications), at least.
MOST_KERNELS = 32
_WHAT = ("h2d", "d2h", "h2d", "d2h", "kernel")  # by flow


@checked
def replay(
    graph: TaskGraph,
    parameters: LinkParameters,
    *,
    level: IntervalPart = IntervalPart.VALUE,
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
    return Simulation(graph, ParameterValues(parameters, level, rules), links).run()


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
            ParameterValues(parameters, level, rules),
            None if links is None else links.with_contended(factor),
        ).seconds()
        for level, factor in ((IntervalPart.LOW, 1 + spread), (IntervalPart.HIGH, 1 - spread))
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
        parameters = at_contention(parameters, workload.mapped_contention)
        seconds, middle = interval(graph, parameters, band, rules=self.rules)
        return Prediction(method, used, seconds, self.name, middle.busiest)

    def value(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return the time of one round alone; see `Predictor.value`."""
        used = streams if method in STREAMED else 1
        graph = graph_for(workload, method, used, order=order_for(parameters))
        parameters = at_contention(parameters, workload.mapped_contention)
        return Simulation(
            graph, ParameterValues(parameters, IntervalPart.VALUE, self.rules), None
        ).seconds()

    def least(
        self, workload: Workload, method: Method, streams: int, parameters: LinkParameters
    ) -> float:
        """Return what the copies of the slower direction take, one behind the other."""
        used = streams if method in STREAMED else 1
        rates = ParameterValues(parameters, IntervalPart.VALUE, self.rules)
        spent = {Direction.H2D: 0.0, Direction.D2H: 0.0}
        for task in graph_for(workload, method, used, order=order_for(parameters)).tasks:
            if task.kind is not TaskKind.KERNEL:
                direction = Direction(task.kind.value)
                cost = rates.copy(direction, task.bytes, task.memory)
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
    unknown
        The same of what has a speed that the machine file does not tell; taken as unlimited.
    unlike
        In what the machine's links are unlike that of the parameters, which counts; a sentence,
        empty where they are alike.
    predictions
        Of the methods of a ranking, with the numbers of streams that are best on one GPU.
    one_gpu
        The same on one GPU alone, replayed too, in the same order: times of two predictors
        cannot be compared.
    """

    gpus: int
    machine: str
    shared: tuple[str, ...]
    unknown: tuple[str, ...]
    unlike: str
    predictions: tuple[Prediction, ...]
    one_gpu: tuple[Prediction, ...]


def on_several(ranking: Ranking, gpus: int, machine: Machine) -> Several:
    """Replay the best of each method on several GPUs at once.

    Each GPU has the same parameters and a link of its own, whose limit no copy beats where the
    parameters are of a faster one; what else of the way to the host's memory several use, they
    share max-min fairly, or as it was measured. What the machine does not tell of that, the
    parameters may.

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
    known = ranking.parameters
    reached = {one: 1 / known.copies(one).per_byte.value for one in Direction}
    links = shared_links(machine, nodes, reached)
    shared = [one for one in (*links.capacity, *links.contended) if one not in links.own]
    alone = dict([*nodes.items()][:1])
    own_link = shared_links(machine, alone, reached)
    return Several(
        gpus,
        machine.name,
        _words(shared, machine),
        _words(links.unknown, machine),
        unlike_link(known, machine, nodes, shared),
        tuple(_of_gpus(ranking, best, [*nodes], links) for best in ranking.best),
        tuple(_of_gpus(ranking, best, [*alone], own_link) for best in ranking.best),
    )


def _of_gpus(
    ranking: Ranking, best: Prediction, gpus: Sequence[int], links: SharedLinks
) -> Prediction:
    """Replay a method of a ranking on some GPUs of a machine, by the ranking's parameters."""
    known, work = ranking.parameters, ranking.workload
    graph = graph_for(work, best.method, best.streams, order=order_for(known))
    band = error_band(known, work, best.method, best.streams)
    known = at_contention(known, work.mapped_contention)
    seconds, replayed = interval(on_gpus(graph, gpus), known, band, links=links)
    return Prediction(best.method, best.streams, seconds, "replay", replayed.busiest)


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


class _Event(IntEnum):
    END = 0
    FREE = 1
    FLOW = 2
    READY = 3


class Simulation:
    """Replays a graph once, event by event; `run` does it.

    Between two events every flow goes at a constant rate. An event is the end of a flow, or one of
    three that are known in advance: a task becomes ready, its bytes begin to flow, its server is
    free again.
    """

    def __init__(self, graph: TaskGraph, rates: ParameterValues, links: SharedLinks | None) -> None:
        self._graph, self._rates = graph, rates
        tasks, count = graph.tasks, len(graph.tasks)
        self._costs = [self._cost(task) for task in tasks]
        self._heap: list[tuple[float, int, int]] = []
        self._flows = Flows(rates, links)
        self._servers: dict[str, Server] = {}
        self._by_kind: dict[tuple[int, TaskKind], Server] = {}
        self._server = [self._server_of(task) for task in tasks]
        self._called = [0.0] * count
        self._ready = [0.0] * count
        self._begin = [0.0] * count
        self._end = [0.0] * count
        self._seen = [0.0] * count
        self._open_flows = [0] * count
        self._last_flow = [Flow.COMPUTING] * count
        self._computed = [0.0] * count  # when that flow of a kernel ended
        # The task that decided when each one could begin, and when that was; None: its call.
        self._because: list[Cause] = [(None, 0.0)] * count
        self._called_since: list[Cause] = [(None, 0.0)] * count
        self._waits = [1] * count  # for its call
        self._dependents: list[list[int]] = [[] for _ in tasks]
        self._followers: list[list[int]] = [[] for _ in tasks]  # in the same queue
        self._dependents_of_begin: list[list[int]] = [[] for _ in tasks]
        self._recorded = [False] * count
        self._link_tasks()
        self._next_call, self._host_free, self._host_busy = 0, 0.0, 0.0
        self._resumed: Cause = (None, 0.0)

    def run(self) -> Replayed:
        """Return what happened; once only."""
        return self._replayed(self.seconds())

    def seconds(self) -> float:
        """Return how long it took, without the account of it; once only."""
        self._call(0.0, None)
        heap, next_end = self._heap, self._flows.next_end
        handlers = (self._finish, self._free, self._flow, self._arrive)
        while True:
            ends = next_end()
            if heap and heap[0][0] < ends:
                now, task, event = heapq.heappop(heap)
                handlers[event](task, now)
            elif ends < inf:
                self._end_flow(ends)
            else:
                return max([self._host_free, *self._seen])

    def _cost(self, task: Task) -> TaskCost:
        if task.kind is TaskKind.KERNEL:
            cost = self._rates.kernel(bool(task.reads or task.writes))
            return replace(cost, fixed=self._unhidden(task)) if task.steps else cost
        direction = Direction.H2D if task.kind is TaskKind.H2D else Direction.D2H
        return self._rates.copy(direction, task.bytes, task.memory)

    def _unhidden(self, task: Task) -> float:
        """Return what of a kernel's reads, computing and writes no other of its steps hides."""
        moved = self._rates.mapped_seconds(task.reads, task.writes)
        stages = (*moved, task.seconds)
        return (sum(stages) - max(stages)) / max(task.steps or 1.0, 1.0)

    def _server_of(self, task: Task) -> Server:
        known = self._by_kind.get((task.gpu, task.kind))
        if known is None:
            known = self._by_kind[task.gpu, task.kind] = self._new_server(task)
        return known

    def _new_server(self, task: Task) -> Server:
        what = task.kind.value
        slots = 1
        if task.kind is TaskKind.KERNEL:
            slots = max(self._rates.rules.kernels_at_once, self._kernels_at_once())
        elif self._rates.parameters.copy_engines == 1:
            what = "copy"
        name = f"g{task.gpu} {what}"
        if name not in self._servers:
            by_call = self._rates.rules.by_call(self._rates.parameters)
            self._servers[name] = Server(name, slots, by_call)
        return self._servers[name]

    def _kernels_at_once(self) -> int:
        """Return how many kernels run at the same time, as some of them do not fill the GPU."""
        small = any(task.alone > task.seconds > 0 for task in self._graph.tasks)
        return MOST_KERNELS if small else 1

    def _link_tasks(self) -> None:
        """Note who waits for whom, and the order of the calls."""
        synchronises = self._rates.parameters.implicit_synchronisation
        many_waves = self._rates.rules.many_waves
        last: dict[tuple[int, int], int] = {}
        unchecked: dict[int, list[int]] = {}
        for i, task in enumerate(self._graph.tasks):
            before = set(task.after)
            for j in task.after:
                self._recorded[j] = True
            lane = (task.gpu, task.stream)
            if lane in last and last[lane] not in before:
                before.add(last[lane])
                self._queued_behind(i, last[lane], before)
            last[lane] = i
            if synchronises and task.kind is TaskKind.KERNEL:
                unchecked.setdefault(task.gpu, []).append(i)
            if synchronises and task.kind is TaskKind.D2H:
                # Copies before it on the same engine have waited for the kernels before them.
                for j in unchecked.pop(task.gpu, ()):
                    if many_waves:
                        before.add(j)
                    else:
                        self._dependents_of_begin[j].append(i)
                        self._waits[i] += 1
            for j in before:
                self._dependents[j].append(i)
            self._waits[i] += len(before)
            self._server[i].expect(i)

    def _queued_behind(self, i: int, j: int, before: set[int]) -> None:
        """Let a copy join the queue with the one before it, if both are on one engine's stream.

        They are handed to the engine together: it serves them one after the other, and nothing
        gets between them that is ready later.
        """
        copies = TaskKind.KERNEL not in (self._graph.tasks[i].kind, self._graph.tasks[j].kind)
        if copies and self._server[i] is self._server[j]:
            before.remove(j)
            self._followers[j].append(i)
            self._waits[i] += 1

    def _call(self, now: float, resumed_by: int | None) -> None:
        """Make calls from now on until one holds the host, or all are made."""
        tasks, costs, event = self._graph.tasks, self._costs, self._rates.event_call
        began = now
        self._resumed = (resumed_by, began)
        for i in range(self._next_call, len(tasks)):
            now += event * len(tasks[i].after) + costs[i].call
            self._called[i] = now
            self._called_since[i] = (resumed_by, began)
            if now + costs[i].before > self._ready[i]:
                self._ready[i] = now + costs[i].before
                self._because[i] = (None, now)
            self._let_go(i)
            if tasks[i].pageable:
                self._next_call = i + 1
                break
            now += event * self._recorded[i]
        else:
            self._next_call = len(tasks)
        self._host_free = now
        self._host_busy += now - began

    def _let_go(self, i: int) -> None:
        """Task i waits for one thing less."""
        self._waits[i] -= 1
        if self._waits[i] == 0:
            heapq.heappush(self._heap, (self._ready[i], i, _Event.READY))

    def _arrive(self, i: int, now: float) -> None:
        server = self._server[i]
        server.arrive(i)
        for j in self._followers[i]:
            self._depend(j, i, now, now)
        self._serve(server, now)

    def _serve(self, server: Server, now: float) -> None:
        while (i := server.take(now)) is not None:
            self._begin[i] = now
            if now > self._ready[i] and server.released_by is not None:
                self._because[i] = (server.released_by, server.released_at)
            if server.by_call:
                server.released_by, server.released_at = i, now
            for j in self._dependents_of_begin[i]:
                self._depend(j, i, now, now + self._costs[j].before)
            fixed = self._costs[i].fixed + self._opposed_gap(i)
            if fixed > 0:
                heapq.heappush(self._heap, (now + fixed, i, _Event.FLOW))
            else:
                self._flow(i, now)

    def _opposed_gap(self, i: int) -> float:
        """How much longer a copy holds its engine, as bytes go the other way when it begins."""
        task = self._graph.tasks[i]
        if task.kind is TaskKind.KERNEL or task.pageable:
            return 0.0
        to_gpu = task.kind is TaskKind.H2D
        opposite = self._by_kind.get((task.gpu, TaskKind.D2H if to_gpu else TaskKind.H2D))
        if opposite is not None and opposite is not self._server[i] and opposite.active:
            return self._rates.opposed_gap(False, task.bytes, self._costs[i].flowing)
        writing = self._flows.writing(task.gpu) if to_gpu else 0.0
        if not writing:
            return 0.0
        return writing * self._rates.opposed_gap(True, task.bytes, self._costs[i].flowing)

    def _flow(self, i: int, now: float) -> None:
        """Let what task i moves and computes flow from now on."""
        flows = self._flows_of(i)
        if not flows:
            heapq.heappush(self._heap, (now, i, _Event.END))
            return
        self._flows.add(flows, now)
        self._open_flows[i] = len(flows)

    def _flows_of(self, i: int) -> list[Going]:
        task = self._graph.tasks[i]
        if task.kind is not TaskKind.KERNEL:
            flowing = self._costs[i].flowing
            if flowing <= 0:
                return []
            kind = Flow.COPY_IN if task.kind is TaskKind.H2D else Flow.COPY_BACK
            return [Going(i, task.gpu, kind, flowing, task.bytes / flowing)]
        flows = []
        if task.seconds > 0:
            most = min(1.0, task.seconds / task.alone) if task.alone else 1.0
            flows.append(Going(i, task.gpu, Flow.COMPUTING, task.seconds, 0.0, most))
        if task.reads or task.writes:
            moved = self._rates.mapped_seconds(task.reads, task.writes)
            kinds = ((Flow.READING, task.reads), (Flow.WRITING, task.writes))
            for seconds, (kind, size) in zip(moved, kinds, strict=True):
                if seconds > 0:
                    alone = max(task.seconds, task.alone)
                    most = min(1.0, seconds / alone) if alone > 0 else 1.0
                    flows.append(Going(i, task.gpu, kind, seconds, size / seconds, most))
        return flows

    def _end_flow(self, now: float) -> None:
        """End the flow that ends next; its task is done if that was the last of it."""
        flow = self._flows.end_next()
        i = flow.task
        # what was to end with the computing counts where most of the time is spent behind it
        if flow.most == 1 or now - self._computed[i] > self._computed[i] - self._begin[i]:
            self._last_flow[i] = flow.kind
        if flow.kind is Flow.COMPUTING:  # what is spread over that time ends with it
            self._last_flow[i], self._computed[i] = flow.kind, now
        self._open_flows[i] -= 1
        if self._open_flows[i] == 0:
            self._finish(i, now)

    def _finish(self, i: int, now: float) -> None:
        """Task i is done: free its server, and let go what waits for it."""
        tasks, costs = self._graph.tasks, self._costs
        self._end[i] = now
        self._seen[i] = observed = now + costs[i].after
        for j in self._dependents[i]:
            if self._server[j] is not self._server[i]:
                ready = observed + costs[j].before
            elif tasks[i].kind is TaskKind.KERNEL and tasks[i].stream == tasks[j].stream:
                ready = now + self._rates.kernel_gap
            else:
                ready = now
            self._depend(j, i, now, ready)
        if costs[i].recovery > 0:
            heapq.heappush(self._heap, (now + costs[i].recovery, i, _Event.FREE))
        else:
            self._free(i, now)
        if tasks[i].pageable:
            self._call(max(now, observed - costs[i].returns_early), i)

    def _depend(self, j: int, i: int, now: float, ready: float) -> None:
        """Task j need not wait for task i any longer, and can begin at `ready` because of it."""
        if ready > self._ready[j]:
            self._ready[j] = ready
            self._because[j] = (i, now)
        self._let_go(j)

    def _free(self, i: int, now: float) -> None:
        server = self._server[i]
        server.release(i, now)
        self._serve(server, now)

    def _replayed(self, seconds: float) -> Replayed:
        busy = {"calls": self._host_busy}
        busy |= {server.name: server.busy for server in self._servers.values()}
        return Replayed(
            self._graph,
            seconds,
            tuple(self._called),
            tuple(self._begin),
            tuple(self._end),
            tuple(self._seen),
            busy,
            critical_path(
                seconds,
                self._last_task(seconds),
                self._resumed,
                self._because,
                self._called_since,
                self._what,
            ),
        )

    def _last_task(self, seconds: float) -> int | None:
        """The task whose end the host saw last; None where its own calls took longer."""
        last = max(range(len(self._seen)), key=self._seen.__getitem__, default=None)
        return last if last is not None and self._seen[last] >= seconds else None

    def _what(self, i: int) -> str:
        kind = self._graph.tasks[i].kind
        return _WHAT[self._last_flow[i]] if kind is TaskKind.KERNEL else kind.value
