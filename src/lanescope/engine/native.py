"""Runs experiments on this machine: GPUs and host threads."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lanescope._core import native
from lanescope.copies import Copy, Engine, Experiment, Timing
from lanescope.copies.experiment import taken_bytes
from lanescope.copies.kernel_shapes import SmShape, sm_shapes
from lanescope.copies.limit import hops
from lanescope.copies.requirements import available_host_bytes, available_node_bytes
from lanescope.copies.terms import BY_DRIVER
from lanescope.engine.base import Deadline, Nodes, Session
from lanescope.engine.core import copy_spec, reason_for
from lanescope.engine.host import (
    WORD_BYTES,
    BlockSession,
    HostSession,
    LoadSession,
    is_by_blocks,
    require_cpus,
    require_no_walk,
    require_words,
)
from lanescope.engine.latency import latency_session
from lanescope.engine.process import GpuProcess, start
from lanescope.engine.processes import Processes
from lanescope.engine.sessions import EventCosts, GpuSession
from lanescope.engine.special_sessions import (
    AllocationSession,
    PieceSession,
    WalkSession,
    require_walks,
    walks,
)
from lanescope.errors import BusyError, InputError, NotMeasuredError, argument
from lanescope.machine import Gpu, LinkKind, Machine
from lanescope.results import Source

if TYPE_CHECKING:
    from lanescope.machine.nvml import Nvml

_BUSY_PERCENT = 10

#: Threads that give memory of earlier backends back.
_giving_back: list[threading.Thread] = []


class NativeBackend:
    """This machine.

    Parameters
    ----------
    machine
        As `lanescope.machine.discover` found it.
    allow_busy
        Measure GPUs that other processes are using, too.
    affinity
        Bind submitting threads to the CPUs that a copy names, or to those next
        to its host memory.
    start
        Starts the process of a GPU, where copies are between processes.
    """

    source = Source.MEASURED

    def __init__(
        self,
        machine: Machine,
        *,
        allow_busy: bool = False,
        affinity: bool = True,
        start: Callable[[str], GpuProcess] = start,
    ) -> None:
        if machine.described:
            raise InputError(f"machine {machine.name!r} is described, not here; predict it instead")
        while _giving_back:  # what they hold may be what lacks here
            _giving_back.pop().join()
        self.deadline: Deadline | None = None
        self._topology = native.Topology()
        self._pool = native.BufferPool(self._topology)
        self._event_costs = EventCosts(self._topology, self._pool)
        self._processes = Processes(start)
        weakref.finalize(self, self._processes.end)
        self._machine = machine
        self._affinity = affinity
        self._lost: dict[int, NotMeasuredError] = {}
        self._addresses: dict[int, str] | None = None  # of GPUs, by CUDA's numbers in this process
        self._nvml = self._open_nvml()
        # Now, before the first use of a GPU: afterwards this process might not know
        # itself, as NVML tells process numbers from outside a container.
        self._busy = {} if allow_busy else self._find_busy()

    @contextmanager
    def prepare(self, experiment: Experiment) -> Iterator[Session]:
        """Allocate, pin and fill what the experiment needs; see `Backend.prepare`."""
        experiment = self._with_cpus(experiment)
        gpus = self._gpus_of(experiment)
        for gpu in gpus:
            self._require_usable(gpu)
        try:
            with self._in_time():
                session = self._session(experiment, gpus)
            try:
                yield session
            finally:
                self._processes.drop()
        except native.NativeError as error:
            failure = reason_for(*error.args)
            if failure.device_lost:
                self._lost.update({gpu.index: failure.error for gpu in gpus})
            raise failure.error from error

    def give_back(self) -> None:
        """Give all memory back in a thread, as this backend measures nothing more."""
        thread = threading.Thread(target=self._pool.drop_free, name="lanescope-giving", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread more: it goes with the backend
            return
        _giving_back.append(thread)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Have the core give up when the deadline has passed, however long memory takes."""
        native.end_work_in(None if self.deadline is None else self.deadline.left_seconds)
        try:
            yield
        finally:
            native.end_work_in(None)

    def _session(self, experiment: Experiment, gpus: tuple[Gpu, ...]) -> Session:
        if all(copy.engine is Engine.CPU for copy in experiment.copies):
            return self._thread_session(experiment)
        if experiment.has_latency:
            self._require_host_memory(experiment)
            return latency_session(self._topology, self._pool, experiment)
        if any(copy.in_pieces for copy in experiment.copies):
            self._require_host_memory(experiment)
            return PieceSession(self._topology, self._pool, experiment)
        return self._gpu_session(experiment, gpus)

    def _thread_session(self, experiment: Experiment) -> Session:
        self._require_host_memory(experiment)
        require_cpus(experiment)
        device = self._pinning_device(experiment)
        if any(copy.operation.is_of_memory for copy in experiment.copies):
            return AllocationSession(self._topology, self._machine, experiment, device)
        if any(copy.by_single_loads for copy in experiment.copies):
            return LoadSession(self._topology, self._pool, experiment, device)
        if is_by_blocks(experiment):
            return BlockSession(self._topology, self._pool, experiment, device)
        require_no_walk(experiment)
        require_words(experiment)
        return HostSession(self._topology, self._pool, experiment, device)

    def _gpu_session(self, experiment: Experiment, gpus: tuple[Gpu, ...]) -> GpuSession:
        require_walks(experiment)
        self._require_host_memory(experiment)
        shapes = sm_shapes(experiment.copies, self._machine)
        over_pcie = _over_pcie(self._machine, experiment)
        linked = tuple(gpu for gpu in gpus if gpu.id in over_pcie)
        if experiment.timing is Timing.PROCESSES:
            self._pool.drop_free()  # the processes take their own
            shared = self._processes.copies(experiment, shapes)
            about = experiment, linked, self._nvml, _there(shapes)
            return GpuSession(shared, *about, shared.describe())
        specs = list(map(copy_spec, experiment.copies, shapes))
        copies = native.CopySet(self._topology, self._pool, specs)
        if walks(experiment):
            return WalkSession(
                copies, experiment, linked, self._nvml, lambda: self._event_seconds(experiment)
            )
        return GpuSession(copies, experiment, linked, self._nvml, _there(shapes))

    def _event_seconds(self, experiment: Experiment) -> float:
        by_engine = [copy for copy in experiment.copies if copy.engine is Engine.CE]
        return max(map(self._event_costs.of, by_engine))

    def _with_cpus(self, experiment: Experiment) -> Experiment:
        return dataclasses.replace(experiment, copies=tuple(map(self._pinned, experiment.copies)))

    def _pinned(self, copy: Copy) -> Copy:
        hosts = [p for p in (copy.source, copy.destination) if p.is_host]
        cores = next((c for p in hosts if (c := self._machine.node(p.index).cores)), ())
        if copy.cpus or not cores:
            return copy
        if copy.engine is not Engine.CPU:
            if not self._affinity:
                return copy
            return dataclasses.replace(copy, cpus=tuple(cpu for core in cores for cpu in core))
        if copy.access is not None:  # one thread walks over memory
            return dataclasses.replace(copy, cpus=cores[0][:1])
        most = copy.bytes // WORD_BYTES  # a thread for each number, no more
        return dataclasses.replace(copy, cpus=tuple(core[0] for core in cores)[:most])

    def _gpus_of(self, experiment: Experiment) -> tuple[Gpu, ...]:
        places = [p for copy in experiment.copies for p in (copy.source, copy.destination)]
        indices = {p.index for p in places if not p.is_host}
        return tuple(self._machine.gpu(index) for index in sorted(indices))

    def _require_usable(self, gpu: Gpu) -> None:
        if gpu.unavailable is not None:
            raise NotMeasuredError(gpu.unavailable)
        self._require_number(gpu)
        if gpu.index in self._lost:
            raise self._lost[gpu.index]
        if gpu.index in self._busy:
            raise self._busy[gpu.index]

    def _require_number(self, gpu: Gpu) -> None:
        """Refuse a GPU that CUDA calls by another number here than where the machine was found.

        Numbers are a process's own, by CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; a machine may
        come from another process.
        """
        if self._addresses is None:
            try:
                devices: list[dict[str, Any]] = native.cuda_devices()
            except native.NativeError:  # what needs CUDA says why there is none
                return
            self._addresses = {one["index"]: one["pci_address"] for one in devices}
        here = self._addresses.get(gpu.index)
        if gpu.pci_address is not None and here != gpu.pci_address:
            other = "there is none" if here is None else f"that is the one at {here}"
            raise NotMeasuredError(
                f"{gpu.id} is the GPU at {gpu.pci_address}; by its number {other} in this process, "
                "as CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER differ from where the machine was "
                "found.",
                "Find the machine in the process that measures: lanescope.discover().",
            )

    def _pinning_device(self, experiment: Experiment) -> int:
        """The GPU that pins memory for host threads; any number where nothing is pinned."""
        places = [p for copy in experiment.copies for p in (copy.source, copy.destination)]
        kinds = [place.memory for place in places if place.memory in BY_DRIVER]
        if not kinds:
            return 0
        for gpu in self._machine.gpus:
            lost = gpu.index in self._lost or gpu.index in self._busy
            if gpu.unavailable is None and not lost:
                return gpu.index
        raise NotMeasuredError(
            f"{str(kinds[0]).capitalize()} memory is made by the NVIDIA driver with a GPU, and "
            "there is none that can be used.",
            "Take pageable, huge or small-pages memory.",
        )

    def _find_busy(self) -> dict[int, BusyError]:
        return {} if self._nvml is None else busy_gpus(self._machine, self._nvml)

    def _require_host_memory(self, experiment: Experiment) -> None:
        lack = self._lack_of_memory(experiment)
        if lack is not None:
            self._pool.drop_free()  # what earlier experiments have left may be all that lacks
            lack = self._lack_of_memory(experiment)
        if lack is not None:
            raise lack

    def _lack_of_memory(self, experiment: Experiment) -> NotMeasuredError | None:
        taken = taken_bytes(experiment)
        by_node = {n.index: taken[n.id] for n in self._machine.nodes if n.id in taken}
        for node in by_node:
            if self._machine.node(node).memory_bytes == 0:
                return NotMeasuredError(
                    f"h{node} has no memory of its own, only cores.", "Name another node."
                )
        rooms = [("host memory", sum(by_node.values()), available_host_bytes())]
        if len(self._machine.nodes) > 1:  # nothing is bound to the only node
            rooms += [
                (f"the memory of h{node}", needed, available_node_bytes(node))
                for node, needed in by_node.items()
            ]
        for what, needed, available in rooms:
            if available is not None and needed > available:
                return NotMeasuredError(
                    f"It needs {needed >> 20} MiB of {what}, {available >> 20} MiB are available.",
                    "End what uses it, or take a smaller size.",
                )
        return None

    def _open_nvml(self) -> Nvml | None:
        if not self._machine.gpus:
            return None
        from lanescope.machine.nvml import Nvml

        return Nvml.open()


