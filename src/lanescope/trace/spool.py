"""The spools of a watch as one timeline."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.machine import Machine
from lanescope.trace.call_spool import recover
from lanescope.trace.codes import HOST_DEVICE, IntArray
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.operations import Operations
from lanescope.trace.probe_spool import read_all_probes
from lanescope.trace.python_lines import PythonLines
from lanescope.trace.ranges import Ranges
from lanescope.trace.side_tables import HostCopies, Managed
from lanescope.trace.spool_header import CutOffError
from lanescope.trace.time_checks import Span
from lanescope.trace.timeline import CALL_TIMES, Process, Timeline
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.trace.trace_stream import Traced, stream_traces

#: Spools of traces that are longer together are read piece by piece.
MOST_BYTES_IN_MEMORY = 32 << 20
#: Columns that hold numbers of GPUs.
_DEVICES = ("source_device", "destination_device", "device")

_Rows = TypeVar("_Rows", Operations, Managed)


def read_spools(folder: Path, machine: Machine, start_ns: int, end_ns: int | None) -> Timeline:
    """Return all that lies in the folder of spools, whole or cut off.

    The end of a watch that was killed is that of its last record.
    """
    recover(folder)
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
        traced.python_lines,
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
        streamed = stream_traces(paths, possible, renumbered)
        return dataclasses.replace(streamed, processes=merged(streamed.processes))
    traces = _traces(folder)
    return Traced(
        Operations.concat([possible(t.operations, t.visible_devices, t.gpus) for t in traces]),
        merged(dataclasses.replace(t.process, unfinished=t.unfinished) for t in traces),
        Ranges.concat([t.ranges for t in traces]),
        Managed.concat([renumbered(t.managed, t.visible_devices, t.gpus) for t in traces]),
        HostCopies.concat([t.host_copies for t in traces]),
        PythonLines.concat([t.python_lines for t in traces]),
    )


def merged(processes: Iterable[Process]) -> tuple[Process, ...]:
    """Return processes, those with a spool of calls and one of ranges only once."""
    found: list[Process] = []
    for one in processes:
        same = [p for p in found if p.pid == one.pid and p.timed_by != one.timed_by]
        if not same:
            found.append(one)
            continue
        both = (same[0], one)
        calls = next(process for process in both if process.timed_by == CALL_TIMES)
        found[found.index(same[0])] = dataclasses.replace(
            calls, lost_records=sum(process.lost_records for process in both)
        )
    return tuple(found)


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
