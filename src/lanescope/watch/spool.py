"""The spools of a watch as one timeline."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.watch.codes import HOST_DEVICE, IntArray
from lanescope.watch.counter_spool import read_all_counters
from lanescope.watch.operations import Operations
from lanescope.watch.probe_spool import read_all_probes
from lanescope.watch.ranges import Ranges
from lanescope.watch.side_tables import HostCopies, Managed
from lanescope.watch.timeline import Process, Timeline
from lanescope.watch.trace_spool import Trace, read_trace_spool

#: Columns that hold numbers of GPUs.
_DEVICES = ("source_device", "destination_device", "device")


def read_spools(folder: Path, machine: Machine, start_ns: int, end_ns: int | None) -> Timeline:
    """Return all that lies in the folder of spools, whole or cut off.

    The end of a watch that was killed is that of its last record.
    """
    counters = read_all_counters(folder)
    probes = read_all_probes(folder)
    traces = _traces(folder)
    operations = Operations.concat([_renumbered(trace, machine) for trace in traces])
    ranges = Ranges.concat([trace.ranges for trace in traces])
    managed = Managed.concat([_renumbered_managed(trace, machine) for trace in traces])
    called = HostCopies.concat([trace.host_copies for trace in traces])
    processes: tuple[Process, ...] = tuple(
        dataclasses.replace(trace.process, unfinished=trace.unfinished) for trace in traces
    )
    if end_ns is None:
        ends = [int(c.end_ns[-1]) for c in counters if len(c)]
        ends += [int(p.end_ns[-1]) for p in probes if len(p)]
        ends += [int(operations.end_ns.max())] if len(operations) else []
        end_ns = max([start_ns, *ends])
    return Timeline(
        start_ns, end_ns, counters, operations, processes, probes, ranges, managed, called
    )


def _traces(folder: Path) -> list[Trace]:
    found = []
    for path in sorted(folder.glob("trace.*.bin")):
        with contextlib.suppress(InputError):  # cut off in its first line: nothing was traced
            found.append(read_trace_spool(path))
    return found


def _renumbered(trace: Trace, machine: Machine) -> Operations:
    """Operations with the machine's numbers of GPUs instead of the process's own."""
    numbers = gpu_numbers(trace.visible_devices, machine)
    columns: dict[str, Any] = {
        name: _mapped(getattr(trace.operations, name), numbers) for name in _DEVICES
    }
    return dataclasses.replace(trace.operations, **columns)


def _renumbered_managed(trace: Trace, machine: Machine) -> Managed:
    numbers = gpu_numbers(trace.visible_devices, machine)
    return dataclasses.replace(trace.managed, device=_mapped(trace.managed.device, numbers))


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
    seen: list[int] = []
    for word in (word.strip() for word in visible.split(",")):
        by_uuid = [g.index for g in machine.gpus if word and (g.uuid or "").startswith(word)]
        by_number = [i for i in everything if word == str(i)]
        if len(found := by_number or by_uuid) != 1:
            break
        seen += found
    return tuple(seen)


def _mapped(column: IntArray, numbers: tuple[int, ...]) -> IntArray:
    known = (column >= 0) & (column < len(numbers))
    table = np.array([*numbers, HOST_DEVICE], np.int64)
    return np.where(known, table[np.where(known, column, -1)], column)