def busy_gpus(machine: Machine, nvml: Nvml) -> dict[int, BusyError]:
    """Return why GPUs of this machine cannot be measured now, by their numbers."""
    busy: dict[int, BusyError] = {}
    for gpu in machine.gpus:
        load, others = nvml.busy(gpu.uuid) if gpu.uuid is not None else (None, [])
        if others and load is not None and load >= _BUSY_PERCENT:
            listed = ", ".join(map(str, others))
            busy[gpu.index] = BusyError(
                f"{gpu.id} is busy: {load} % load, used by process {listed}.",
                f"Wait for it to end, or measure all the same with {argument.allow_busy}.",
            )
    return busy


def _over_pcie(machine: Machine, experiment: Experiment) -> set[str]:
    """Parts whose copies cross PCIe: only of those a look at the PCIe link tells something."""
    return {
        part
        for copy in experiment.copies
        for part in (copy.source.part, copy.destination.part)
        if any(link.kind is LinkKind.PCIE for link, _ in hops(machine, copy) or ())
    }


def _there(shapes: Sequence[SmShape | None]) -> tuple[SmShape, ...]:
    return tuple(filter(None, shapes))


class NodesBackend(NativeBackend):
    """Several nodes; what cannot be done by a process for each GPU is not measured."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        super().__init__(nodes.machine, start=nodes.start)

    def _session(self, experiment: Experiment, gpus: tuple[Gpu, ...]) -> GpuSession:
        if experiment.timing is not Timing.PROCESSES:
            raise NotMeasuredError(
                "Between nodes a process for each GPU copies, and this is not done so.",
                "Measure it on one node alone.",
            )
        return self._gpu_session(experiment, gpus)

    def _find_busy(self) -> dict[int, BusyError]:
        return dict(self._nodes.busy)

    def _require_number(self, gpu: Gpu) -> None:
        """Each node has found its GPUs in the process that starts theirs."""

    def _require_host_memory(self, experiment: Experiment) -> None:
        """Only the node itself knows; its process says so where there is too little."""
