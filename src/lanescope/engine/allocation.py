"""What it takes to ask for memory, to touch it first, and to give it back."""

from __future__ import annotations

import resource

import numpy as np

from lanescope._core import native
from lanescope.copies import Copy, Experiment, Memory, Operation
from lanescope.engine.base import WithoutLinks
from lanescope.engine.core import CLOCK_SECONDS, place_spec
from lanescope.errors import NotMeasuredError
from lanescope.machine import Machine
from lanescope.machine.free_memory import free_bytes
from lanescope.results.result import FloatArray

#: A batch aims at this time, so that a signal is answered and a budget is kept.
_BATCH_SECONDS = 0.1
_FIRST_CYCLES = 2
_MOST_CYCLES = 1000
_MIB = 1 << 20
_HUGE_PAGE_BYTES = 2 << 20

#: Locked in memory by the driver.
_LOCKED = (Memory.PINNED, Memory.WRITE_COMBINED, Memory.MAPPED)

#: The stages in the order in which the core times them.
_STAGES = (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)

_CALLS = {
    Memory.PAGEABLE: "malloc and free (glibc keeps smaller pieces, whose pages are then there)",
    Memory.HUGE: "mmap with MADV_HUGEPAGE, and munmap",
    Memory.SMALL_PAGES: "mmap with MADV_NOHUGEPAGE, and munmap",
    Memory.PINNED: "cudaHostAlloc and cudaFreeHost",
    Memory.WRITE_COMBINED: "cudaHostAlloc (write-combined) and cudaFreeHost",
    Memory.MAPPED: "cudaHostAlloc (mapped) and cudaFreeHost",
    Memory.MANAGED: "cudaMallocManaged and cudaFree",
    Memory.DEVICE: "cudaMalloc and cudaFree",
    Memory.POOL: "cudaMallocFromPoolAsync and cudaFreeAsync, each with cudaStreamSynchronize, of "
    "a pool that keeps what is given back",
}


class AllocationSession(WithoutLinks):
    """Cycles of allocating, touching and releasing memory by one host thread.

    `device` is the GPU whose driver allocates host memory, for the kinds that need one.
    """

    def __init__(
        self,
        topology: native.Topology,
        machine: Machine,
        experiment: Experiment,
        device: int,
    ) -> None:
        copy = _only_memory(experiment)
        self._rows = [_STAGES.index(copy.operation) for copy in experiment.copies]
        _require_memory(machine, copy)
        try:
            self._probe = native.AllocationProbe(
                topology,
                place=place_spec(copy.source),
                bytes=copy.bytes,
                device=device,
                cpus=list(copy.cpus),
            )
        except native.NativeError as error:
            if error.args[2] == "cudaErrorMemoryAllocation":
                raise _too_much(machine, copy) from error
            raise
        self.batch_seconds = _BATCH_SECONDS
        self._cycles = _FIRST_CYCLES
        self._clock_cost = native.host_clock_cost()
        self.method = _describe(copy, self._clock_cost)

    def sample(self) -> list[FloatArray]:
        """Run a batch; see `Session.sample`."""
        stages = np.array(self._probe.run(self._cycles)).T
        one = max(float(stages.sum(axis=0).mean()), CLOCK_SECONDS)
        self._cycles = int(np.clip(self.batch_seconds / one, 1, _MOST_CYCLES))
        return [stages[row].copy() for row in self._rows]

    def check(self) -> None:
        """The core looked at the pages before the first sample; nothing is moved."""

    def clock_seconds(self) -> float:
        """Each stage lies between two readings of the clock."""
        return self._clock_cost


def _describe(copy: Copy, clock_cost: float) -> str:
    touched = "" if not copy.source.is_host else "; touched by one write to every page"
    cpus = f"bound to CPU {', '.join(map(str, copy.cpus))}" if copy.cpus else "not bound"
    return (
        f"host clock around {_CALLS[copy.source.memory]}{touched}; one thread, {cpus}, one cycle "
        f"a sample; reading the clock takes {clock_cost * 1e9:.0f} ns, not subtracted"
    )


def _only_memory(experiment: Experiment) -> Copy:
    """Return the first of copies that are stages in the life of the same memory."""
    first = experiment.copies[0]
    for copy in experiment.copies:
        if not copy.operation.is_of_memory or (copy.source, copy.bytes, copy.cpus) != (
            *(first.source, first.bytes),
            first.cpus,
        ):
            raise NotMeasuredError(
                "Allocating, touching and releasing are measured of one piece of memory.",
                "Give them the same place, size and CPUs, and nothing else beside them.",
            )
        if copy.operation is Operation.TOUCH and not copy.source.is_host:
            raise NotMeasuredError(
                "A host thread cannot touch memory of a GPU.", "Leave that stage out."
            )
    return first


def _require_memory(machine: Machine, copy: Copy) -> None:
    free = free_bytes(machine).get(copy.source.part)
    if free is not None and _taken_bytes(copy) > free:
        raise _too_much(machine, copy)


def _taken_bytes(copy: Copy) -> int:
    """What the kernel has to give: of huge pages whole ones."""
    if copy.source.memory is not Memory.HUGE:
        return copy.bytes
    return -(-copy.bytes // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES


def _too_much(machine: Machine, copy: Copy) -> NotMeasuredError:
    free = free_bytes(machine).get(copy.source.part)
    available = "" if free is None else f", {free // _MIB} MiB are available"
    kind = f"{copy.source.memory} memory of {copy.source.part}"
    reason = f"It needs {-(-_taken_bytes(copy) // _MIB)} MiB of {kind}{available}"
    most, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if copy.source.memory in _LOCKED and resource.RLIM_INFINITY != most < copy.bytes:
        return NotMeasuredError(
            f"{reason}, and this process may lock {most // _MIB} MiB (RLIMIT_MEMLOCK).",
            "Raise the limit with 'ulimit -l', or take a smaller size.",
        )
    return NotMeasuredError(f"{reason}.", "End what uses it, or take a smaller size.")
