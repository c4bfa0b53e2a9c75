"""The folder of a fleet's check, and what it and runs are to the history.

``fleet.json`` says what was begun, ``nodes/HOST.json`` is a node's report, ``nodes/HOST`` its run,
``pairs.jsonl`` a line for each try of a pair, ``report.json`` and ``report.html`` what all of them
come to. Every rank writes its own files before it sends anything, so that a job that was ended
still has a report.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lanescope._version import __version__
from lanescope.codec.fields import Moment, build
from lanescope.codec.files import (
    fields_of,
    parse_json,
    read_json,
    read_text,
    require_version,
    write_text,
)
from lanescope.errors import InputError
from lanescope.fleet.exchange import PairRate, best_tries
from lanescope.fleet.report import SCHEMA_VERSION as FLEET_VERSION
from lanescope.fleet.report import FleetReport, urgency
from lanescope.history.records import HistoryRecord, in_utc, record_of_node, record_of_run
from lanescope.report.document_page import document_page
from lanescope.store.folder import MANIFEST as RUN_MANIFEST
from lanescope.store.folder import default_runs_folder, find_run
from lanescope.store.store import read_run
from lanescope.studies.node_report import SCHEMA_VERSION, NodeReport, NodeState, ends_with

MANIFEST, NODES, PAIRS = "fleet.json", "nodes", "pairs.jsonl"
REPORT = "report.json"
#: Clocks of two nodes are no further apart, whatever their time zones.
_CLOCKS_DIFFER = timedelta(days=1)
#: Of a node in such a state nothing is known yet.
UNKNOWN = (NodeState.FAILED, NodeState.NOT_MEASURED, NodeState.BUSY)


@dataclass(frozen=True, slots=True)
class FleetManifest:
    """What a fleet's check says about itself.

    Attributes
    ----------
    ranks
        How many processes there were.
    topology
        What names the racks of nodes; None: their names do.
    idle
        How many of them measured nothing, as another one of their node did; 0 until all are heard.
    """

    schema_version: int
    tool_version: str
    began: Moment
    ranks: int
    within_seconds: float
    topology: str | None = None
    idle: int = 0

    @property
    def measuring(self) -> int:
        """How many processes leave a report."""
        return self.ranks - self.idle


def begin(folder: Path, manifest: FleetManifest, *, resume: bool = False) -> FleetManifest:
    """Make the folder of a check that nobody else writes to, or go on with one that is there.

    Returns
    -------
    FleetManifest
        Of the check: where it goes on, what was begun then.

    Raises
    ------
    InputError
        If another check has it, or it cannot be written.
    """
    if resume and (folder / MANIFEST).is_file():
        return read(folder)[0]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / MANIFEST).open("x") as file:
            file.write(_text(manifest))
    except FileExistsError:
        raise InputError(
            f"{folder} holds the check of a fleet already; name a new folder with --out, go on "
            f"with that one by --resume, or look at it with 'lanescope fleet report {folder}'"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}; name another place with --out"
        ) from error
    return manifest


def write_manifest(folder: Path, manifest: FleetManifest) -> None:
    """Write what a check says about itself once more."""
    write_text(folder / MANIFEST, _text(manifest), inner=1)


def _text(manifest: FleetManifest) -> str:
    return json.dumps(dataclasses.asdict(manifest)) + "\n"


def known_node(folder: Path, host: str) -> NodeReport | None:
    """Return the report that a node has left where it was measured, else None."""
    path = place_of(folder, host)
    try:
        report = read_node(read_json(path.with_name(f"{path.name}.json")), str(path))
    except InputError:
        return None
    return report if report.state not in UNKNOWN else None


def free_place(folder: Path, host: str) -> Path:
    """Return a folder for a node's run that has none of an earlier try."""
    first = place_of(folder, host)
    tries = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
    return first if not first.exists() else next(place for place in tries if not place.exists())


def place_of(folder: Path, host: str) -> Path:
    """Return the run folder of a node."""
    return folder / NODES / (re.sub(r"[^\w.-]", "_", host).lstrip(".") or "node")


def write_node(folder: Path, report: NodeReport) -> None:
    """Write a node's report."""
    place = place_of(folder, report.host)
    place.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(report)) + "\n"
    write_text(place.with_name(f"{place.name}.json"), text, inner=1)


def read_node(text: object, name: str) -> NodeReport:
    """Return a node's report from its JSON.

    Its schema only grows within a version: a newer lanescope's fields are not looked at.

    Raises
    ------
    InputError
        If it is of another version, damaged, or contradicts itself.
    """
    table = text if isinstance(text, dict) else {}
    with fields_of(name):
        require_version(table.get("schema_version"), SCHEMA_VERSION, name)
        report = build(NodeReport, table, others=True)
    if not ends_with(report.state, report.exit_code):
        raise InputError(
            f"{name}: the state {report.state!s} does not go with exit code {report.exit_code}; "
            "check the node again"
        )
    if not _has_been(report.began):
        raise InputError(
            f"{name}: the check began at {report.began}, which is still to come; set the clock of "
            f"{report.host}, and check it again"
        )
    return report


def _has_been(moment: str) -> bool:
    try:
        return datetime.fromisoformat(moment).astimezone(UTC) <= datetime.now(UTC) + _CLOCKS_DIFFER
    except (OverflowError, ValueError):  # a time zone takes it out of all years
        return False


