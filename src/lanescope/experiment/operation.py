"""What is done to the bytes of a copy."""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """What is done to the bytes on the way.

    ``copy`` moves them. Only for host threads are STREAM's ``scale``, a = s * b,
    ``add``, a = b + c, and ``triad``, a = b + s * c, and

    ``gather``: independent loads of the source, 8 bytes each, which are summed up.

    All others have no bandwidth: their time stands for itself. The GPU of the
    destination, or a host thread, does

    ``chase``: a chain of dependent loads of the source by one thread; the time of
    one load. It goes by address, 128 bytes a step by a GPU; by a host thread 8
    unless told otherwise.
    ``random-chase``: the same places in random order.

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
    ALLOCATE = "allocate"
    TOUCH = "touch"
    RELEASE = "release"
    CHASE = "chase"
    CHASE_RANDOM = "random-chase"
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
        return self in (Operation.CHASE, Operation.CHASE_RANDOM)

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
}
