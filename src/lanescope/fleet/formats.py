"""A fleet's report as operators feed it on: JSON lines, suspects, Slurm's reasons, Prometheus."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lanescope.codec.fields import Moment
from lanescope.codec.prometheus import metric, unique
from lanescope.fleet.report import FleetReport, Suspect
from lanescope.studies.node.report import State

SCHEMA_VERSION = 1
#: By what a node can be sick: the others say that nothing is known, or that it is only different.
FAULTS = ("expected", "data", "limit", "peers", "history")
#: Longer reasons are cut off by sinfo.
_REASON = 160


class Format(StrEnum):
    """How a fleet's report is written."""

    JSONL = "jsonl"
    """A JSON object in a line for each node; `NodeLine`."""
    SUSPECTS = "suspects"
    """Names of the nodes with a fault, a line each, the worst first."""
    SLURM = "slurm"
    """The same with a reason for scontrol or a script, a line each."""
    PROMETHEUS = "prometheus"
    """Metrics for node_exporter's text files."""


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of a fleet as a line of JSON.

    Attributes
    ----------
    host
        Null of a rank that left no report.
    exit_code
        As of ``lanescope node``; 3 of a rank without a report.
    suspects
        What is wrong with it, also by its peers, its history and the network.
    """

    schema_version: int
    began: Moment
    host: str | None
    state: State
    exit_code: int
    sentence: str
    suspects: tuple[Suspect, ...]


def written(report: FleetReport, form: Format) -> str:
    """Return a report in a format."""
    return "".join(_WRITERS[form](report))


def _lines(report: FleetReport) -> Iterator[str]:
    for node in report.nodes:
        mine = tuple(one for one in report.suspects if node.host in _hosts(one))
        head = (SCHEMA_VERSION, report.began, node.host, node.state, node.exit_code)
        yield _line(NodeLine(*head, node.sentence, mine))
    for sentence in report.absent:
        yield _line(
            NodeLine(SCHEMA_VERSION, report.began, None, State.NOT_MEASURED, 3, sentence, ())
        )


def _line(line: NodeLine) -> str:
    return json.dumps(dataclasses.asdict(line), allow_nan=False) + "\n"


def faulty(report: FleetReport) -> dict[str, Suspect]:
    """Return the nodes that have a fault, each with the worst, the worst first.

    A slow rack is none: its nodes are not at fault. Of a pair that nobody can tell apart both
    are.
    """
    known = {node.host for node in report.nodes}
    known |= {host for pair in report.pairs for host in (pair.first, pair.second)}
    found: dict[str, Suspect] = {}
    for one in report.suspects:
        if one.judged_by in FAULTS and one.kind != "slow-rack":
            for host in _hosts(one):
                if host in known:
                    found.setdefault(host, one)
    return found


def _hosts(one: Suspect) -> list[str]:
    return one.host.split(", ")


def _suspects(report: FleetReport) -> Iterator[str]:
    for host in faulty(report):
        yield f"{host}\n"


def _slurm(report: FleetReport) -> Iterator[str]:
    for host, one in faulty(report).items():
        words = " ".join(filter(None, (one.kind, one.part, one.sentence)))
        plain = " ".join(words.replace('"', "").replace("'", "").split())
        yield f'NodeName={host} Reason="lanescope: {plain[:_REASON]}"\n'


def _prometheus(report: FleetReport) -> Iterator[str]:
    states = report.states
    yield from metric(
        "fleet_nodes",
        "How many nodes are in a state.",
        [({"state": str(one)}, float(states[one])) for one in State],
    )
    yield from metric(
        "fleet_nodes_without_report",
        "Ranks or nodes that should have reported and did not.",
        [({}, float(len(report.absent)))],
    )
    began = datetime.fromisoformat(report.began).timestamp()
    yield from metric("fleet_check_timestamp_seconds", "When the check began.", [({}, began)])
    labelled = [
        ({"host": host, "kind": s.kind, "part": s.part, "judged_by": s.judged_by}, s)
        for s in report.suspects
        for host in _hosts(s)
    ]
    yield from metric(
        "fleet_suspect",
        "1 for something that is wrong with a node.",
        unique((labels, 1.0) for labels, _ in labelled),
    )
    yield from metric(
        "fleet_suspect_loss_ratio",
        "Share of the usual rate that is lost, 0 to 1.",
        unique((labels, one.share) for labels, one in labelled if one.share is not None),
    )


_WRITERS: dict[Format, Callable[[FleetReport], Iterator[str]]] = {
    Format.JSONL: _lines,
    Format.SUSPECTS: _suspects,
    Format.SLURM: _slurm,
    Format.PROMETHEUS: _prometheus,
}
