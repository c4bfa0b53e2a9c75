"""A node's report as its readers want it: a line, JSON, Prometheus, NHC, Nagios."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from lanescope.codec.prometheus import Sample, metric, unique
from lanescope.studies.node.report import NodeReport, Rate, State

_GIGA = 1e9


class Format(StrEnum):
    """How a report is written."""

    LINE = "line"
    JSON = "json"
    PROMETHEUS = "prometheus"
    NHC = "nhc"
    NAGIOS = "nagios"


class Written(NamedTuple):
    """A report as text, and the exit code that its reader expects."""

    text: str
    exit_code: int


def written(report: NodeReport, form: Format) -> Written:
    """Return a report in a format."""
    return _WRITERS[form](report)


def line(report: NodeReport) -> str:
    """Return a report in one line: the node, its state, and the worst part."""
    return str(report)


def _line(report: NodeReport) -> Written:
    return Written(f"{line(report)}\n", report.exit_code)


def _json(report: NodeReport) -> Written:
    text = json.dumps(dataclasses.asdict(report), allow_nan=False)
    return Written(f"{text}\n", report.exit_code)


def _nhc(report: NodeReport) -> Written:
    """LBNL's NHC and Slurm's prolog drain a node by any code but 0: only a broken part has one."""
    return Written(f"{line(report)}\n", int(report.unfit))


_NAGIOS = {State.SICK: ("CRITICAL", 2), State.MISSING: ("CRITICAL", 2)}
_NAGIOS_SOUND = (State.HEALTHY, State.LIMITED)


def _nagios(report: NodeReport) -> Written:
    """Plugin output: state, text, and performance data in bytes a second after a bar."""
    sound = ("OK", 0) if report.state in _NAGIOS_SOUND else ("UNKNOWN", 3)
    word, code = _NAGIOS.get(report.state, sound)
    data = " ".join(_performance(report.rates))
    text = line(report).replace("|", "/")
    return Written(f"LANESCOPE {word} - {text}{f' | {data}' if data else ''}\n", code)


def _performance(rates: Iterable[Rate]) -> Iterator[str]:
    for rate in rates:
        if rate.gbs is not None:
            most = "" if rate.limit_gbs is None else f"{rate.limit_gbs * _GIGA:.0f}"
            label = _label_text(f"{rate.experiment}: {rate.path}").replace("'", "")
            yield f"'{label}'={rate.gbs * _GIGA:.0f};;;0;{most}"


def _label_text(text: str) -> str:
    return text.replace("→", "->").replace("=", ":")


def _prometheus(report: NodeReport) -> Written:
    """Return a text file for node_exporter's collector; names and units as Prometheus wants."""
    return Written("".join(_metrics(report)), report.exit_code)


def _metrics(report: NodeReport) -> Iterator[str]:
    host = {"lanescope": report.tool_version, "level": report.level}
    yield from metric("node_info", "What checked the node, and how much of it.", [(host, 1.0)])
    states = [({"state": str(one)}, float(one is report.state)) for one in State]
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
            samples.append((labels, found * _GIGA))
    return unique(samples)


_WRITERS: dict[Format, Callable[[NodeReport], Written]] = {
    Format.LINE: _line,
    Format.JSON: _json,
    Format.PROMETHEUS: _prometheus,
    Format.NHC: _nhc,
    Format.NAGIOS: _nagios,
}
