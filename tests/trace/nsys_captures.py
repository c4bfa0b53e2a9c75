"""Exports of Nsight Systems, made of plain numbers, with the tables and columns of real ones.

`LAYOUTS` has what real captures of these versions had, which were read and not stored here; the
tables below are those of 2026.1.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

EPOCH = 1_795_281_229_914_609_055
PID, TID, OTHER = 4321, 4325, 5000
US, MS = 1_000, 1_000_000

_COPIES = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, "
    "copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, "
    "srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, "
    "migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER"
)
_MEMSETS = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "graphNodeId INTEGER, memKind INTEGER"
)
_KERNELS = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, "
    "shortName INTEGER NOT NULL"
)
_CALLS = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
    "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
    "returnValue INTEGER NOT NULL, callchainId INTEGER"
)
_ENUM = "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT"
TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "ANALYSIS_DETAILS": "globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_GPU": "vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, "
    "totalMemory INTEGER, smCount INTEGER, uuid TEXT, asyncEngines INTEGER, "
    "computeMajor INTEGER, computeMinor INTEGER, cuDevice INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, "
    "numMultiprocessors INTEGER",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT, name TEXT, "
    "nameEnum INTEGER, value TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "ENUM_CUDA_MEMCPY_OPER": _ENUM,
    "ENUM_CUDA_MEM_KIND": _ENUM,
    "CUPTI_ACTIVITY_KIND_MEMCPY": _COPIES,
    "CUPTI_ACTIVITY_KIND_MEMSET": _MEMSETS,
    "CUPTI_ACTIVITY_KIND_KERNEL": _KERNELS,
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALLS,
}


@dataclass(frozen=True)
class Layout:
    """What an export of a version has not, or has by another name.

    Attributes
    ----------
    version, schema
        Of Nsight Systems, and of its export.
    without, without_columns
        Tables, and columns of tables, that a newer version has.
    facts
        The table in which the export says its own version.
    """

    version: str
    schema: str
    without: tuple[str, ...] = ()
    without_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: str = "META_DATA_EXPORT"


_COPY, _SET, _RUN = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("MEMCPY", "MEMSET", "KERNEL"))
_NO_COUNT = {_COPY: ("copyCount",)}
_NO_GREEN = {_COPY: ("greenContextId", "copyCount")} | dict.fromkeys(
    (_SET, _RUN), ("greenContextId",)
)
_NO_DEVICES = ("TARGET_INFO_CUDA_DEVICE",)
_NO_KINDS = (*_NO_DEVICES, "ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND")
_FEW = {"TARGET_INFO_CUDA_DEVICE": ("uuid", "numMultiprocessors")}
LAYOUTS = (
    Layout("2022.1.3.3", "2.9.1", _NO_KINDS, _NO_GREEN, "EXPORT_META_DATA"),
    Layout("2022.2.1.31", "2.9.1", _NO_KINDS, _NO_GREEN, "EXPORT_META_DATA"),
    Layout("2022.4.2.1", "3.0.0", _NO_DEVICES, _NO_GREEN, "EXPORT_META_DATA"),
    Layout("2023.3.1.92", "3.4.0", _NO_DEVICES, _NO_GREEN),
    Layout("2024.4.1.61", "3.11.2", _NO_DEVICES, _NO_COUNT),
    Layout("2024.5.1.113", "3.13.2", _NO_DEVICES, _NO_COUNT),
    Layout("2025.3.2.474", "3.20.3", (), _FEW),
    Layout("2026.1.1.204", "3.24.14"),
    Layout("2026.2.1.210", "3.25.0", ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE")),
)


class Bytes(bytes):
    """Bytes that are stored as a text, which they are not."""


def process(pid: int) -> int:
    """The global number of a process; bits above tell the machine."""
    return (1 << 48) | (pid << 24)


def thread(pid: int, tid: int) -> int:
    return process(pid) | tid


def copy(at, lasts, size, kind, ends, correlation, pid=PID, device=0, devices=(None, None)):
    """A row of copies; `ends` are the kinds of memory by nsys's numbers."""
    row = (at, at + lasts, device, 1, None, 7, correlation, process(pid), size, kind, None)
    return (*row, *ends, devices[0], None, devices[1], None, None, None, None, 1)


