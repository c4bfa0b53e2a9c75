"""What a run says of the hardware it ran on: observations that later runs can be compared with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from lanescope.copies.copy import copies_text
from lanescope.errors import InputError
from lanescope.machine.snapshot import is_redacted
from lanescope.report.format import bytes_text
from lanescope.results import Result
from lanescope.store.run import Run
from lanescope.studies.check import CHECK_BYTES
from lanescope.studies.node_report import NodeReport
from lanescope.studies.runs.rows import PathRow, path_rows

#: Of a node's configuration what belongs to no single GPU, and changes with software.
_SOFTWARE = ("driver", "CUDA", "kernel", "IOMMU")
_GPUS = re.compile(r"\bg[0-9]+\b")


class ObservationUnit(StrEnum):
    """Of an observation; of rates more is better, of times less."""

    GBS = "GB/s"
    SECONDS = "s"


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """A GPU as it was in a run.

    Attributes
    ----------
    id
        The run's name of it, such as ``g0``.
    key
        What stays with the hardware: its UUID, else host and number.
    slot
        PCI address.
    """

    id: str
    key: str
    name: str
    slot: str | None
    vbios: str | None


@dataclass(frozen=True, slots=True)
class Observation:
    """The median of one path in one run.

    Attributes
    ----------
    series
        The same in every run that measured the same copies on the same hardware.
    label
        The path for people, with the run's names of GPUs.
    devices
        Keys of the GPUs at its ends.
    half_width
        Half of the median's 95 % interval, as a share; None where unknown.
    """

    series: str
    label: str
    devices: tuple[str, ...]
    value: float
    unit: ObservationUnit
    half_width: float | None = None


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A run as the history keeps it.

    Attributes
    ----------
    id
        The same however often the run is added.
    began
        ISO 8601 in UTC.
    source
        Folder or file that it was read from.
    software
        Driver, kernel and so on, by name.
    """

    id: str
    host: str
    began: str
    verb: str
    tool_version: str
    source: str
    software: Mapping[str, str]
    devices: tuple[GpuRecord, ...]
    observations: tuple[Observation, ...]


def record_of_run(run: Run) -> HistoryRecord:
    """Return a run as a record.

    Raises
    ------
    InputError
        If its numbers are predictions.
    """
    manifest, machine = run.manifest, run.manifest.machine
    if run.predicted:
        raise InputError(f"{run.folder} holds predictions; the history is of measurements")
    software = {"driver": machine.driver, "CUDA": machine.cuda_version}
    devices = tuple(
        GpuRecord(
            g.id, _key(machine.name, g.id, g.uuid, g.pci_address), g.name, g.pci_address, g.vbios
        )
        for g in machine.gpus
    )
    keys = {device.id: device.key for device in devices}
    return HistoryRecord(
        _id(machine.name, manifest.started, manifest.verb),
        machine.name,
        in_utc(manifest.started),
        manifest.verb,
        manifest.tool_version,
        str(run.folder),
        {name: value for name, value in software.items() if value},
        devices,
        tuple(_unique(_of_rows(run.results, machine.name, keys))),
    )


def record_of_node(report: NodeReport, source: str) -> HistoryRecord:
    """Return the report of a node, as a fleet's check stores it, as a record."""
    found = report.configuration
    devices = tuple(
        GpuRecord(
            part.id,
            _key(report.host, part.id, part.uuid, part.slot),
            part.name,
            part.slot,
            found.get(f"{part.id} VBIOS"),
        )
        for part in report.parts
    )
    keys = {device.id: device.key for device in devices}
    observations = (
        _observation(
            rate.experiment,
            rate.path,
            rate.gbs,
            ObservationUnit.GBS,
            rate.half_width,
            report.host,
            keys,
        )
        for rate in report.rates
        if rate.gbs
    )
    return HistoryRecord(
        _id(report.host, report.began, "node"),
        report.host,
        in_utc(report.began),
        "node",
        report.tool_version,
        source,
        {name: found[name] for name in _SOFTWARE if name in found},
        devices,
        tuple(_unique(observations)),
    )


def _key(host: str, id: str, uuid: str | None, slot: str | None) -> str:
    """Return what a GPU is known by: its UUID, or its place where that is not known or redacted."""
    return uuid if uuid and not is_redacted(uuid) else f"{host}/{slot or id}"


def in_utc(moment: str) -> str:
    """Return a moment in UTC, so that moments sort as texts."""
    return datetime.fromisoformat(moment).astimezone(UTC).isoformat(timespec="seconds")


def _id(host: str, began: str, verb: str) -> str:
    return f"{host}/{in_utc(began)}/{verb}"


def _of_rows(
    results: Iterable[Result], host: str, keys: Mapping[str, str]
) -> Iterator[Observation]:
    for row in path_rows(results):
        if row.measured is None or not row.measured.own_rate or row.measured.in_turns_with:
            continue  # what an engine took in turns is no path's own
        statistics = row.measured.statistics
        value, unit = (
            (row.gbs, ObservationUnit.GBS)
            if row.gbs
            else (statistics.median_seconds, ObservationUnit.SECONDS)
        )
        if value:
            yield _observation(
                _name(row),
                row.copy.path,
                value,
                unit,
                statistics.half_width,
                host,
                keys,
                _label(row),
            )


def _name(row: PathRow) -> str:
    """Return the experiment's name, with its size where the name alone does not say it."""
    experiment = row.result.experiment
    says_size = experiment.name == copies_text(experiment.copies)
    usual = says_size or experiment.copies[0].bytes == CHECK_BYTES
    return experiment.name if usual else f"{experiment.name} {bytes_text(row.copy.bytes)}"


def _label(row: PathRow) -> str:
    """Return the path, with its size, and the set of its copy, where the row does not say them."""
    experiment = row.result.experiment
    if len(experiment.copies) > 1 and experiment.name == copies_text(experiment.copies):
        return f"{row.label} in {experiment.name}"
    size = bytes_text(row.copy.bytes)
    usual = row.copy.bytes == CHECK_BYTES or size in row.label
    return row.label if usual else f"{row.label}, {size}"


def _observation(
    name: str,
    path: str,
    value: float,
    unit: ObservationUnit,
    half_width: float | None,
    host: str,
    keys: Mapping[str, str],
    label: str = "",
) -> Observation:
    """Return an observation under a name that holds the GPUs' keys in place of their numbers."""
    text = f"{name} | {path}"
    named = _GPUS.findall(path) or _GPUS.findall(name)
    devices = dict.fromkeys(keys[one] for one in named if one in keys)
    series = _GPUS.sub(lambda found: keys.get(found[0], found[0]), text)
    if not devices:  # memory of a host belongs to the host
        series = f"{host}: {series}"
    return Observation(series, label or f"{path} ({name})", tuple(devices), value, unit, half_width)


def _unique(observations: Iterable[Observation]) -> Iterator[Observation]:
    """Number what has the same name within a run: copies that are alike, at once."""
    count: dict[str, int] = {}
    for one in observations:
        count[one.series] = number = count.get(one.series, 0) + 1
        if number == 1:
            yield one
        else:
            yield replace(one, series=f"{one.series} #{number}", label=f"{one.label} #{number}")
