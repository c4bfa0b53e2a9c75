"""A copy is data: from a place, to a place, so many bytes, by an engine; and its text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lanescope.calls import checked, shown
from lanescope.copies.terms import ARRAYS, UNPINNED, Access, Memory, Place, Route, Submission
from lanescope.copies.terms import Operation as Operation
from lanescope.errors import InputError
from lanescope.machine.part_names import PART, is_gpu, node_of
from lanescope.units.sizes import Count, exact_size_text

#: Three chunks must fit into the shared memory of an SM.
LARGEST_CHUNK_BYTES = 64 << 10
#: Of a chunk before the next one.
MOST_REPEATS = 1024
_STREAM = (Operation.SCALE, Operation.ADD, Operation.TRIAD)
_OF_MEMORY = tuple(operation for operation in Operation if operation.is_of_memory)
#: What no GPU does.
_BY_THREADS_ONLY = (*_STREAM, Operation.GATHER, *_OF_MEMORY)
_BY_THREADS = (*_BY_THREADS_ONLY, Operation.COPY, Operation.CHASE, Operation.CHASE_RANDOM)
_BETWEEN_PLACES = (Operation.COPY, *_STREAM)
_BY_NCCL = (Operation.COPY, Operation.ALL_REDUCE)
#: Of a copy that names no size: enough to fill any link.
DEFAULT_BYTES = 512 << 20
#: Stands for a value that is left to lanescope, where a later one is given.
AUTOMATIC = "auto"


class Engine(StrEnum):
    """Who moves the bytes: a GPU's copy engine, a kernel on its SMs, host threads, or NCCL."""

    CE = "ce"
    SM = "sm"
    CPU = "cpu"
    NCCL = "nccl"


