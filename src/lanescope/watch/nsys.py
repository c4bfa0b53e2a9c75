"""Captures of Nsight Systems as watches: ``nsys export --type sqlite`` makes what is read.

Such a watch has operations and no counters.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine
from lanescope.run.folder import State
from lanescope.watch.codes import LATEST_NS
from lanescope.watch.nsys_operations import read_operations
from lanescope.watch.nsys_ranges import read_ranges
from lanescope.watch.nsys_tables import Tables, is_database
from lanescope.watch.operations import Operations
from lanescope.watch.possible import FAR_NS, Span
from lanescope.watch.run import SourceRecord, WatchManifest, WatchRun
from lanescope.watch.timeline import Process, Timeline

NSYS = "nsys"
_START, _SPAN = "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS"
_GPU_COLUMNS = (
    *("id", "name", "busLocation", "uuid", "totalMemory", "smCount", "asyncEngines"),
    *("computeMajor", "computeMinor"),
)


def read_nsys(path: Path) -> WatchRun:
    """Read an SQLite export of Nsight Systems.

    Versions differ in tables and columns; what is missing becomes a note where a watch can be
    read without it.

    Raises
    ------
    InputError
        If the file is no such export, damaged, or lacks what cannot be done without.
    """
    if not is_database(path):
        raise InputError(
            f"{path} is no SQLite export of nsys; make one with 'nsys export --type sqlite "
            "REPORT.nsys-rep', or name a run's folder"
        )
    with Tables(path) as tables:
        try:
            return _read(path, tables)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{path} is damaged: {error}; export it again with 'nsys export --type sqlite'"
            ) from error


def _read(path: Path, tables: Tables) -> WatchRun:
    notes: list[str] = []
    epoch_ns = _epoch(tables, notes)
    operations = read_operations(tables, epoch_ns, notes)
    told = _stated_span(tables, epoch_ns)
    span = Span(*told) if told else _around(operations, epoch_ns)
    operations = span.operations(operations)
    ranges = span.ranges(read_ranges(tables, epoch_ns))
    start_ns, end_ns = _span(told, epoch_ns, operations)
    if not 0 <= start_ns <= end_ns <= LATEST_NS:
        raise ValueError("its time is before 1970, or after 2116")
    processes = _processes(tables, operations, start_ns)
    if "GPU_METRICS" in tables.names:
        notes.append("GPU metrics are percents of a theoretical peak, and are not read.")
    manifest = WatchManifest(
        f"lanescope report {path}",
        tuple(process.command for process in processes[:1]),
        datetime.fromtimestamp(epoch_ns // 10**9, UTC).isoformat(),
        _version(tables),
        _machine(tables, operations),
        start_ns,
        end_ns,
        state=State.COMPLETE,
        sources=(SourceRecord(NSYS, used=True),),
        notes=(f"Read from {path.name}: no counters, and so no wire bytes.", *notes),
    )
    timeline = Timeline(
        start_ns, end_ns, (), operations, processes, ranges=ranges, impossible=span.left_out
    )
    return WatchRun(manifest, timeline)


def _epoch(tables: Tables, notes: list[str]) -> int:
    epoch = tables.first(_START, "utcEpochNs").get("utcEpochNs")
    if epoch is None:
        notes.append(
            f"The time of day is not known, as there is no {_START}.utcEpochNs: times are from "
            "the start of the capture, as if that had been 1970."
        )
    return int(epoch or 0)


def _stated_span(tables: Tables, epoch_ns: int) -> tuple[int, int] | None:
    """Return the capture's start and end; None where it does not tell."""
    told = tables.first(_SPAN, "startTime", "stopTime")
    start, stop = told.get("startTime"), told.get("stopTime")
    if start is None or stop is None or stop < start:
        return None
    return epoch_ns + int(start), epoch_ns + int(stop)


def _around(operations: Operations, epoch_ns: int) -> Span:
    """Return when operations can have been of which only their own times tell."""
    middle = int(np.median(operations.start_ns)) if len(operations) else epoch_ns
    return Span(middle - FAR_NS, middle + FAR_NS)


def _span(told: tuple[int, int] | None, epoch_ns: int, operations: Operations) -> tuple[int, int]:
    """Return the capture's start and end; where it does not tell, those of its operations."""
    if not len(operations):
        return told or (epoch_ns, epoch_ns)
    first, last = int(operations.start_ns.min()), int(operations.end_ns.max())
    return told if told and told[0] <= first and last <= told[1] else (first, last)


def _processes(tables: Tables, operations: Operations, start_ns: int) -> tuple[Process, ...]:
    """Return the processes that used a GPU; nsys lists all that ran meanwhile."""
    names = {one.get("pid"): one.get("name") for one in tables.records("PROCESSES", "pid", "name")}
    pids = sorted(set(operations.pid.tolist()))
    return tuple(Process(p, str(names.get(p) or f"process {p}"), start_ns) for p in pids)


def _machine(tables: Tables, operations: Operations) -> Machine:
    told = tables.records("TARGET_INFO_SYSTEM_ENV", "name", "value")
    environment = {one.get("name"): one.get("value") for one in told}
    gpus = tuple(
        _gpu(one) for one in tables.records("TARGET_INFO_GPU", *_GPU_COLUMNS) if "id" in one
    )
    if not gpus:
        numbers = sorted(set(operations.device.tolist()))
        gpus = tuple(Gpu(number, "unknown GPU") for number in numbers)
    name = str(environment.get("Hostname") or "machine of the capture")
    return Machine(name, gpus=gpus, described=True)


def _gpu(row: dict[str, Any]) -> Gpu:
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    return Gpu(
        int(row["id"]),
        str(row.get("name") or "unknown GPU"),
        pci_address=row.get("busLocation"),
        uuid=row.get("uuid"),
        memory_bytes=row.get("totalMemory"),
        compute_capability=None if major is None or minor is None else (major, minor),
        multiprocessors=row.get("smCount"),
        copy_engines=row.get("asyncEngines"),
    )


def _version(tables: Tables) -> str:
    """Return the version of lanescope, and of nsys where the export tells it."""
    from lanescope._version import __version__

    told = {
        one.get("name"): one.get("value")
        for one in tables.records("META_DATA_EXPORT", "name", "value")
    }
    product = told.get("EXPORT_PRODUCT_VERSION")
    return f"{__version__}, nsys {product}" if product else __version__
