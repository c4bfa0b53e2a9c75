"""Runs experiments on this machine: GPU copy engines and host threads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from lanescope._core import native
from lanescope.backend.base import LinkEvidence, Session
from lanescope.backend.memory import available_host_bytes
from lanescope.backend.reasons import reason_for
from lanescope.errors import InputError, NotMeasuredError
from lanescope.experiment import Copy, Engine, Experiment, Operation, Place, Timing
from lanescope.machine import Gpu, Machine
from lanescope.measurement.overlap import overlapping_windows
from lanescope.measurement.result import FloatArray, Source

if TYPE_CHECKING:
    from lanescope.machine.nvml import Nvml

#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.15
_FIRST_WINDOWS = 6
#: What may wait behind a closed gate: the driver's queue ends near 1,000 entries, and
#: a full queue would block the thread that has to open the gate.
_MOST_QUEUED = 400
_BUSY_PERCENT = 10
#: An event after each copy costs a few µs. Windows of large copies are made at least this
#: long by more copies in each, so that it does not count; small copies are timed one by one.
_LONG_WINDOW_SECONDS = 8e-3
_LARGE_BYTES = 256 << 20


class NativeBackend:
    """This machine.

    Parameters
    ----------
    machine
        As `lanescope.machine.discover` found it.
    allow_busy
        Measure GPUs that other processes are using, too.
    """

    source = Source.MEASURED

    def __init__(self, machine: Machine, *, allow_busy: bool = False) -> None:
        if machine.described:
            raise InputError(f"machine {machine.name!r} is described, not here; predict it instead")
        self._topology = native.Topology()
        self._pool = native.BufferPool(self._topology)
        self._machine = machine
        self._lost: dict[int, NotMeasuredError] = {}
        self._nvml = self._open_nvml()
        # Now, before the first use of a GPU: afterwards this process might not know
        # itself, as NVML tells process numbers from outside a container.
        self._busy = {} if allow_busy else self._find_busy()

    @contextmanager
    def prepare(self, experiment: Experiment) -> Iterator[Session]:
        """Allocate, pin and fill what the experiment needs; see `Backend.prepare`."""
        gpus = self._gpus_of(experiment)
        for gpu in gpus:
            self._require_usable(gpu)
        try:
            if all(copy.engine is Engine.CPU for copy in experiment.copies):
                self._require_host_memory(experiment)
                yield HostSession(self._topology, experiment)
            else:
                yield self._gpu_session(experiment, gpus)
        except native.NativeError as error:
            failure = reason_for(*error.args)
            if failure.device_lost:
                self._lost.update({gpu.index: failure.error for gpu in gpus})
            raise failure.error from error

    def _gpu_session(self, experiment: Experiment, gpus: tuple[Gpu, ...]) -> GpuSession:
        self._require_host_memory(experiment)
        specs = [_copy_spec(copy) for copy in experiment.copies]
        cpus = list(experiment.copies[0].cpus)
        copies = native.CopySet(self._topology, self._pool, specs, cpus)
        return GpuSession(copies, experiment, gpus, self._nvml)

    def _gpus_of(self, experiment: Experiment) -> tuple[Gpu, ...]:
        places = [p for copy in experiment.copies for p in (copy.source, copy.destination)]
        indices = {p.index for p in places if not p.is_host}
        return tuple(self._machine.gpu(index) for index in sorted(indices))

    def _require_usable(self, gpu: Gpu) -> None:
        if gpu.unavailable is not None:
            raise NotMeasuredError(gpu.unavailable)
        if gpu.index in self._lost:
            raise self._lost[gpu.index]
        if gpu.index in self._busy:
            raise self._busy[gpu.index]

    def _find_busy(self) -> dict[int, NotMeasuredError]:
        busy: dict[int, NotMeasuredError] = {}
        if self._nvml is None:
            return busy
        for gpu in self._machine.gpus:
            load, others = self._nvml.busy(gpu.uuid) if gpu.uuid is not None else (None, [])
            if others and load is not None and load >= _BUSY_PERCENT:
                busy[gpu.index] = NotMeasuredError(
                    f"{gpu.id} is busy: {load} % load, used by process {_listed(others)}.",
                    "Wait for it to end, or measure all the same with --allow-busy.",
                )
        return busy

    def _require_host_memory(self, experiment: Experiment) -> None:
        needed = sum(_host_bytes(copy) for copy in experiment.copies)
        available = available_host_bytes()
        if available is not None and needed > available:
            raise NotMeasuredError(
                f"It needs {needed >> 20} MiB of host memory, {available >> 20} MiB are available.",
                "End what uses it, or take a smaller --size.",
            )

    def _open_nvml(self) -> Nvml | None:
        if not self._machine.gpus:
            return None
        from lanescope.machine.nvml import Nvml

        return Nvml.open()


def _listed(processes: list[int]) -> str:
    return ", ".join(map(str, processes))


def _host_bytes(copy: Copy) -> int:
    arrays = sum(place.is_host for place in (copy.source, copy.destination))
    return copy.bytes * (arrays + (copy.operation is Operation.TRIAD))


def _copy_spec(copy: Copy) -> native.CopySpec:
    def place(p: Place) -> native.PlaceSpec:
        return native.PlaceSpec(getattr(native.Memory, str(p.memory)), p.index)

    # A copy between two GPUs is pushed by its source.
    executor = copy.destination if copy.source.is_host else copy.source
    return native.CopySpec(place(copy.source), place(copy.destination), copy.bytes, executor.index)


class HostSession:
    """Copies by host threads."""

    def __init__(self, topology: native.Topology, experiment: Experiment) -> None:
        specs = [
            native.HostCopySpec(
                source_node=copy.source.index,
                destination_node=copy.destination.index,
                bytes=copy.bytes,
                operation=getattr(native.Operation, str(copy.operation)),
                cpus=list(copy.cpus),
            )
            for copy in experiment.copies
        ]
        self._team = native.HostTeam(topology, specs)
        self._repetitions = 1
        stores = "streaming" if self._team.streaming_stores(0) else "cached"
        threads = sum(len(copy.cpus) for copy in experiment.copies)
        self.method = (
            f"host clock, first thread's start to last thread's end; {threads} pinned thread(s), "
            f"{stores} stores (the faster on trial), bytes counted as STREAM does (read + written)"
        )

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        spans = self._team.run(self._repetitions)
        seconds = [np.array([end - begin for begin, end in copy]) for copy in spans]
        longest = max(float(np.median(s)) for s in seconds)
        self._repetitions = int(np.clip(_BATCH_SECONDS / longest, 1, 1000))
        return seconds

    def check(self) -> None:
        """Compare every element; see `Session.check`."""
        _require_equal(self._team.count_mismatches(), "elements")

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Host memory has no link to look at."""
        return ()


