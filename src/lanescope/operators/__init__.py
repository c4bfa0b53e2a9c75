"""Reports of nodes and of fleets as operators feed them on, and files that they start from.

Of a node a line, JSON, Prometheus, NHC and Nagios; of a fleet JSON lines, suspects, Slurm and
Prometheus. The files are for Slurm, LBNL's NHC, Kubernetes and Grafana.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from lanescope.codec.fields import Moment
from lanescope.codec.prometheus import Sample, metric, unique
from lanescope.fleet.report import FleetReport, Suspect
from lanescope.studies.node_report import NodeReport, NodeState, Rate
from lanescope.units.sizes import bytes_a_second

#: Name on the command line: file.
SNIPPETS = {
    "slurm-prolog": "slurm-prolog.sh",
    "nhc": "lanescope.nhc",
    "kubernetes": "kubernetes-job.yaml",
    "slurm-job": "slurm-job.sh",
    "kubernetes-fleet": "kubernetes-fleet.yaml",
    "grafana": "grafana-dashboard.json",
}
_NAGIOS = {NodeState.SICK: ("CRITICAL", 2), NodeState.MISSING: ("CRITICAL", 2)}
_NAGIOS_SOUND = (NodeState.HEALTHY, NodeState.LIMITED)
SCHEMA_VERSION = 1
#: By what a node can be sick: the others say that nothing is known, or that it is only different.
FAULTS = ("expected", "data", "limit", "peers", "history")
#: Longer reasons are cut off by sinfo.
_REASON = 160


def snippet_text(name: str) -> str:
    """Return the text of a file by its name."""
    return (Path(__file__).parent / SNIPPETS[name]).read_text()


class NodeFormat(StrEnum):
    """How a report of a node is written."""

    LINE = "line"
    JSON = "json"
    PROMETHEUS = "prometheus"
    NHC = "nhc"
    NAGIOS = "nagios"


class Written(NamedTuple):
    """A report as text, and the exit code that its reader expects."""

    text: str
    exit_code: int


def node_written(report: NodeReport, form: NodeFormat) -> Written:
    """Return a report in a format."""
    return _NODE_WRITERS[form](report)


def _node_line(report: NodeReport) -> Written:
    return Written(f"{report}\n", report.exit_code)


def _node_json(report: NodeReport) -> Written:
    return Written(_json_line(report), report.exit_code)


def _nhc(report: NodeReport) -> Written:
    """LBNL's NHC and Slurm's prolog drain a node by any code but 0: only a broken part has one."""
    return Written(f"{report}\n", int(report.unfit))


def _nagios(report: NodeReport) -> Written:
    """Plugin output: state, text, and performance data in bytes a second after a bar."""
    sound = ("OK", 0) if report.state in _NAGIOS_SOUND else ("UNKNOWN", 3)
    word, code = _NAGIOS.get(report.state, sound)
    data = " ".join(_performance(report.rates))
    text = str(report).replace("|", "/")
    return Written(f"LANESCOPE {word} - {text}{f' | {data}' if data else ''}\n", code)


def _performance(rates: Iterable[Rate]) -> Iterator[str]:
    for rate in rates:
        if rate.gbs is not None:
            most = "" if rate.limit_gbs is None else f"{bytes_a_second(rate.limit_gbs):.0f}"
            label = _label_text(f"{rate.experiment}: {rate.path}").replace("'", "")
            yield f"'{label}'={bytes_a_second(rate.gbs):.0f};;;0;{most}"


def _label_text(text: str) -> str:
    return text.replace("→", "->").replace("=", ":")


def _node_prometheus(report: NodeReport) -> Written:
    """Return a text file for node_exporter's collector; names and units as Prometheus wants."""
    return Written("".join(_node_metrics(report)), report.exit_code)


def _node_metrics(report: NodeReport) -> Iterator[str]:
    host = {"lanescope": report.tool_version, "level": report.level}
    yield from metric("node_info", "What checked the node, and how much of it.", [(host, 1.0)])
    states = [({"state": str(one)}, float(one is report.state)) for one in NodeState]
    yield from metric("node_state", "1 for the state that the node is in.", states)
    began = datetime.fromisoformat(report.began).timestamp()
    yield from metric("node_check_timestamp_seconds", "When the check began.", [({}, began)])
    yield from metric(
        "node_check_duration_seconds", "How long the check took.", [({}, report.seconds)]
    )
    by_part = {part.id: part for part in report.parts}
    faults = [
        (
            {
                "kind": fault.kind,
                "part": part,
                "uuid": (by_part[part].uuid or "") if part in by_part else "",
                "slot": (by_part[part].slot or "") if part in by_part else "",
            },
            1.0,
        )
        for fault in report.faults
        for part in fault.parts or ("",)
    ]
    yield from metric("node_fault", "1 for a part that is at fault.", unique(faults))
    rates = report.rates
    yield from metric(
        "path_bytes_per_second",
        "Median payload rate of a path, in bytes a second.",
        _of_paths(rates, lambda rate: rate.gbs),
    )
    yield from metric(
        "path_limit_bytes_per_second",
        "What the links of a path can carry, in bytes a second.",
        _of_paths(rates, lambda rate: rate.limit_gbs),
    )


def _of_paths(rates: Iterable[Rate], value: Callable[[Rate], float | None]) -> list[Sample]:
    samples = []
    for rate in rates:
        found = value(rate)
        if found is not None:
            labels = {
                "experiment": rate.experiment,
                "source": rate.source,
                "destination": rate.destination,
            }
            samples.append((labels, bytes_a_second(found)))
    return unique(samples)


_NODE_WRITERS: dict[NodeFormat, Callable[[NodeReport], Written]] = {
    NodeFormat.LINE: _node_line,
    NodeFormat.JSON: _node_json,
    NodeFormat.PROMETHEUS: _node_prometheus,
    NodeFormat.NHC: _nhc,
    NodeFormat.NAGIOS: _nagios,
}


class FleetFormat(StrEnum):
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
    state: NodeState
    exit_code: int
    sentence: str
    suspects: tuple[Suspect, ...]


def fleet_text(report: FleetReport, form: FleetFormat) -> str:
    """Return a report in a format."""
    return "".join(_FLEET_WRITERS[form](report))


def _node_lines(report: FleetReport) -> Iterator[str]:
    for node in report.nodes:
        mine = tuple(one for one in report.suspects if node.host in _hosts(one))
        head = (SCHEMA_VERSION, report.began, node.host, node.state, node.exit_code)
        yield _json_line(NodeLine(*head, node.sentence, mine))
    for sentence in report.absent:
        yield _json_line(
            NodeLine(SCHEMA_VERSION, report.began, None, NodeState.NOT_MEASURED, 3, sentence, ())
        )


def _json_line(said: NodeReport | NodeLine) -> str:
    return json.dumps(dataclasses.asdict(said), allow_nan=False) + "\n"


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


def _fleet_metrics(report: FleetReport) -> Iterator[str]:
    states = report.states
    yield from metric(
        "fleet_nodes",
        "How many nodes are in a state.",
        [({"state": str(one)}, float(states[one])) for one in NodeState],
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


_FLEET_WRITERS: dict[FleetFormat, Callable[[FleetReport], Iterator[str]]] = {
    FleetFormat.JSONL: _node_lines,
    FleetFormat.SUSPECTS: _suspects,
    FleetFormat.SLURM: _slurm,
    FleetFormat.PROMETHEUS: _fleet_metrics,
}
