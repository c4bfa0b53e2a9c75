"""The spools of a watch as one timeline."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.codec.opening import opened_folder
from lanescope.machine import Machine
from lanescope.store.folder import FolderLock, lock_opened
from lanescope.trace.codes import HOST_DEVICE, IntArray
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.operations import Operations
from lanescope.trace.probe_spool import read_all_probes
from lanescope.trace.ranges import Ranges
from lanescope.trace.side_tables import HostCopies, Managed
from lanescope.trace.spool_header import CutOffError
from lanescope.trace.time_checks import Span
from lanescope.trace.timeline import Timeline
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.trace.trace_stream import Traced, stream_traces

#: As in native/src/watch/spool_room.hpp.
LIMITS = "limits"
#: Spools take no more than this share of what is free, and leave at least that half of it.
_SHARE, _RESERVED_SHARE = 4, 2
#: So much is enough for what a program writes while it is watched.
_MOST_RESERVED_BYTES = 4 << 30


def write_limits(folder: Path, most_bytes: int | None = None) -> FolderLock:
    """Write the limits of the spools in a folder, and hold them until they are released.

    Parameters
    ----------
    most_bytes
        That spools may take together; None: a quarter of what is free now.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    free = shutil.disk_usage(folder).free
    most = free // _SHARE if most_bytes is None else most_bytes
    reserve = min(free // _RESERVED_SHARE, _MOST_RESERVED_BYTES)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with opened_folder(folder, inner=1) as spools:
        descriptor = os.open(LIMITS, flags, 0o644, dir_fd=spools)
    with os.fdopen(descriptor, "w") as file:
        lock = lock_opened(os.dup(descriptor), folder / LIMITS)
        file.write(f"{most} {reserve} {int(lock.held)}\n")
    return lock


#: Spools of traces that are longer together are read piece by piece.
MOST_BYTES_IN_MEMORY = 32 << 20
#: Columns that hold numbers of GPUs.
_DEVICES = ("source_device", "destination_device", "device")

_Rows = TypeVar("_Rows", Operations, Managed)


def read_spools(folder: Path, machine: Machine, start_ns: int, end_ns: int | None) -> Timeline:
    """Return all that lies in the folder of spools, whole or cut off.

    The end of a watch that was killed is that of its last record.
    """
    span = Span(start_ns, end_ns)
    counters = tuple(span.counters(one) for one in read_all_counters(folder))
    probes = tuple(span.probe(one) for one in read_all_probes(folder))
    traced = _traced(folder, machine, span)
    operations = traced.operations
    if end_ns is None:
        ends = [int(c.end_ns[-1]) for c in counters if len(c)]
        ends += [int(p.end_ns[-1]) for p in probes if len(p)]
        ends += [int(piece.end_ns.max()) for piece in operations.pieces()]
        end_ns = max([start_ns, *ends])
    return Timeline(
        start_ns,
        end_ns,
        counters,
        operations,
        traced.processes,
        probes,
        span.ranges(traced.ranges),
        span.managed(traced.managed),
        traced.host_copies,
        span.left_out,
    )


def _traced(folder: Path, machine: Machine, span: Span) -> Traced:
    """Return what traces tell, with the machine's numbers of GPUs; only operations that can be."""

    def renumbered(rows: _Rows, visible: str | None, gpus: Mapping[int, str]) -> _Rows:
        numbers = numbers_by_address(gpus, machine) or gpu_numbers(visible, machine)
        columns: dict[str, Any] = {
            name: _mapped(getattr(rows, name), numbers) for name in _DEVICES if hasattr(rows, name)
        }
        return dataclasses.replace(rows, **columns)

    def possible(rows: Operations, visible: str | None, gpus: Mapping[int, str]) -> Operations:
        return span.operations(renumbered(rows, visible, gpus))

    paths = sorted(folder.glob("trace.*.bin"))
    if sum(path.stat().st_size for path in paths) > MOST_BYTES_IN_MEMORY:
        return stream_traces(paths, possible, renumbered)
    traces = _traces(folder)
    return Traced(
        Operations.concat([possible(t.operations, t.visible_devices, t.gpus) for t in traces]),
        tuple(dataclasses.replace(t.process, unfinished=t.unfinished) for t in traces),
        Ranges.concat([t.ranges for t in traces]),
        Managed.concat([renumbered(t.managed, t.visible_devices, t.gpus) for t in traces]),
        HostCopies.concat([t.host_copies for t in traces]),
    )


def _traces(folder: Path) -> list[Trace]:
    found = []
    for path in sorted(folder.glob("trace.*.bin")):
        with contextlib.suppress(CutOffError):  # cut off in its first line: nothing was traced
            found.append(read_trace_spool(path))
    return found


def numbers_by_address(gpus: Mapping[int, str], machine: Machine) -> tuple[int, ...] | None:
    """Return the machine's number of each GPU of a process, by PCI addresses.

    Parameters
    ----------
    gpus
        The address of each, by the process's own number.

    Returns
    -------
    tuple[int, ...] | None
        None where the process did not tell, or the machine does not know one of the addresses.
    """
    known = {(gpu.pci_address or "").lower(): gpu.index for gpu in machine.gpus}
    addresses = [gpus.get(number, "").lower() for number in range(len(gpus))]
    if not addresses or not all(address and address in known for address in addresses):
        return None
    return tuple(known[address] for address in addresses)


def gpu_numbers(visible: str | None, machine: Machine) -> tuple[int, ...]:
    """Return the machine's number of each GPU that a process sees, in its own order.

    Parameters
    ----------
    visible
        Its ``CUDA_VISIBLE_DEVICES``: numbers, or beginnings of UUIDs; the first that is neither
        ends the list, as for the driver.
    """
    everything = tuple(gpu.index for gpu in machine.gpus)
    if visible is None:
        return everything
    gpus: list[int] = []
    for word in (word.strip() for word in visible.split(",")):
        by_uuid = [g.index for g in machine.gpus if word and (g.uuid or "").startswith(word)]
        by_number = [i for i in everything if word == str(i)]
        if len(found := by_number or by_uuid) != 1:
            break
        gpus += found
    return tuple(gpus)


def _mapped(column: IntArray, numbers: tuple[int, ...]) -> IntArray:
    known = (column >= 0) & (column < len(numbers))
    table = np.array([*numbers, HOST_DEVICE], np.int64)
    return np.where(known, table[np.where(known, column, -1)], column)
