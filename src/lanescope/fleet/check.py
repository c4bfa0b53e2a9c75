"""Checks a fleet: every rank its own node, the first one collects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lanescope._version import __version__
from lanescope.codec.files import parse_json
from lanescope.errors import LanescopeError
from lanescope.fleet.compare import LEAST_EFFECT
from lanescope.fleet.exchange import Leader, PairRate, exchanged, follow
from lanescope.fleet.folder import (
    FleetManifest,
    append_pair,
    begin,
    place_of,
    read,
    read_node,
    read_pairs,
    write_node,
    write_report,
)
from lanescope.fleet.pairs import Plan, planned, racks_of
from lanescope.fleet.ranks import MpiRanks, Ranks, is_first_of_node
from lanescope.fleet.report import SCHEMA_VERSION, FleetReport, fleet_report
from lanescope.history.document import Past, pasts
from lanescope.history.index import History
from lanescope.history.records import record_of_node
from lanescope.studies.node.measuring import Request, check_node, host_name
from lanescope.studies.node.report import NodeReport

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
    topology
        Text that names the racks of nodes; None: see `lanescope.fleet.pairs.racks_of`.
    history
        Index that each node's earlier runs are in, and this one is added to; None: none.
    """

    node: Request
    out: Path | None
    pairs: Plan = Plan.NONE
    topology: str | None = None
    history: Path | None = None


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
    began = datetime.now().astimezone().isoformat(timespec="seconds")
    if ranks.rank != 0:
        own = _own_node(request, check) if is_first_of_node() else None
        message = _IDLE if own is None else json.dumps(dataclasses.asdict(own)).encode()
        arrived = ranks.send(message, deadline + late)
        if arrived and own is not None and isinstance(ranks, MpiRanks) and request.pairs:
            follow(ranks, deadline + late + PAIRS_SECONDS)
        return None
    if request.history is not None:  # what is wrong with it is said now
        with History(request.history, create=True):
            pass
    if request.out is not None:
        within = request.node.within_seconds
        head = (SCHEMA_VERSION, __version__, began, ranks.size, within)
        begin(request.out, FleetManifest(*head, request.topology))
    first = _own_node(request, check)
    hosts = {0: first.host}
    nodes, absent = _collected(ranks, first, deadline, hosts)
    racks = racks_of(list(hosts.values()), request.topology)
    rates: list[PairRate] = []
    if isinstance(ranks, MpiRanks) and request.pairs:
        rounds = planned(request.pairs, racks)
        rates = exchanged(Leader(ranks, hosts), rounds, racks, _store(request.out))
    of_hosts = dict(zip(hosts.values(), racks, strict=True))
    before = compared_with_history(nodes, request.history, str(request.out))
    report = fleet_report(nodes, absent, began, rates, of_hosts, before)
    if request.out is not None:
        write_report(request.out, report)
    return report


def report_of_folder(folder: Path) -> FleetReport:
    """Return what a fleet's check comes to by the files that its ranks have written.

    Raises
    ------
    InputError
        If it is no folder of a fleet's check.
    """
    manifest, nodes, damaged = read(folder)
    missing = manifest.ranks - len(nodes) - len(damaged)
    absent = damaged + [f"{missing} of {manifest.ranks} ranks left no report"] * (missing > 0)
    hosts = [node.host for node in nodes]
    racks = dict(zip(hosts, racks_of(hosts, manifest.topology), strict=True))
    return fleet_report(nodes, absent, manifest.began, read_pairs(folder), racks)


def compared_with_history(
    nodes: Sequence[NodeReport], index: Path | None, source: str
) -> dict[str, list[Past]]:
    """Return how each node's paths lie in the history of their hardware, and add them to it."""
    if index is None:
        return {}
    found = {}
    records = {one.host: record_of_node(one, source) for one in nodes if one.rates}
    with History(index, create=True) as history:
        for host, record in records.items():
            names = [one.series for one in record.observations]
            earlier = history.series(names, without=record.id)
            found[host] = pasts(record, earlier, LEAST_EFFECT)
            history.add(record)
    return found


def _store(out: Path | None) -> Callable[[PairRate], object]:
    return (lambda rate: None) if out is None else (lambda rate: append_pair(out, rate))


def _own_node(request: FleetRequest, check: CheckNode) -> NodeReport:
    if request.out is None:
        return check(request.node, None)
    report = check(request.node, place_of(request.out, host_name()))
    write_node(request.out, report)
    return report


def _collected(
    ranks: Ranks, first: NodeReport, deadline: float, hosts: dict[int, str]
) -> tuple[list[NodeReport], list[str]]:
    nodes, absent, heard = [first], [], {0}
    for rank, message in ranks.received(deadline):
        heard.add(rank)
        if message == _IDLE:
            continue
        name = f"the report of rank {rank}"
        try:
            nodes.append(read_node(parse_json(message.decode(), name), name))
            hosts[rank] = nodes[-1].host
        except (LanescopeError, UnicodeDecodeError) as error:
            absent.append(f"rank {rank}: {error}")
    absent += [f"rank {rank}: no report in time" for rank in range(ranks.size) if rank not in heard]
    return _by_host(nodes), absent


def _by_host(nodes: list[NodeReport]) -> list[NodeReport]:
    """Return one report a node, in the order of their names; of several the worst."""
    found: dict[str, NodeReport] = {}
    for node in sorted(nodes, key=lambda node: (node.host, node.exit_code == 0)):
        found.setdefault(node.host, node)
    return list(found.values())
