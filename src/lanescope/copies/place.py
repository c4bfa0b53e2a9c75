"""Where bytes live: a part of the machine and a kind of memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lanescope.calls import checked, shown
from lanescope.errors import InputError
from lanescope.machine.part_names import PART, is_gpu, own_number, part_number


class Memory(StrEnum):
    """Kind of memory that bytes live in.

    ``pageable``: ordinary memory; the driver stages copies of it.
    ``pinned``: page-locked (cudaHostRegister).
    ``write-combined``: page-locked and not cached by the CPU, which only writes it well.
    ``mapped``: page-locked by the driver and mapped for the GPU (cudaHostAllocMapped).
    ``managed``: unified memory that prefers the host.
    ``huge``: on huge pages for certain, and pinned where a GPU copies it.
    ``small-pages``: pageable, and on pages of the smallest size for certain.
    ``device``: memory of a GPU.
    ``pool``: memory of a GPU from the driver's pool (cudaMallocAsync).
    """

    PAGEABLE = "pageable"
    PINNED = "pinned"
    WRITE_COMBINED = "write-combined"
    MAPPED = "mapped"
    MANAGED = "managed"
    HUGE = "huge"
    SMALL_PAGES = "small-pages"
    DEVICE = "device"
    POOL = "pool"


#: What GPUs have.
GPU_MEMORIES = (Memory.DEVICE, Memory.POOL)

#: What NUMA nodes have.
HOST_MEMORIES = tuple(m for m in Memory if m not in GPU_MEMORIES)

#: Memory that no GPU can address: a kernel cannot reach it.
UNPINNED = (Memory.PAGEABLE, Memory.SMALL_PAGES)

#: Memory of nodes that only the driver makes or pins.
BY_DRIVER = (Memory.PINNED, Memory.WRITE_COMBINED, Memory.MAPPED, Memory.MANAGED)

#: A copy engine takes these only while a host thread waits for it.
HOST_TIMED = (*UNPINNED, Memory.MANAGED)


@dataclass(frozen=True, slots=True)
@checked
class Place:
    """Where bytes live: a part of the machine (``h0``, ``g1``, ``n1.g0``) and a kind of memory."""

    part: str
    memory: Memory

    def __post_init__(self) -> None:
        if re.fullmatch(PART, self.part) is None:
            raise InputError(
                f"{shown(self.part)} is no part of a machine; write h0 for NUMA node 0, "
                "g0 for GPU 0"
            )
        if self.is_host == (self.memory in GPU_MEMORIES):
            raise InputError(
                f"{self.part} has no {self.memory} memory; NUMA nodes (h0) have "
                f"{', '.join(HOST_MEMORIES[:-1])} and {HOST_MEMORIES[-1]} memory, GPUs (g0) have "
                "device and pool memory"
            )

    @property
    def is_host(self) -> bool:
        """Whether the part is a NUMA node."""
        return not is_gpu(self.part)

    @property
    def index(self) -> int:
        """Number of the NUMA node or GPU in its machine."""
        return part_number(self.part)

    @property
    def own_index(self) -> int:
        """Number of the NUMA node or GPU on its own node, where that is one of several."""
        return own_number(self.index)

    def __str__(self) -> str:
        return self.part if self.memory is Memory.DEVICE else f"{self.part} ({self.memory})"