@dataclass(frozen=True, slots=True)
@checked
class Copy:
    """One transfer.

    Attributes
    ----------
    source, destination
        Places. Where an operation has two inputs, both live in `source`; where it
        has one place only, both are that place.
    bytes
        Size of one array, in bytes; a ``copy`` moves this many, a ``gather`` loads them.
    engine
        Who moves them.
    operation
        See `Operation`.
    cpus
        Where its threads are pinned: for ``cpu`` one thread for each entry,
        for GPU engines the CPUs that the submitting thread may run on. Empty
        means that the backend chooses the cores next to the host memory.
    executor
        The GPU whose engine works, such as ``g1``; None is the source where
        that is a GPU (a write), else the destination. Between GPUs the
        destination may do it, too (a read).
    sms
        Number of SMs that an ``sm`` copy takes, one thread block on each; None
        leaves it to `lanescope.copies.kernel_shapes`.
    chunk_bytes
        Of an ``sm`` copy: bytes of one bulk asynchronous copy through shared
        memory (Hopper and newer); 0 is plain loads and stores; None is
        automatic.
    pace_gbs
        Of an ``sm`` copy by bulk copies: rate that its SMs do not exceed together,
        in GB/s; None is no limit. Writes to another GPU that push harder than the
        link takes get slower.
    chunk_repeats
        Of an ``sm`` copy: times that each chunk is copied before the next one; None is
        once. What is repeated at once comes from the caches of the host: nvbandwidth's
        kernel for both directions copies 16 KiB 16 times.
    pieces
        Equal parts of `bytes`, each at an address of its own.
    submission
        How the pieces are handed to the GPU.
    access
        Which addresses are touched; None is the same ones by each repetition.
    route
        Which way a copy engine's copy between GPUs takes; None is ``uva``.
    """

    source: Place
    destination: Place
    bytes: Count
    engine: Engine
    operation: Operation = Operation.COPY
    cpus: tuple[int, ...] = ()
    executor: str | None = None
    sms: int | None = None
    chunk_bytes: int | None = None
    pace_gbs: float | None = None
    pieces: int = 1
    submission: Submission = Submission.SINGLE
    access: Access | None = None
    route: Route | None = None
    chunk_repeats: int | None = None

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise InputError(f"a copy of {self.bytes} bytes cannot be measured; give 1 B or more")
        if self.pieces < 1 or self.bytes % self.pieces:
            raise InputError(f"{self.bytes} bytes cannot be cut into {self.pieces} equal pieces")
        if self.executor is not None and re.fullmatch(PART, self.executor) is None:
            raise InputError(f"{shown(self.executor)} copies nothing; write g0 for GPU 0")
        if node_of(self.source.part) != node_of(self.destination.part):
            self._require_between_nodes()
        if self.engine is Engine.CPU:
            self._require_for_threads()
        else:
            self._require_for_gpu()
        if self.engine is Engine.NCCL:
            self._require_for_nccl()
        elif self.operation is Operation.ALL_REDUCE:
            raise InputError(f"{self.path}: only NCCL does an all-reduce")
        if self.engine is not Engine.SM:
            self._require_no_sm_options()
        else:
            self._require_for_kernel()
        if self.operation.is_one_way:
            self._require_one_way()
        if self.operation.is_latency:
            self._require_for_latency()
        if self.in_pieces:
            self._require_for_pieces()
        if self.access is not None:
            self._require_for_access(self.access)
        if self.route is not None:
            self._require_for_route()

    def _require_between_nodes(self) -> None:
        if self.source.is_host or self.destination.is_host:
            raise InputError(
                f"{self.path}: only GPUs reach memory of another node, and only that of GPUs; "
                "'lanescope fleet check --pairs' measures the network between nodes"
            )

    def _require_one_way(self) -> None:
        if self.engine is not Engine.SM or self.source != self.destination:
            raise InputError(
                f"{self.path}: a {self.operation} is a kernel's, in memory of its own GPU"
            )
        if (self.chunk_bytes, self.pace_gbs, self.chunk_repeats) != (None, None, None):
            raise InputError(f"{self.path}: a {self.operation} takes a number of SMs, no chunks")

    def _require_for_access(self, access: Access) -> None:
        if self.engine is Engine.SM or self.in_pieces:
            raise InputError(f"{self.path}: only copy engines and host threads walk over memory")
        if access.span_bytes is not None and access.span_bytes < self.bytes:
            raise InputError(
                f"{self.path}: a copy of {self.bytes} bytes does not fit into a span of "
                f"{access.span_bytes}; make the span larger"
            )
        if access.stride_bytes is not None and not self.by_single_loads:
            raise InputError(
                f"{self.path}: a {self.operation} has no stride; take a gather or chase"
            )

    def _require_for_route(self) -> None:
        if self.engine is not Engine.CE or self.source.is_host or self.destination.is_host:
            raise InputError(f"{self.path}: only a copy engine's copy between GPUs has a route")

    def _require_for_nccl(self) -> None:
        if self.source.is_host or self.destination.is_host or self.source == self.destination:
            raise InputError(f"{self.path}: NCCL copies between two GPUs, such as g0 and g1")
        if self.operation not in _BY_NCCL or self.executor is not None:
            raise InputError(f"{self.path}: NCCL sends plain copies, from their source")

    def _require_for_latency(self) -> None:
        if self.engine is Engine.CPU:
            return
        wanted = Engine.CE if self.operation.is_call_of_copy else Engine.SM
        if self.engine is not wanted:
            raise InputError(f"{self.operation} needs engine {wanted}, not {self.engine}")
        if self.operation.is_chase and self.destination.is_host:
            raise InputError(f"{self.operation} ends at the GPU that loads, not at a NUMA node")
        if self.operation is Operation.COPY_SPIN and not self.destination.is_host:
            raise InputError(f"{self.operation} ends in host memory, which the host thread sees")

    def _require_for_pieces(self) -> None:
        mover = Engine.SM if self.submission.by_kernel else Engine.CE
        if self.engine is not mover:
            raise InputError(
                f"{self.path}: pieces by submission {self.submission} are moved by engine {mover}, "
                f"not by {self.engine}"
            )
        if self.source.is_host == self.destination.is_host:
            raise InputError(f"{self.path}: pieces go between host memory and a GPU; take h0 or g0")
        if self.operation is not Operation.COPY or self.is_shaped:
            raise InputError(f"{self.path}: pieces are copied by as many SMs as they need")

    def _require_for_kernel(self) -> None:
        if any(place.memory in UNPINNED for place in (self.source, self.destination)):
            raise InputError(
                f"{self.path}: a kernel cannot reach pageable memory; take pinned memory or "
                "the copy engine"
            )
        if self.sms is not None and self.sms < 1:
            raise InputError(f"{self.path} on {self.sms} SMs cannot run; give 1 or more")
        chunk = self.chunk_bytes or 0
        if chunk % 16 or not 0 <= chunk <= LARGEST_CHUNK_BYTES:
            raise InputError(
                f"a chunk of {chunk} bytes is no multiple of 16 up to {LARGEST_CHUNK_BYTES}"
            )
        if self.pace_gbs is not None and not self.pace_gbs > 0:
            raise InputError(f"a pace of {self.pace_gbs} GB/s moves nothing; give more than 0")
        if self.chunk_repeats is not None and not 1 <= self.chunk_repeats <= MOST_REPEATS:
            raise InputError(f"a chunk copied {self.chunk_repeats} times: give 1 to {MOST_REPEATS}")

    def _require_for_threads(self) -> None:
        if self.operation not in _BY_THREADS:
            raise InputError(f"{self.operation} is not done by host threads; use a GPU's engine")
        if not self.operation.is_of_memory and not (
            self.source.is_host and self.destination.is_host
        ):
            raise InputError(
                f"host threads copy between memory of NUMA nodes, not {self.source} to "
                f"{self.destination}; use a GPU's engine (@ce, @sm)"
            )
        if self.operation not in _BETWEEN_PLACES and self.source != self.destination:
            raise InputError(f"{self.operation} has one place, not {self.source} and another")
        if self.executor is not None:
            raise InputError(f"{self.path} is done by host threads, not by {self.executor}")

    def _require_for_gpu(self) -> None:
        if self.operation in _BY_THREADS_ONLY:
            raise InputError(f"a GPU engine cannot do a {self.operation}; use host threads (@cpu)")
        if self.source.is_host and self.destination.is_host:
            raise InputError(
                f"{self.path} has no GPU whose engine could copy; use host threads (@cpu)"
            )
        gpus = [p.part for p in (self.source, self.destination) if not p.is_host]
        if self.executor is not None and self.executor not in gpus:
            raise InputError(
                f"{self.path} cannot be done by {self.executor}; "
                f"{' or '.join(dict.fromkeys(gpus))} can"
            )

    def _require_no_sm_options(self) -> None:
        if self.is_shaped:
            raise InputError(
                f"{self.path} by {self.engine} takes no number of SMs, chunk, pace or repeats; "
                "use engine sm (@sm)"
            )

    @property
    def is_shaped(self) -> bool:
        """Whether it says how its kernel copies."""
        shape = (self.sms, self.chunk_bytes, self.pace_gbs, self.chunk_repeats)
        return shape != (None, None, None, None)

    @property
    def in_pieces(self) -> bool:
        """Whether it is more than one plain copy."""
        return self.pieces > 1 or self.submission is not Submission.SINGLE

    @property
    def by_single_loads(self) -> bool:
        """Whether a host thread loads its bytes one word at a time."""
        loads = self.operation is Operation.GATHER or self.operation.is_chase
        return loads and self.engine is Engine.CPU

    @property
    def span_bytes(self) -> int:
        """Memory that each of its arrays takes: what the repetitions walk over."""
        span = self.access.span_bytes if self.access else None
        return self.bytes if span is None else span

    @property
    def counted_bytes(self) -> int:
        """Bytes that count for bandwidth.

        A copy to, from or between GPUs counts its payload once. Host threads
        count as STREAM does, what they read and what they write: twice the
        array for ``copy`` and ``scale``, three times for ``add`` and ``triad``.
        """
        if self.engine is not Engine.CPU:
            return self.bytes
        return self.bytes * ARRAYS.get(self.operation, 1)

    @property
    def executing_gpu(self) -> str | None:
        """The GPU whose engine works, such as ``g0``; None for host threads."""
        if self.executor is not None or self.engine is Engine.CPU:
            return self.executor
        return self.destination.part if self.source.is_host else self.source.part

    @property
    def is_read(self) -> bool:
        """Whether the executing GPU fetches the bytes from another place."""
        return self.executing_gpu != self.source.part

    @property
    def path(self) -> str:
        """The way in words, such as ``h0 → g1``."""
        return f"{self.source.part} → {self.destination.part}"


