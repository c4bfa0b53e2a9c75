"""Processes of GPUs on other nodes, over MPI: rank 0 measures, the others run the processes.

Messages are objects in JSON: ``id`` is the process that one is for (0 is the rank itself), ``do``
what it shall do. Each rank reports first what its node is.
"""

from __future__ import annotations

import dataclasses
import json
import select
import sys
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from lanescope._version import __version__
from lanescope.engine.native import busy_gpus
from lanescope.engine.process import (
    ANSWER_SECONDS,
    ChildProcess,
    GpuProcess,
    Message,
    no_answer,
    require_done,
    start,
)
from lanescope.errors import BusyError, ExitCode, LanescopeError, MissingPartError, NotMeasuredError
from lanescope.fleet.ranks import Alone, MpiRanks, Ranks, is_first_of_node
from lanescope.machine import Machine, discover
from lanescope.machine.files import dumps_machine, parse_machine
from lanescope.machine.nvml import Nvml
from lanescope.machine.part_names import node_of, number_on
from lanescope.machine.several import cluster_of
from lanescope.studies.node import host_name

#: What a rank may take to look at its node.
_READY_SECONDS = 60.0
#: What one that works may take to say the time.
_ALIVE_SECONDS = 2.0
#: Of so many questions for the time the fastest counts.
_PINGS = 16
#: Clocks drift by less than they are known in this time.
_CLOCK_SECONDS = 0.05
#: Stands for the rank itself, where the number of a process does.
_ITSELF = 0


class RemoteNodes:
    """The nodes of a run, as rank 0 knows them.

    Parameters
    ----------
    ranks
        None where one process is all.
    hosts
        The rank of each node, in order.

    Attributes
    ----------
    machine, busy
        See `lanescope.engine.base.Nodes`.
    """

    def __init__(
        self,
        ranks: MpiRanks | None,
        hosts: Sequence[int],
        machine: Machine,
        busy: Mapping[int, BusyError],
    ) -> None:
        self.machine, self.busy = machine, busy
        self._ranks, self._hosts = ranks, hosts
        self._ids = count(_ITSELF + 1)
        self._come: dict[tuple[int, int], deque[Message]] = defaultdict(deque)
        self._clocks: dict[int, _Clock] = {}
        self._silent: set[int] = set()

    def start(self, owner: str) -> GpuProcess:
        """Start the process of a GPU, on its node."""
        node = node_of(owner) or 0
        rank = self._hosts[node]
        if rank == 0:
            return start(owner)
        return _RemoteProcess(self, rank, node, next(self._ids), owner)

    def order(self, rank: int, id: int, do: str, **values: Any) -> None:
        """Have a rank do something."""
        assert self._ranks is not None, "there is another rank"
        self._ranks.order(rank, json.dumps({"id": id, "do": do, **values}).encode())

    def answer(self, rank: int, id: int) -> Message | None:
        """Return the next answer of a process; None where none comes in time.

        A rank that does not answer for itself, either, is not waited for again.
        """
        if rank in self._silent:
            return None
        found = self._next_answer(rank, id, ANSWER_SECONDS)
        if found is None and id != _ITSELF:
            self.order(rank, _ITSELF, "time")
            if self._next_answer(rank, _ITSELF, _ALIVE_SECONDS) is not None:
                return None
        if found is None:
            self._silent.add(rank)
        return found

    def _next_answer(self, rank: int, id: int, seconds: float) -> Message | None:
        assert self._ranks is not None, "there is another rank"
        waiting, deadline = self._come[rank, id], time.monotonic() + seconds
        while not waiting:
            found = self._ranks.next_answer(deadline)
            if found is None:
                return None
            message = json.loads(found[1])
            self._come[found[0], message["id"]].append(message["answer"])
        return waiting.popleft()

    def clock(self, rank: int) -> _Clock | None:
        """Return a rank's clock, compared with ours just now; None where it does not answer."""
        known = self._clocks.get(rank)
        if known is None or time.monotonic() - known.compared > _CLOCK_SECONDS:
            known = self._compared(rank)
        if known is not None:
            self._clocks[rank] = known
        return known

    def _compared(self, rank: int) -> _Clock | None:
        """Ask for the time there, several times; the fastest answer is half as old as it took."""
        found = []
        for _ in range(_PINGS):
            sent = time.monotonic()
            self.order(rank, _ITSELF, "time")
            answer = self.answer(rank, _ITSELF)
            now = time.monotonic()
            if answer is None:
                return None
            found.append(_Clock((sent + now) / 2 - answer["time"], (now - sent) / 2, now))
        return min(found, key=lambda clock: clock.error_seconds)

    def leave(self, error: BaseException | None) -> None:
        """Let the other ranks go; where one does not answer, or all shall end, by ending the job.

        Parameters
        ----------
        error
            What this rank ends with, if it is not well.
        """
        if self._ranks is None:
            return
        interrupted = error is not None and not isinstance(error, Exception)
        for rank in range(1, self._ranks.size):
            self.order(rank, _ITSELF, "leave")
        sys.stdout.flush()
        if self._silent and isinstance(error, LanescopeError):
            self._ranks.give_up(error)
        code = getattr(error, "exit_code", ExitCode.INTERRUPTED if interrupted else ExitCode.FAULT)
        self._ranks.leave(code, complete=not (self._silent or interrupted))