def rows() -> dict[str, list[tuple[object, ...]]]:
    """A program that copies down, computes, and copies back; a second GPU and a page migration."""
    return {
        "StringIds": [
            (1, "cudaMemcpyAsync_v3020"),
            (2, "cudaMemcpy_v3020"),
            (3, "cudaLaunchKernel_v7000"),
            (4, "void add<float>(float*)"),
            (5, "add"),
        ],
        "PROCESSES": [(process(PID), PID, "./app"), (process(OTHER), OTHER, "bash")],
        # start and stop are of a clock that no other table uses
        "ANALYSIS_DETAILS": [(1 << 48, 100 * MS, 515_396_806 * MS, 515_396_906 * MS)],
        "TARGET_INFO_SESSION_START_TIME": [(EPOCH, "2026-11-21 17:53:49", "")],
        "TARGET_INFO_GPU": [
            *(
                (0, i, "H200", f"0000:{17 + i}:00.0", 1 << 37, 132, f"uuid-{i}", 3, 9, 0, 1 - i)
                for i in (1, 0)
            ),
            (0, 2, "Microsoft Basic Render Driver", "", 0, 0, "", 0, 0, 0, 0),
        ],
        "TARGET_INFO_CUDA_DEVICE": [(1, 0, PID, "uuid-1", 132), (0, 1, PID, "uuid-0", 132)],
        "TARGET_INFO_SYSTEM_ENV": [
            (1, "", "Hostname", 100, "node17"),
            (1, "", "EventLibSourcesInfo", 891, Bytes(b"\n\x8f\x00")),
        ],
        "META_DATA_EXPORT": [("EXPORT_PRODUCT_VERSION", "2024.6.2.225")],
        "ENUM_CUDA_MEMCPY_OPER": [
            (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
            (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
            (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
            (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        ],
        "ENUM_CUDA_MEM_KIND": [
            (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
            (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
            (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
            (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            copy(30 * MS, 20 * MS, 400_000_000, 2, (2, 0), 12),
            copy(10 * MS, 8 * MS, 400_000_000, 1, (1, 2), 10),
            copy(60 * MS, MS, 1 << 20, 10, (2, 2), 14, devices=(0, 1)),
            copy(70 * MS, MS, 65536, 11, (4, 4), 0),
        ],
        "CUPTI_ACTIVITY_KIND_MEMSET": [
            (5 * MS, 5 * MS + US, 0, 1, None, 7, 9, process(PID), 0, 4096, None, 2)
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            (20 * MS, 25 * MS, 0, 1, None, 7, 11, process(PID), 4, 5),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            (9 * MS, 9 * MS + 5 * US, 0, thread(PID, TID), 10, 1, 0, None),
            (19 * MS, 19 * MS + US, 0, thread(PID, TID), 11, 3, 0, None),
            (29 * MS, 51 * MS, 0, thread(PID, TID), 12, 2, 0, None),
            (59 * MS, 59 * MS + US, 0, thread(OTHER, 1), 14, 2, 0, None),  # another process's
        ],
    }


def capture(
    path: Path,
    *,
    without: tuple[str, ...] = (),
    without_columns: dict[str, tuple[str, ...]] | None = None,
    **changed: list[tuple[object, ...]],
) -> Path:
    """Write an export, without some tables or columns, or with other rows in some tables."""
    content = rows() | changed
    with sqlite3.connect(path) as database:
        for table in TABLES:
            if table in without:
                continue
            database.execute(f"CREATE TABLE {table} ({TABLES[table]})")
            for row in content[table]:
                marks = ", ".join("CAST(? AS TEXT)" if type(v) is Bytes else "?" for v in row)
                database.execute(f"INSERT INTO {table} VALUES ({marks})", row)
        for table, columns in (without_columns or {}).items():
            for column in columns:
                database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    database.close()
    return path


def capture_of(path: Path, layout: Layout) -> Path:
    """Write an export as a version lays it out."""
    facts = [("EXPORT_PRODUCT_VERSION", layout.version), ("EXPORT_SCHEMA_VERSION", layout.schema)]
    columns = dict(layout.without_columns)
    capture(path, without=layout.without, without_columns=columns, META_DATA_EXPORT=facts)
    if layout.facts != "META_DATA_EXPORT":
        with sqlite3.connect(path) as database:
            database.execute(f"ALTER TABLE META_DATA_EXPORT RENAME TO {layout.facts}")
        database.close()
    return path
