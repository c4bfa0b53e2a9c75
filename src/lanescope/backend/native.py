"""Runs experiments on this machine: GPU copy engines and host threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lanescope._core import native
from lanescope.backend.base import Session
from lanescope.backend.memory import available_host_bytes
from lanescope.backend.reasons import reason_for
from lanescope.backend.sessions import GpuSession, HostSession
from lanescope.errors import InputError, NotMeasuredError
from lanescope.experiment import Copy, Engine, Experiment, Operation, Place
from lanescope.machine import Gpu, Machine
from lanescope.measurement.result import Source

if TYPE_CHECKING:
    from lanescope.machine.nvml import Nvml

_BUSY_PERCENT = 10


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