class GpuSession:
    """Copies by copy engines, behind the gate or by the host's clock."""

    def __init__(
        self,
        copies: native.CopySet,
        experiment: Experiment,
        gpus: tuple[Gpu, ...],
        nvml: Nvml | None,
    ) -> None:
        self._copies = copies
        self._experiment = experiment
        self._gpus = gpus
        self._nvml = nvml
        self._windows = _FIRST_WINDOWS
        self._loops = 1
        self._replays = {gpu.id: self._replay_counter(gpu) for gpu in gpus}
        self.method = self._describe()

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        if self._experiment.timing is Timing.HOST:
            seconds = [np.array(self._copies.run_on_host_clock(self._windows))]
        else:
            boundaries = self._copies.run_gated(self._windows, self._loops)
            seconds = [s / self._loops for s in overlapping_windows(boundaries)]
        most = _MOST_QUEUED // (2 * len(seconds))
        if any(s.size == 0 for s in seconds):  # one copy ended before another had a full window
            self._windows = min(self._windows * 2, most)
            return seconds
        longest = max(float(np.median(s)) for s in seconds)
        if self._loops != (loops := self._loops_for(longest)):
            self._loops = loops  # this batch told how many; it does not count
            return [s[:0] for s in seconds]
        self._windows = int(np.clip(_BATCH_SECONDS / (longest * loops), 2, most // loops))
        return seconds

    def _loops_for(self, longest_seconds: float) -> int:
        smallest = min(copy.bytes for copy in self._experiment.copies)
        if self._experiment.timing is Timing.HOST or smallest < _LARGE_BYTES or self._loops > 1:
            return self._loops
        return max(1, math.ceil(_LONG_WINDOW_SECONDS / longest_seconds))

    def check(self) -> None:
        """Compare every byte; see `Session.check`."""
        _require_equal(self._copies.count_mismatches(), "bytes")

    def evidence(self) -> tuple[LinkEvidence, ...]:
        """Return each GPU's link state, read right after the copies."""
        if self._nvml is None:
            return ()
        seen = []
        for gpu in self._gpus:
            state = self._nvml.link_state(gpu.uuid) if gpu.uuid is not None else None
            if state is not None:
                before, after = self._replays[gpu.id], self._replay_counter(gpu)
                replays = None if before is None or after is None else max(0, after - before)
                generation, width = state
                seen.append(LinkEvidence(gpu.id, generation, width, replays))
        return tuple(seen)

    def _replay_counter(self, gpu: Gpu) -> int | None:
        if self._nvml is None or gpu.uuid is None:
            return None
        return self._nvml.replay_counter(gpu.uuid)

    def _describe(self) -> str:
        staged = any(self._copies.staged(i) for i in range(len(self._experiment.copies)))
        way = "; no peer access, staged through host memory" if staged else ""
        if self._experiment.timing is Timing.HOST:
            return f"host clock from the call to the completed transfer, copy engine{way}"
        shared = ", windows in which all copies ran" if len(self._experiment.copies) > 1 else ""
        return f"GPU events around the copies, queued behind a gate{shared}, copy engine{way}"


def _require_equal(mismatches: int, unit: str) -> None:
    if mismatches:
        raise NotMeasuredError(
            f"{mismatches} {unit} arrived wrong: the data was corrupted on the way.",
            "Look for ECC and Xid errors in the kernel log; do not trust this path.",
        )