@dataclass(frozen=True, slots=True)
class _Clock:
    """How far a rank's clock is behind ours, how well that is known, and since when."""

    behind_seconds: float
    error_seconds: float
    compared: float


class _RemoteProcess(GpuProcess):
    """A process on another node."""

    def __init__(self, nodes: RemoteNodes, rank: int, node: int, id: int, owner: str) -> None:
        self.name, self.node, self.lost = f"the process of {owner}", node, False
        self._nodes, self._rank, self._id = nodes, rank, id
        self._behind_seconds = self.clock_error_seconds = 0.0
        nodes.order(rank, id, "start", owner=owner)

    def ask(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        assert not descriptors, "descriptors stay on their node"
        self._nodes.order(self._rank, self._id, "ask", message=message)

    def answer(self) -> tuple[Message, list[int]]:
        found = self._nodes.answer(self._rank, self._id)
        if found is None:
            self.lost = True
            raise no_answer(self.name, ANSWER_SECONDS)
        if "lost" in found:
            self.lost = True
            raise NotMeasuredError(found["lost"], found["remedy"])
        require_done(found)
        if "end" in found:
            found["end"] += self._behind_seconds
        return found, []

    def synchronise(self) -> None:
        """Compare its node's clock with ours."""
        clock = self._nodes.clock(self._rank)
        if clock is None:
            self.lost = True
            raise no_answer(self.name, ANSWER_SECONDS)
        self._behind_seconds, self.clock_error_seconds = clock.behind_seconds, clock.error_seconds

    def is_alive(self) -> bool:
        return not self.lost

    def end(self) -> None:
        self._nodes.order(self._rank, self._id, "end")

    def kill(self) -> None:
        self._nodes.order(self._rank, self._id, "kill")


class _Server:
    """A rank that runs processes of its node's GPUs, until rank 0 lets it go."""

    def __init__(self, ranks: MpiRanks) -> None:
        self._ranks = ranks
        self._processes: dict[int, ChildProcess] = {}
        self._asked: dict[int, int] = {}  # descriptors of connections, and whose they are
        self._active = time.monotonic()

    def serve(self) -> None:
        """Do what rank 0 orders."""
        while True:
            content = self._ranks.next_order(0.0)
            if content is None:
                self._forward()
                continue
            self._active = time.monotonic()
            order = json.loads(content)
            if order["do"] == "leave":
                break
            self._do(**order)
        for process in self._processes.values():
            process.kill()  # it may wait for one of another node
            process.end()

    def _do(self, id: int, do: str, owner: str = "", message: Message | None = None) -> None:
        if do == "time":
            self._answer(id, {"time": time.monotonic()})
        elif do == "start":
            self._processes[id] = start(owner)
        elif do == "ask":
            self._ask(id, message or {})
        else:
            process = self._processes.pop(id)
            self._asked.pop(process.connection.fileno(), None)
            if do == "kill":
                process.kill()
            process.end()

    def _ask(self, id: int, message: Message) -> None:
        if (process := self._processes.get(id)) is None:
            self._answer(id, _lost(NotMeasuredError("Its process has been ended.")))
            return
        try:
            process.ask(message)
        except NotMeasuredError as error:
            self._answer(id, _lost(error))
        else:
            self._asked[process.connection.fileno()] = id

    def _forward(self) -> None:
        """Send on what processes answer; wait for that a twentieth of the time since the last."""
        idle = time.monotonic() - self._active
        ready, *_ = select.select(list(self._asked), [], [], min(0.005, idle / 20))
        for descriptor in ready:
            id = self._asked.pop(descriptor)
            self._active = time.monotonic()
            try:
                answer = self._processes[id].next_message()[0]
            except NotMeasuredError as error:
                answer = _lost(error)
            self._answer(id, answer)

    def _answer(self, id: int, answer: Message) -> None:
        content = json.dumps({"id": id, "answer": answer}).encode()
        self._ranks.answer(content, time.monotonic() + ANSWER_SECONDS)


def _lost(error: NotMeasuredError) -> Message:
    return {"lost": error.reason, "remedy": error.remedy}


def nodes_of(ranks: Ranks, *, allow_busy: bool) -> RemoteNodes | None:
    """Return the nodes of a run, on rank 0; other ranks serve until it has ended.

    Parameters
    ----------
    allow_busy
        Whether GPUs are used that other programs use.

    Returns
    -------
    Nodes or None
        None on other ranks, which have nothing left to do but to end.

    Raises
    ------
    MissingPartError
        If a rank does not say what its node is, or is of another version.
    """
    if isinstance(ranks, Alone):
        return _of_reports(None, {0: _own_report(allow_busy)})
    assert isinstance(ranks, MpiRanks)
    if ranks.rank != 0:
        own = _own_report(allow_busy) if is_first_of_node() else {}
        ranks.send(json.dumps(own).encode(), time.monotonic() + _READY_SECONDS)
        _Server(ranks).serve()
        ranks.leave(0, complete=True)
        return None
    reports = {0: _own_report(allow_busy)}
    deadline = time.monotonic() + _READY_SECONDS
    for rank, content in ranks.received(deadline):
        reports[rank] = json.loads(content)
    if missing := sorted(set(range(ranks.size)) - set(reports)):
        raise MissingPartError(
            f"rank {missing[0]} has not said in {_READY_SECONDS:.0f} s what its node is; look at "
            "that node, or start without it"
        )
    return _of_reports(ranks, reports)


def _own_report(allow_busy: bool) -> Message:
    """Return what this rank says of its node."""
    try:
        machine = discover()
        nvml = None if allow_busy or not machine.gpus else Nvml.open()
        busy = {} if nvml is None else busy_gpus(machine, nvml)
    except LanescopeError as error:
        return {"host": host_name(), "error": str(error)}
    return {
        "host": host_name(),
        "version": __version__,
        "machine": dumps_machine(dataclasses.replace(machine, name=host_name())),
        "busy": [[index, error.reason, error.remedy] for index, error in busy.items()],
    }


def _of_reports(ranks: MpiRanks | None, reports: Mapping[int, Message]) -> RemoteNodes:
    hosts: dict[str, int] = {}
    machines: list[Machine] = []
    busy: list[dict[int, BusyError]] = []
    for rank, report in sorted(reports.items()):
        if not report or report["host"] in hosts:  # another rank is its node's first
            continue
        if "error" in report:
            raise MissingPartError(f"{report['host']}: {report['error']}")
        if report["version"] != __version__:
            raise MissingPartError(
                f"{report['host']} has lanescope {report['version']}, this node {__version__}; "
                "install one version on all"
            )
        hosts[report["host"]] = rank
        machine = parse_machine(report["machine"], report["host"], found=True)
        machines.append(dataclasses.replace(machine, described=False))
        busy += [{index: BusyError(*words) for index, *words in report["busy"]}]
    of_all = {
        number_on(node, index): BusyError(f"n{node}: {one.reason}", one.remedy)
        for node, errors in enumerate(busy)
        for index, one in errors.items()
    }
    return RemoteNodes(ranks, list(hosts.values()), cluster_of(machines), of_all)
