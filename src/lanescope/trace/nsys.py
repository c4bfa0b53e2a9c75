"""Captures of Nsight Systems as watches: ``nsys export --type sqlite`` makes what is read.

Such a watch has operations and no counters.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine
from lanescope.store.folder import State
from lanescope.trace.codes import LATEST_NS, IntArray
from lanescope.trace.nsys_tables import GPUS, Tables, is_cuda_gpu, is_database, read_operations
from lanescope.trace.operations import Operations
from lanescope.trace.run import SourceRecord, WatchManifest, WatchRun
from lanescope.trace.time_checks import FAR_NS, TimeWindow
from lanescope.trace.timeline import Process, Ranges, Timeline, range_name

EVENTS = "NVTX_EVENTS"
#: Kinds of events, as documented.
_PUSHED, _STARTED, _DOMAIN = 59, 60, 75
_PART, _MASK = 24, (1 << 24) - 1


def read_ranges(tables: Tables, epoch_ns: int) -> Ranges:
    """Return the ranges of an export; none where it has no table of them.

    Parameters
    ----------
    epoch_ns
        When the capture began, nanoseconds since 1970: times in the table are from then.
    """
    more = {"end": -1, "eventType": 0, "globalTid": 0, "domainId": 0, "textId": 0}
    found = tables.whole(EVENTS, ("start",), more)
    if found is None:
        return Ranges.empty()
    chosen = np.isin(found["eventType"], (_PUSHED, _STARTED))
    rows = {key: column[chosen] for key, column in found.items()}
    texts = tables.texts(rows["textId"].tolist())
    own = _own_texts(tables)
    pid = rows["globalTid"] >> _PART & _MASK
    domains = _domains(tables)
    named = [
        range_name(domains.get((process, domain), ""), own_text or texts.get(text, ""))
        for process, domain, text, own_text in zip(
            pid.tolist(),
            rows["domainId"].tolist(),
            rows["textId"].tolist(),
            own or [""] * pid.size,
            strict=True,
        )
    ]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(named))}
    ended = rows["end"] >= 0
    ends: IntArray = np.where(ended, rows["end"] + epoch_ns, 0)
    return Ranges.of(
        tuple(numbers),
        pid=pid,
        thread=rows["globalTid"] & _MASK,
        start_ns=rows["start"] + epoch_ns,
        end_ns=ends,
        pushed=rows["eventType"] == _PUSHED,
        name=[numbers[name] for name in named],
    )


def _own_texts(tables: Tables) -> list[str]:
    """Return the texts that stand in the table itself, a row each; registered ones do not."""
    if not {"text", "eventType"} <= tables.columns(EVENTS):
        return []
    kinds = (_PUSHED, _STARTED)
    query = f"SELECT text FROM {EVENTS} WHERE eventType IN (?, ?)"
    return ["" if text is None else str(text) for (text,) in tables.rows(query, kinds)]


def _domains(tables: Tables) -> dict[tuple[int, int], str]:
    """Return names of domains by process and number; the default domain has none."""
    if not {"text", "eventType", "domainId", "globalTid"} <= tables.columns(EVENTS):
        return {}
    query = f"SELECT globalTid, domainId, text FROM {EVENTS} WHERE eventType = ? AND domainId > 0"
    return {
        (int(thread or 0) >> _PART & _MASK, int(domain)): str(text or "")
        for thread, domain, text in tables.rows(query, (_DOMAIN,))
    }


NSYS = "nsys"
_START, _SPAN = "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS"
_GPU_COLUMNS = (
    *("id", "deviceId", "name", "busLocation", "uuid", "totalMemory", "smCount", "asyncEngines"),
    *("computeMajor", "computeMinor"),
)
#: What an export says of itself; the second is its name up to 2022.4.
_EXPORT_FACTS = ("META_DATA_EXPORT", "EXPORT_META_DATA")


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
    stated = _stated_span(tables, epoch_ns)
    span = TimeWindow(*stated) if stated else _around(operations, epoch_ns)
    operations = span.operations(operations)
    ranges = span.timed(read_ranges(tables, epoch_ns))
    start_ns, end_ns = _span(stated, epoch_ns, operations)
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
    """Return the capture's start and end; None where it does not tell.

    `startTime` and `stopTime` are of another clock: times of events are from the start.
    """
    lasted = tables.first(_SPAN, "duration").get("duration")
    return None if lasted is None or lasted < 0 else (epoch_ns, epoch_ns + int(lasted))


def _around(operations: Operations, epoch_ns: int) -> TimeWindow:
    """Return when operations can have been of which only their own times tell."""
    middle = int(np.median(operations.start_ns)) if len(operations) else epoch_ns
    return TimeWindow(middle - FAR_NS, middle + FAR_NS)


def _span(stated: tuple[int, int] | None, epoch_ns: int, operations: Operations) -> tuple[int, int]:
    """Return the capture's start and end, which hold all operations."""
    if not len(operations):
        return stated or (epoch_ns, epoch_ns)
    first, last = int(operations.start_ns.min()), int(operations.end_ns.max())
    return (min(stated[0], first), max(stated[1], last)) if stated else (first, last)


def _processes(tables: Tables, operations: Operations, start_ns: int) -> tuple[Process, ...]:
    """Return the processes that used a GPU; nsys lists all that ran meanwhile."""
    names = {one.get("pid"): one.get("name") for one in tables.records("PROCESSES", "pid", "name")}
    pids = sorted(set(operations.pid.tolist()))
    return tuple(Process(p, str(names.get(p) or f"process {p}"), start_ns) for p in pids)


def _machine(tables: Tables, operations: Operations) -> Machine:
    facts = tables.records("TARGET_INFO_SYSTEM_ENV", "name", "value")
    environment = {one.get("name"): one.get("value") for one in facts}
    rows = {_number(one): one for one in tables.records(GPUS, *_GPU_COLUMNS) if is_cuda_gpu(one)}
    gpus = tuple(_gpu(number, rows[number]) for number in sorted(rows) if number >= 0)
    if not gpus:
        numbers = sorted(set(operations.device.tolist()))
        gpus = tuple(Gpu(number, "unknown GPU") for number in numbers)
    name = str(environment.get("Hostname") or "machine of the capture")
    return Machine(name, gpus=gpus, described=True)


def _number(row: Mapping[str, Any]) -> int:
    """Return the number of a GPU, by which the first versions had another name; -1: none."""
    return int(row.get("id", row.get("deviceId", -1)))


def _gpu(number: int, row: Mapping[str, Any]) -> Gpu:
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    return Gpu(
        number,
        str(row.get("name") or "unknown GPU"),
        pci_address=row.get("busLocation") or None,
        uuid=row.get("uuid"),
        memory_bytes=row.get("totalMemory"),
        compute_capability=None if major is None or minor is None else (major, minor),
        multiprocessors=row.get("smCount"),
        copy_engines=row.get("asyncEngines"),
    )


def _version(tables: Tables) -> str:
    """Return the version of lanescope, and of nsys where the export tells it."""
    from lanescope._version import __version__

    facts = {
        one.get("name"): one.get("value")
        for table in _EXPORT_FACTS
        for one in tables.records(table, "name", "value")
    }
    product = facts.get("EXPORT_PRODUCT_VERSION")
    return f"{__version__}, nsys {product}" if product else __version__