def usual_memory(part: str, engine: Engine) -> Memory:
    """Return the kind of memory of a place that names none."""
    if is_gpu(part):
        return Memory.DEVICE
    return Memory.PAGEABLE if engine is Engine.CPU else Memory.PINNED


def copies_text(copies: Iterable[Copy]) -> str:
    """Return a set of copies as text that `parse_copies` reads back.

    Which CPUs is left out: who names none gets those next to the memory. How many host threads
    copy is not.
    """
    return ", ".join(map(_copy_text, copies))


def _copy_text(copy: Copy) -> str:
    words = [
        _place_text(copy.source, copy.engine),
        "->",
        _place_text(copy.destination, copy.engine),
    ]
    if copy.operation is not Operation.COPY:
        words.append(f"@{copy.operation}")
    elif copy.engine is Engine.SM:
        words.append("@" + _sm_text(copy))
    elif copy.engine is not Engine.CE:
        threads = f":{len(copy.cpus)}" if copy.engine is Engine.CPU and copy.cpus else ""
        words.append(f"@{copy.engine}{threads}")
    if copy.executor is not None:
        words += ["by", copy.executor]
    if copy.bytes != DEFAULT_BYTES:
        words.append(exact_size_text(copy.bytes))
    return " ".join(words)


def _sm_text(copy: Copy) -> str:
    values = [
        None if copy.sms is None else str(copy.sms),
        None if copy.chunk_bytes is None else _chunk_text(copy.chunk_bytes),
        None if copy.pace_gbs is None else _rate_text(copy.pace_gbs),
        None if copy.chunk_repeats is None else str(copy.chunk_repeats),
    ]
    while values and values[-1] is None:
        values.pop()
    return ":".join(["sm", *(value or AUTOMATIC for value in values)])


def _chunk_text(chunk_bytes: int) -> str:
    return exact_size_text(chunk_bytes) if chunk_bytes else "0"


def _rate_text(gbs: float) -> str:
    """Return a rate without an exponent, which is no part of the language."""
    return f"{gbs:.6f}".rstrip("0").rstrip(".")


def _place_text(place: Place, engine: Engine) -> str:
    usual = usual_memory(place.part, engine)
    return place.part if place.memory is usual else f"{place.part}.{place.memory}"
