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
from lanescope.watch.timeline import Process, Timeline
from lanescope.watch.trace_spool import Trace, read_trace_spool
from lanescope.watch.trace_stream import stream_traces

#: Spools of traces that are longer together are read piece by piece.
MOST_BYTES_IN_MEMORY = 32 << 20
#: Columns that hold numbers of GPUs.
_DEVICES = ("source_device", "destination_device", "device")


def read_spools(folder: Path, machine: Machine, start_ns: int, end_ns: int | None) -> Timeline:
    """Return all that lies in the folder of spools, whole or cut off.

    The end of a watch that was killed is that of its last record.
    """
    counters = read_all_counters(folder)
    probes = read_all_probes(folder)
    operations, processes = _traced(folder, machine)
    if end_ns is None:
        ends = [int(c.end_ns[-1]) for c in counters if len(c)]
        ends += [int(p.end_ns[-1]) for p in probes if len(p)]
        ends += [int(piece.end_ns.max()) for piece in operations.pieces()]
        end_ns = max([start_ns, *ends])
    return Timeline(start_ns, end_ns, counters, operations, processes, probes)


def _traced(folder: Path, machine: Machine) -> tuple[Operations, tuple[Process, ...]]:
    """Return operations with the machine's numbers of GPUs, and the processes."""

    def renumbered(operations: Operations, visible: str | None) -> Operations:
        numbers = gpu_numbers(visible, machine)
        columns: dict[str, Any] = {
            name: _mapped(getattr(operations, name), numbers) for name in _DEVICES
        }
        return dataclasses.replace(operations, **columns)

    paths = sorted(folder.glob("trace.*.bin"))
    if sum(path.stat().st_size for path in paths) > MOST_BYTES_IN_MEMORY:
        return stream_traces(paths, renumbered)
    traces = _traces(folder)
    parts = [renumbered(trace.operations, trace.visible_devices) for trace in traces]
    processes = (dataclasses.replace(t.process, unfinished=t.unfinished) for t in traces)
    return Operations.concat(parts), tuple(processes)


def _traces(folder: Path) -> list[Trace]:
    found = []
    for path in sorted(folder.glob("trace.*.bin")):
        with contextlib.suppress(InputError):  # cut off in its first line: nothing was traced
            found.append(read_trace_spool(path))
    return found


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
