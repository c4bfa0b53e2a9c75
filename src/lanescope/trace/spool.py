"""The spools of a watch as one timeline."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.machine import Machine
from lanescope.trace.call_fallback import Coverages
from lanescope.trace.call_spool import recover
from lanescope.trace.codes import HOST_DEVICE, IntArray
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.operations import Operations
from lanescope.trace.probe_spool import read_all_probes
from lanescope.trace.python_lines import PythonLines
from lanescope.trace.ranges import Ranges
from lanescope.trace.ring_folder import CALL_SPOOLS
from lanescope.trace.side_tables import HostCopies, Managed
from lanescope.trace.spool_header import CutOffError
from lanescope.trace.time_checks import Span
from lanescope.trace.timeline import CALL_TIMES, Timeline
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

    paths = _trace_spools(folder)
    if sum(path.stat().st_size for path in paths) > MOST_BYTES_IN_MEMORY:
        return stream_traces(paths, possible, renumbered)
    coverages = Coverages()
    traces = [_covered(one, coverages) for one in _traces(paths)]
    return Traced(
        Operations.concat([possible(t.operations, t.visible_devices, t.gpus) for t in traces]),
        coverages.processes(),
        Ranges.concat([t.ranges for t in traces]),
        Managed.concat([renumbered(t.managed, t.visible_devices, t.gpus) for t in traces]),
        HostCopies.concat([t.host_copies for t in traces]),
        PythonLines.concat([t.python_lines for t in traces]),
    )


def _trace_spools(folder: Path) -> list[Path]:
    """Return the spools of traces, then those of calls, which count where a trace is missing."""
    return sorted(folder.glob("trace.*.bin"), key=lambda path: (path.match(CALL_SPOOLS), path))


def _covered(trace: Trace, coverages: Coverages) -> Trace:
    """Return a trace as it is; of calls, those copies that no trace of the same process has."""
    process = dataclasses.replace(trace.process, unfinished=trace.unfinished)
    if process.timed_by == CALL_TIMES:
        coverage = coverages.of_calls(process.pid, process.start_ns)
        trace = dataclasses.replace(trace, operations=coverage.only_missing(trace.operations))
    else:
        coverage = coverages.of_trace(process.pid, process.start_ns)
        coverage.add(trace.operations)
    coverage.end(process, cut_short=trace.cut_short)
    return trace


def _traces(paths: Sequence[Path]) -> list[Trace]:
    found = []
    for path in paths:
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
