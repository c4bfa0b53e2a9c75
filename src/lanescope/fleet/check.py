"""Checks a fleet: every rank its own node, the first one collects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lanescope._version import __version__
from lanescope.codec.files import parse_json
from lanescope.errors import LanescopeError
from lanescope.fleet.compare import LEAST_EFFECT
from lanescope.fleet.exchange import Leader, PairRate, best_tries, exchanged, follow
from lanescope.fleet.folder import (
    FleetManifest,
    append_pair,
    begin,
    free_place,
    known_node,
    read,
    read_node,
    read_pairs,
    write_manifest,
    write_node,
)
from lanescope.fleet.media import Medium
from lanescope.fleet.pairs import PairPlan, planned, racks_of
from lanescope.fleet.ranks import MpiRanks, Ranks, is_first_of_node
from lanescope.fleet.report import SCHEMA_VERSION, FleetReport, fleet_report, urgency
from lanescope.history.document import LevelComparison, against_history
from lanescope.history.index import History
from lanescope.history.records import record_of_node
from lanescope.store.folder import lock_folder
from lanescope.studies.node import Request, check_node, host_name
from lanescope.studies.node_report import NodeReport

#: A rank may begin, or be heard of, so much later than the first one; and for each rank.
LATE_SECONDS, LATE_SECONDS_A_RANK = 15.0, 0.05
#: What a rank sends whose node another one measures.
_IDLE = b"idle"
#: All pairs of nodes take no longer.
PAIRS_SECONDS = 3600.0

CheckNode = Callable[[Request, Path | None], NodeReport]


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """How a fleet is to be checked.

    Attributes
    ----------
    node
        How each node is.
    out
        Folder that all ranks see; None: reports are sent by MPI alone, and stored nowhere.
    pairs
        Which pairs of nodes exchange data afterwards.
    over
        What they exchange it through.
    topology
        Text that names the racks of nodes; None: see `lanescope.fleet.pairs.racks_of`.
    history
        Index that each node's earlier runs are in, and this one is added to; None: none.
    resume
        Go on with the check that `out` holds: nodes that were measured are not again, and those
        that are not here any more count.
    """

    node: Request
    out: Path | None
    pairs: PairPlan = PairPlan.NONE
    over: Medium = Medium.HOST
    topology: str | None = None
    history: Path | None = None
    resume: bool = False


def check_fleet(
    request: FleetRequest, ranks: Ranks, check: CheckNode = check_node
) -> FleetReport | None:
    """Check this rank's node, and on the first rank collect what the others report.

    Returns
    -------
    FleetReport or None
        None on all ranks but the first.

    Raises
    ------
    InputError
        If the folder is another check's, or the topology's text cannot be.
    """
    racks_of((), request.topology)  # what is wrong with it is said now
    late = LATE_SECONDS + LATE_SECONDS_A_RANK * ranks.size
    deadline = request.node.began + request.node.within_seconds + late
    if ranks.rank != 0:
        own = _own_node(request, check) if is_first_of_node() else None
        message = _IDLE if own is None else json.dumps(dataclasses.asdict(own)).encode()
        arrived = ranks.send(message, deadline + late)
        if arrived and own is not None and isinstance(ranks, MpiRanks) and request.pairs:
            follow(ranks, deadline + late + PAIRS_SECONDS, request.over)
        return None
    if request.history is not None:  # what is wrong with it is said now
        with History(request.history, create=True):
            pass
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    head = (SCHEMA_VERSION, __version__, began, ranks.size, request.node.within_seconds)
    manifest = FleetManifest(*head, request.topology)
    if request.out is None:
        return _led(request, ranks, check, deadline, manifest)
    manifest = begin(request.out, manifest, resume=request.resume)
    lock = lock_folder(request.out)
    try:
        return _led(request, ranks, check, deadline, manifest)
    finally:
        lock.release()


def _led(
    request: FleetRequest,
    ranks: Ranks,
    check: CheckNode,
    deadline: float,
    manifest: FleetManifest,
) -> FleetReport:
    """Check the first rank's node, collect the others' reports and have pairs exchange."""
    first = _own_node(request, check)
    hosts = {0: first.host}
    nodes, absent, idle = _collected(ranks, first, deadline, hosts)
    if idle > manifest.idle:
        manifest = dataclasses.replace(manifest, idle=idle)
        if request.out is not None:
            write_manifest(request.out, manifest)
    rates: list[PairRate] = []
    if isinstance(ranks, MpiRanks) and request.pairs:
        racks = racks_of(list(hosts.values()), request.topology)
        rounds = planned(request.pairs, racks)
        rates = exchanged(Leader(ranks, hosts, request.over), rounds, racks, _store(request.out))
    if request.resume and request.out is not None:
        nodes, absent, rates = _with_earlier(request.out, nodes, absent, manifest.measuring)
    names = list(dict.fromkeys([*hosts.values(), *(node.host for node in nodes)]))
    of_hosts = _racks(names, request.topology)
    before = compared_with_history(nodes, request.history, str(request.out))
    return fleet_report(nodes, absent, manifest.began, rates, of_hosts, before)


def report_of_folder(folder: Path) -> FleetReport:
    """Return what a fleet's check comes to by the files that its ranks have written.

    Raises
    ------
    InputError
        If it is no folder of a fleet's check.
    """
    manifest, nodes, damaged = read(folder)
    begun = manifest.measuring
    missing = begun - len(nodes) - len(damaged)
    absent = damaged + [f"{missing} of {begun} ranks left no report"] * (missing > 0)
    rates = read_pairs(folder)
    hosts = dict.fromkeys([*(node.host for node in nodes), *_ends(rates)])
    racks = _racks(list(hosts), manifest.topology)
    return fleet_report(nodes, absent, manifest.began, rates, racks)


def report_of_pairs(
    rates: Sequence[PairRate], topology: str | None, out: Path | None
) -> FleetReport:
    """Return what rates of pairs that were not measured here come to; stored in a new folder.

    Raises
    ------
    InputError
        If the folder is another check's, or the topology's text cannot be.
    """
    racks = _racks(list(dict.fromkeys(_ends(rates))), topology)
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    best = list(best_tries(((one.first, one.second), one) for one in rates).values())
    report = fleet_report([], [], began, best, racks)
    if out is not None:
        begin(out, FleetManifest(SCHEMA_VERSION, __version__, began, 0, 0.0, topology))
        for one in rates:
            append_pair(out, one)
    return report


def _ends(rates: Iterable[PairRate]) -> Iterator[str]:
    for one in rates:
        yield from (one.first, one.second)


def _racks(hosts: Sequence[str], topology: str | None) -> dict[str, str]:
    return dict(zip(hosts, racks_of(hosts, topology), strict=True))


def compared_with_history(
    nodes: Sequence[NodeReport], index: Path | None, source: str
) -> dict[str, list[LevelComparison]]:
    """Return how each node's paths lie in the history of their hardware, and add them to it."""
    if index is None:
        return {}
    found = {}
    records = {one.host: record_of_node(one, source) for one in nodes if one.rates}
    with History(index, create=True) as history:
        for host, record in records.items():
            found[host] = against_history(record, history, LEAST_EFFECT)
        history.add_all(records.values())
    return found


