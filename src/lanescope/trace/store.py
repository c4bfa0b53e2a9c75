"""Run folders of watches: raw spools while it goes on, columns afterwards.

Layout::

    manifest.json        program, command, start, end, state, sources
    machine.toml         the machine, as a machine file
    spool/               what sources append to while they watch
    counters.parquet     a row for each record of each counter
    operations.parquet   a row for each copy, memset and kernel
    processes.json       the processes that were traced
    ranges.parquet       a row for each NVTX range, where there were any
    managed.parquet      a row for each migration and fault of managed memory, where traced
    host_copies.parquet  a row for what each call that copies was passed, where asked for
    python_lines.parquet a row for each copy whose line of Python was requested
    link-errors.json     error counters of links, at the start and at the end
    turns.json           how long the program took, watched and unwatched, where asked for
    boost.json           what became of copies that were to be carried, where asked for
    probe.parquet        a row for each record of each probe, where there was one
    report.html          the page, when it was written

Spools are read as they are when lanescope itself was killed; they are removed when the
columns made of them are on the disk.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lanescope.codec.fields import shown
from lanescope.codec.files import reading, sync_folder, writing_to
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.store.folder import MANIFEST, State, read_manifest, verb_of
from lanescope.trace.call_spool import recover
from lanescope.trace.codes import HOST_DEVICE, IntArray
from lanescope.trace.columns import (
    COUNTERS,
    OPERATIONS,
    PROBE,
    PROCESSES,
    read_columns,
    write_columns,
)
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.link_error_log import read_link_errors
from lanescope.trace.operations import Operations
from lanescope.trace.probe import PROBE_SOURCE, read_all_probes
from lanescope.trace.run import WATCH, WatchManifest, WatchRun, read_boost, read_turns
from lanescope.trace.segments import DEFAULT_LAST_NS, is_continuous, read_last, was_killed
from lanescope.trace.side_tables import HostCopies, Managed, PythonLines
from lanescope.trace.spool_records import Damage
from lanescope.trace.stored_columns import all_in_memory
from lanescope.trace.time_checks import FAR_NS, TimeWindow
from lanescope.trace.timeline import CALL_TIMES, Ranges, Timeline
from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.trace.trace_stream import Coverages, Traced, stream_traces
from lanescope.trace.watch_folder import CALL_SPOOLS, SPOOL

#: What a spool is called while it is removed.
_REMOVED = ".spool"
#: Spools of traces that are longer together are read piece by piece.
MOST_BYTES_IN_MEMORY = 32 << 20
#: Columns that hold numbers of GPUs.
_DEVICES = ("source_device", "destination_device", "device")

_Rows = TypeVar("_Rows", Operations, Managed)


def make_columns(
    folder: Path, manifest: WatchManifest, update: Callable[[WatchManifest], None]
) -> tuple[WatchManifest, Timeline]:
    """Make columns of the spools of a watch, remove these, and return what is known of it then.

    A spool goes only when its columns can be read, and all of them at once: what is left
    of them when that is interrupted, or as some were damaged, is no watch any more.

    Parameters
    ----------
    update
        Stores the manifest.
    """
    spool = folder / SPOOL
    with writing_to(folder):
        timeline = read_spools(spool, manifest.machine, manifest.start_ns, manifest.end_ns)
        write_columns(folder, timeline)
        manifest = dataclasses.replace(
            manifest, impossible=timeline.impossible, damage=timeline.damage
        )
        update(manifest)
        sync_folder(folder)
        timeline = _read_back(folder, timeline)
        spool.rename(folder / _REMOVED)
        if not manifest.damage:
            shutil.rmtree(folder / _REMOVED)
    return manifest, timeline


def _read_back(folder: Path, written: Timeline) -> Timeline:
    """Return what was written, from the disk; of counters that are in memory, these.

    Raises
    ------
    OSError, InputError
        If it cannot be read, or is not all there.
    """
    timeline = read_columns(folder, written.start_ns, written.end_ns)
    if _lengths(timeline) != _lengths(written):
        raise InputError(f"the columns in {folder} lack records that were written")
    counters = [
        dataclasses.replace(one, own=one.maybe_own) if isinstance(one.end_ns, np.ndarray) else read
        for one, read in zip(written.counters, timeline.counters, strict=True)
    ]
    return dataclasses.replace(
        timeline,
        counters=tuple(counters),
        impossible=written.impossible,
        damage=written.damage,
    )


def _lengths(timeline: Timeline) -> list[int]:
    return [*map(len, timeline.counters), *map(len, timeline.probes), len(timeline.operations)]


def read_watch(folder: Path, last_ns: int | None = None, until_ns: int | None = None) -> WatchRun:
    """Read the folder of a watch, finished or not.

    Parameters
    ----------
    last_ns
        Of a watch without an end: how much of it; None: an hour.
    until_ns
        Of such a watch: up to when, nanoseconds since 1970; None: the newest record.

    Raises
    ------
    InputError
        If it is no such folder, of another schema version, or damaged.
    """
    if (verb := verb_of(folder)) != WATCH:
        raise InputError(f"{folder} is a run of {shown(verb)} and no watch; name another")
    manifest = read_manifest(WatchManifest, folder)
    if is_continuous(folder):
        timeline = read_last(folder, last_ns or DEFAULT_LAST_NS, until_ns)
        manifest = dataclasses.replace(
            manifest,
            start_ns=timeline.start_ns,
            end_ns=timeline.end_ns,
            state=State.RUNNING if was_killed(folder) else State.COMPLETE,
        )
        return WatchRun(manifest, timeline, folder)
    start_ns, end_ns = manifest.start_ns, manifest.end_ns
    if end_ns is not None and end_ns - start_ns > FAR_NS:
        raise InputError(
            f"{folder / MANIFEST}: field 'end_ns' is years from 'start_ns'; name another run"
        )
    if end_ns is not None and end_ns < start_ns:  # stored when watches still followed the clock
        note = "The clock was set back meanwhile: the end of the watch is that of its last record."
        manifest = dataclasses.replace(manifest, notes=(*manifest.notes, note))
        end_ns = None
    with reading(folder):
        if (folder / SPOOL).is_dir():
            timeline = read_spools(folder / SPOOL, manifest.machine, start_ns, end_ns)
        else:
            timeline = read_columns(folder, start_ns, end_ns)
            _require_whole(folder, manifest, timeline)
    timeline = dataclasses.replace(
        timeline,
        impossible=timeline.impossible + manifest.impossible,
        damage=(*manifest.damage, *timeline.damage),
    )
    errors, turns = read_link_errors(folder), read_turns(folder)
    return WatchRun(manifest, timeline, folder, errors, turns, read_boost(folder))


def _require_whole(folder: Path, manifest: WatchManifest, timeline: Timeline) -> None:
    """Refuse files that lack what the manifest, or one of the others, says is there.

    Raises
    ------
    InputError
        If one lacks something.
    """
    if manifest.damage:  # it was left out, and that is said
        return
    known = {process.pid for process in timeline.processes}
    if others := sorted(timeline.operations.values("pid") - known):
        raise InputError(
            f"{folder / OPERATIONS}: column 'pid' holds {others[0]}, and {folder / PROCESSES} has "
            "no such process: they do not belong together; name another run"
        )
    there = {name for one in timeline.counters for name in (one.source, f"{one.source}.g{one.gpu}")}
    there |= {f"{PROBE_SOURCE}.g{one.gpu}" for one in timeline.probes}
    for source in manifest.sources:
        if source.used and source.samples and source.name not in there:
            path = folder / (PROBE if source.name.startswith(PROBE_SOURCE) else COUNTERS)
            raise InputError(
                f"{path}: 'series' lacks {source.name}, which took {source.samples:,} samples in "
                "this watch; name another run"
            )


def is_watch(folder: Path) -> bool:
    """Whether a run folder holds a watch."""
    return verb_of(folder) == WATCH


def read_spools(
    folder: Path,
    machine: Machine,
    start_ns: int,
    end_ns: int | None,
) -> Timeline:
    """Return all that lies in the folder of spools, whole or cut off.

    The end of a watch that was killed is that of its last record. What is damaged is left out and
    noted.
    """
    damage = Damage()
    recover(folder)
    span = TimeWindow(start_ns, end_ns)
    if end_ns is None:
        span = TimeWindow.without_end(start_ns, folder.glob("*.bin"))
    counters = span.all_counters(all_in_memory(read_all_counters(folder, damage)))
    probes = tuple(span.probe(one) for one in read_all_probes(folder, damage))
    traced = _traced(folder, machine, span, damage)
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
        span.timed(traced.ranges),
        span.timed(traced.managed),
        traced.host_copies,
        span.left_out,
        traced.python_lines,
        tuple(damage.notes),
    )


def _traced(folder: Path, machine: Machine, span: TimeWindow, damage: Damage) -> Traced:
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
        return stream_traces(paths, possible, renumbered, damage)
    coverages = Coverages()
    traces = [_covered(one, coverages) for one in _traces(paths, damage)]
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


def _traces(paths: Sequence[Path], damage: Damage) -> list[Trace]:
    found = []
    for path in paths:
        with damage.leaving_out(path):
            found.append(read_trace_spool(path, damage))
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