def append_pair(folder: Path, rate: PairRate) -> None:
    """Add what a pair has exchanged; a line is there whole, or is the last one."""
    with (folder / PAIRS).open("a") as file:
        file.write(json.dumps(dataclasses.asdict(rate)) + "\n")


def read_pairs(folder: Path) -> list[PairRate]:
    """Return what pairs have exchanged, of each the best try; without a line that is cut off.

    Raises
    ------
    InputError
        If another line is damaged.
    """
    path = folder / PAIRS
    if not path.is_file():
        return []
    *lines, _ = read_text(path).split("\n")
    with fields_of(path):
        rates = [build(PairRate, parse_json(line, str(path))) for line in lines]
    return list(best_tries(((one.first, one.second), one) for one in rates).values())


def read(folder: Path) -> tuple[FleetManifest, list[NodeReport], list[str]]:
    """Return what a folder holds: its manifest, the reports, and why others cannot be read.

    A folder of reports alone, which ``lanescope node --format json`` wrote, has a manifest made of
    them.

    Raises
    ------
    InputError
        If it is no folder of a fleet's check, and has no reports of nodes.
    """
    path = folder / MANIFEST
    if path.is_file():
        return _manifest(path), *_reports((folder / NODES).glob("*.json"))
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name that of a 'lanescope fleet check'")
    files = [file for file in folder.glob("*.json") if file.name != REPORT]
    reports, damaged = _reports(files)
    if damaged and not reports:
        more = f"; and so of {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise InputError(f"{folder} has no report of a node that can be read: {damaged[0]}{more}")
    if not reports:
        raise InputError(
            f"{folder} has no {MANIFEST} and no reports of nodes; name the folder of a 'lanescope "
            "fleet check', or one of files by 'lanescope node --format json'"
        )
    began = min(reports, key=lambda one: in_utc(one.began)).began
    return FleetManifest(1, __version__, began, len(files), 0.0), reports, damaged


def _manifest(path: Path) -> FleetManifest:
    table = read_json(path)
    with fields_of(path):
        if isinstance(table, dict):
            writer = table.get("tool_version")
            require_version(table.get("schema_version"), FLEET_VERSION, path, writer=writer)
        return build(FleetManifest, table)


def _reports(files: Iterable[Path]) -> tuple[list[NodeReport], list[str]]:
    """Return one report for each name of a node, and why other files do not count."""
    found: dict[str, tuple[Path, NodeReport]] = {}
    damaged = []
    for file in sorted(files):
        try:
            report = read_node(read_json(file), str(file))
        except InputError as error:
            damaged.append(str(error))
            continue
        first = found.setdefault(report.host, (file, report))
        if first[0] == file:
            continue
        damaged.append(
            f"{file} is of {report.host}, as {first[0]} is: of several with one name the worst "
            "counts; give each node a name of its own, as by $LANESCOPE_HOST, or take a file away"
        )
        if urgency(report) < urgency(first[1]):
            found[report.host] = (file, report)
    return [report for _, report in found.values()], damaged


def write_report(folder: Path, report: FleetReport) -> Path:
    """Write what all nodes come to, as JSON and as a page; return the page's path.

    Raises
    ------
    InputError
        If they cannot be written.
    """
    page = folder / "report.html"
    write_text(folder / REPORT, report.as_json(), inner=1)
    write_text(page, document_page(report.document()), inner=1)
    return page


def stored_below(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs of paths and of fleets' checks at or below a folder, in order.

    The nodes of a fleet's check are part of it; watches, fits and so on are no runs of paths.
    """
    # a walk goes on where rm takes away what it is in
    files = {Path(place): names for place, _, names in os.walk(folder)}
    fleets = {place for place, names in files.items() if MANIFEST in names}
    runs = {p for p, names in files.items() if RUN_MANIFEST in names and _has_paths(p)}
    yield from sorted(fleets | {run for run in runs if fleets.isdisjoint(run.parents)})


def _has_paths(folder: Path) -> bool:
    return (folder / "results.parquet").is_file() or (folder / "results").is_dir()


def folders_of(names: Sequence[str]) -> list[Path]:
    """Return the folders of runs and fleets that are named, or below those named.

    Parameters
    ----------
    names
        Folders or names of runs; none for the runs folder.

    Raises
    ------
    InputError
        If there is none of a name, or no runs folder.
    """
    if not names:
        folder = default_runs_folder()
        if not folder.is_dir():
            raise InputError(f"there is no runs folder {folder}; 'lanescope check' begins one")
        return list(stored_below(folder))
    found: list[Path] = []
    for name in names:
        below = list(stored_below(Path(name))) if name and Path(name).is_dir() else []
        found += below or [find_run(name)]
    return found


def records_of(folder: Path) -> list[HistoryRecord]:
    """Return what a run, or each node of a fleet's check, measured.

    Raises
    ------
    InputError
        If it is neither, cannot be read, or holds predictions.
    """
    if not (folder / MANIFEST).is_file():
        record = record_of_run(read_run(folder))
        return [record] if record.observations else []
    _, reports, _ = read(folder)
    place = str(folder)
    return [record_of_node(one, place) for one in reports if one.state is not NodeState.FAILED]