def _store(out: Path | None) -> Callable[[PairRate], object]:
    return (lambda rate: None) if out is None else (lambda rate: append_pair(out, rate))


def _with_earlier(
    folder: Path, nodes: list[NodeReport], absent: list[str], begun: int
) -> tuple[list[NodeReport], list[str], list[PairRate]]:
    """Add what earlier tries of a check have left: nodes that are not here any more, and pairs."""
    _, stored, damaged = read(folder)
    here = {node.host for node in nodes}
    nodes = _by_host([*nodes, *(one for one in stored if one.host not in here)])
    missing = begun - len(nodes) - len(absent) - len(damaged)
    lost = [f"{missing} of {begun} nodes have left no report"] * (missing > 0)
    return nodes, [*absent, *damaged, *lost], read_pairs(folder)


def _own_node(request: FleetRequest, check: CheckNode) -> NodeReport:
    if request.out is None:
        return check(request.node, None)
    if request.resume and (known := known_node(request.out, host_name())) is not None:
        return known
    report = check(request.node, free_place(request.out, host_name()))
    write_node(request.out, report)
    return report


def _collected(
    ranks: Ranks, first: NodeReport, deadline: float, hosts: dict[int, str]
) -> tuple[list[NodeReport], list[str], int]:
    """Return the reports, what is wrong with others, and how many ranks measure nothing."""
    nodes, absent, heard, idle = [first], [], {0}, 0
    parts = {first.host: {part.uuid for part in first.parts}}
    for rank, message in ranks.received(deadline):
        heard.add(rank)
        if message == _IDLE:
            idle += 1
            continue
        name = f"the report of rank {rank}"
        try:
            node = read_node(parse_json(message.decode(), name), name)
            nodes.append(node)
            hosts[rank] = node.host
            own = {part.uuid for part in node.parts}
            if parts.setdefault(node.host, own) != own:
                absent.append(
                    f"rank {rank}: its node is called {node.host}, as one with other GPUs is, and "
                    "the worse of both counts; name each by $LANESCOPE_HOST"
                )
        except (LanescopeError, UnicodeDecodeError) as error:
            absent.append(f"rank {rank}: {error}")
    absent += [f"rank {rank}: no report in time" for rank in range(ranks.size) if rank not in heard]
    return _by_host(nodes), absent, idle


def _by_host(nodes: list[NodeReport]) -> list[NodeReport]:
    """Return one report a node, in the order of their names; of several the worst."""
    found: dict[str, NodeReport] = {}
    for node in sorted(nodes, key=lambda node: (node.host, urgency(node))):
        found.setdefault(node.host, node)
    return list(found.values())
