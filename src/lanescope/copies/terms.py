"""What a copy is made of: places and memory, operation, addresses, route and hand-over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lanescope.calls import checked, shown
from lanescope.errors import InputError
from lanescope.machine.part_names import PART, is_gpu, own_number, part_number
from lanescope.units.sizes import Bytes


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


class Operation(StrEnum):
    """What is done to the bytes on the way.

    ``copy`` moves them. Only for host threads are STREAM's ``scale``, a = s * b,
    ``add``, a = b + c, and ``triad``, a = b + s * c, and

    ``gather``: independent loads of the source, 8 bytes each, which are summed up.

    Only for a kernel within its GPU are ``read``, which sums up its source, and ``write``, which
    fills its destination.

    Only for NCCL is ``all-reduce``, the sum over several GPUs: a ring of copies, of which each GPU
    is the source of one.

    All others have no bandwidth: their time stands for itself. The GPU of the
    destination, or a host thread, does

    ``chase``: a chain of dependent loads of the source by one thread; the time of
    one load. It goes by address, 128 bytes a step by a GPU; by a host thread 8
    unless told otherwise.
    ``random-chase``: the same places in random order.
    ``tma-chase``: by address, each load by a bulk copy of 16 bytes to shared memory (TMA).

    A host thread does, to memory that nobody has used yet,

    ``allocate``: the call that asks for it.
    ``touch``: the first write to each of its pages.
    ``release``: the call that gives it back.

    And a host thread does, with its clock and next to nothing else on the GPU,

    ``launch``: the call that launches an empty kernel.
    ``kernel-sync``: a kernel that writes a word to host memory, from the call
    until cudaStreamSynchronize returns.
    ``kernel-spin``: the same, until the host thread sees the word.
    ``copy-submit``: the call of cudaMemcpyAsync.
    ``copy-sync``: a copy, from the call until cudaStreamSynchronize returns.
    ``copy-spin``: a copy to the host, until the host thread sees its last byte.
    ``ping-pong``: a word there and back between the thread and a running kernel.
    """

    COPY = "copy"
    SCALE = "scale"
    ADD = "add"
    TRIAD = "triad"
    GATHER = "gather"
    READ = "read"
    WRITE = "write"
    ALL_REDUCE = "all-reduce"
    ALLOCATE = "allocate"
    TOUCH = "touch"
    RELEASE = "release"
    CHASE = "chase"
    CHASE_RANDOM = "random-chase"
    CHASE_TMA = "tma-chase"
    LAUNCH = "launch"
    KERNEL_SYNC = "kernel-sync"
    KERNEL_SPIN = "kernel-spin"
    COPY_SUBMIT = "copy-submit"
    COPY_SYNC = "copy-sync"
    COPY_SPIN = "copy-spin"
    PING_PONG = "ping-pong"

    @property
    def is_latency(self) -> bool:
        """Whether its time stands for itself, and not for bytes moved."""
        return self not in ARRAYS

    @property
    def is_chase(self) -> bool:
        """Whether it is a chain of dependent loads."""
        return self in (Operation.CHASE, Operation.CHASE_RANDOM, Operation.CHASE_TMA)

    @property
    def is_one_way(self) -> bool:
        """Whether a kernel only reads or only writes the memory of its GPU."""
        return self in (Operation.READ, Operation.WRITE)

    @property
    def is_of_memory(self) -> bool:
        """Whether it is a stage in the life of memory, and not of what it holds."""
        return self in (Operation.ALLOCATE, Operation.TOUCH, Operation.RELEASE)

    @property
    def is_call_of_copy(self) -> bool:
        """Whether it is a latency that a copy engine is part of, and not a kernel."""
        return self in (Operation.COPY_SUBMIT, Operation.COPY_SYNC, Operation.COPY_SPIN)


#: Arrays that an operation goes through: those that it reads and those that it writes.
ARRAYS = {
    Operation.COPY: 2,
    Operation.SCALE: 2,
    Operation.ADD: 3,
    Operation.TRIAD: 3,
    Operation.GATHER: 1,
    Operation.READ: 1,
    Operation.WRITE: 1,
    Operation.ALL_REDUCE: 2,
}


class Pattern(StrEnum):
    """How repetitions go through the memory that they walk over.

    ``repeated``: all at the same address.
    ``ascending``, ``descending``: block after block, and from the start again.
    ``random``: every block once, in random order, and so again.
    """

    REPEATED = "repeated"
    ASCENDING = "ascending"
    DESCENDING = "descending"
    RANDOM = "random"


class Caches(StrEnum):
    """What the CPU's caches hold when a repetition begins.

    ``warm``: what the repetitions before it left there.
    ``flushed``: nothing of the memory that it touches.
    """

    WARM = "warm"
    FLUSHED = "flushed"


@dataclass(frozen=True, slots=True)
@checked
class Access:
    """Which addresses are touched.

    Attributes
    ----------
    pattern
        See `Pattern`.
    span_bytes
        Memory that the repetitions walk over, in each array; None is no more
        than one repetition touches.
    stride_bytes
        From one load to the next, of loads that are taken one by one; None is
        one next to the other.
    caches
        See `Caches`.
    """

    pattern: Pattern = Pattern.REPEATED
    span_bytes: Bytes | None = None
    stride_bytes: Bytes | None = None
    caches: Caches = Caches.WARM

    def __post_init__(self) -> None:
        for name, value in (("span", self.span_bytes), ("stride", self.stride_bytes)):
            if value is not None and value < 1:
                raise InputError(f"a {name} of {value} bytes leads nowhere; give 1 B or more")


#: What a copy does that says nothing else.
PLAIN = Access()


class Route(StrEnum):
    """Which way the driver is asked to take between two GPUs, or inside one.

    ``peer``: cudaMemcpyPeerAsync, with peer access enabled where there is any.
    ``uva``: cudaMemcpyAsync, which finds both places by their unified addresses;
    peer access as above.
    ``staged``: cudaMemcpyPeerAsync without peer access: through host memory.
    """

    PEER = "peer"
    UVA = "uva"
    STAGED = "staged"


class Submission(StrEnum):
    """How the pieces of a copy are handed to the GPU.

    ``single``: a call of cudaMemcpyAsync for each piece.
    ``batch``: one call of cudaMemcpyBatchAsync for all of them.
    ``graph``: one launch of a CUDA graph, made before, whose nodes are copies
    that wait for nothing.
    ``kernel``: one kernel that takes their addresses from a table and copies.
    ``mapped``: no copy. A kernel reads the pieces where they lie in host memory
    and sums them up, or makes them and stores them there.
    """

    SINGLE = "single"
    BATCH = "batch"
    GRAPH = "graph"
    KERNEL = "kernel"
    MAPPED = "mapped"

    @property
    def by_kernel(self) -> bool:
        """Whether a kernel moves the bytes, and not the engines that copies go to."""
        return self in (Submission.KERNEL, Submission.MAPPED)
