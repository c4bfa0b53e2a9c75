"""A copy is data: from a place, to a place, so many bytes, by an engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lanescope.errors import InputError
from lanescope.experiment.operation import Operation as Operation
from lanescope.experiment.place import Memory, Place
from lanescope.experiment.submission import Submission

#: Three chunks must fit into the shared memory of an SM.
LARGEST_CHUNK_BYTES = 64 << 10


class Engine(StrEnum):
    """Who moves the bytes: a GPU's copy engine, a kernel on its SMs, or host threads."""

    CE = "ce"
    SM = "sm"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Copy:
    """One transfer.

    Attributes
    ----------
    source, destination
        Places. For ``triad`` both inputs live in `source`.
    bytes
        Size of one array, in bytes; a ``copy`` moves this many.
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
        leaves it to `lanescope.experiment.sm`.
    chunk_bytes
        Of an ``sm`` copy: bytes of one bulk asynchronous copy through shared
        memory (Hopper and newer); 0 is plain loads and stores; None is
        automatic.
    pace_gbs
        Of an ``sm`` copy by bulk copies: rate that its SMs do not exceed together,
        in GB/s; None is no limit. Writes to another GPU that push harder than the
        link takes get slower.
    pieces
        Equal parts of `bytes`, each at an address of its own.
    submission
        How the pieces are handed to the GPU.
    """

    source: Place
    destination: Place
    bytes: int
    engine: Engine
    operation: Operation = Operation.COPY
    cpus: tuple[int, ...] = ()
    executor: str | None = None
    sms: int | None = None
    chunk_bytes: int | None = None
    pace_gbs: float | None = None
    pieces: int = 1
    submission: Submission = Submission.SINGLE

    def __post_init__(self) -> None:
        if self.bytes < 1:
            raise InputError(f"a copy of {self.bytes} bytes cannot be measured; give 1 B or more")
        if self.pieces < 1 or self.bytes % self.pieces:
            raise InputError(f"{self.bytes} bytes cannot be cut into {self.pieces} equal pieces")
        if self.engine is Engine.CPU:
            self._require_for_threads()
        else:
            self._require_for_gpu()
        if self.engine is not Engine.SM:
            self._require_no_sm_options()
        else:
            self._require_for_kernel()
        if self.operation.is_latency:
            self._require_for_latency()
        if self.in_pieces:
            self._require_for_pieces()

    def _require_for_latency(self) -> None:
        wanted = Engine.CE if self.operation.is_call_of_copy else Engine.SM
        if self.engine is not wanted:
            raise InputError(f"{self.operation} needs Engine.{wanted.name}, not {self.engine}")
        if self.operation.is_chase and self.destination.is_host:
            raise InputError(f"{self.operation} ends at the GPU that loads, not at a NUMA node")
        if self.operation is Operation.COPY_SPIN and not self.destination.is_host:
            raise InputError(f"{self.operation} ends in host memory, which the host thread sees")

    def _require_for_pieces(self) -> None:
        mover = Engine.SM if self.submission.by_kernel else Engine.CE
        if self.engine is not mover:
            raise InputError(
                f"{self.path}: pieces by submission {self.submission} are moved by "
                f"Engine.{mover.name}, not by Engine.{self.engine.name}"
            )
        if self.source.is_host == self.destination.is_host:
            raise InputError(f"{self.path}: pieces go between host memory and a GPU; take h0 or g0")
        shape = (self.sms, self.chunk_bytes, self.pace_gbs)
        if self.operation is not Operation.COPY or shape != (None, None, None):
            raise InputError(f"{self.path}: pieces are copied by as many SMs as they need")

    def _require_for_kernel(self) -> None:
        if Memory.PAGEABLE in (self.source.memory, self.destination.memory):
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

    def _require_for_threads(self) -> None:
        if {self.source.memory, self.destination.memory} != {Memory.PAGEABLE}:
            raise InputError(
                f"host threads copy between pageable memory of NUMA nodes, not {self.source} to "
                f"{self.destination}; use Engine.CE (@ce) with a GPU"
            )
        if self.executor is not None:
            raise InputError(f"{self.path} is done by host threads, not by {self.executor}")

    def _require_for_gpu(self) -> None:
        if self.operation is Operation.TRIAD:
            raise InputError("a GPU engine cannot do a triad; use Engine.CPU")
        if self.source.is_host and self.destination.is_host:
            raise InputError(
                f"{self.path} has no GPU whose engine could copy; use Engine.CPU (@cpu)"
            )
        gpus = [p.part for p in (self.source, self.destination) if not p.is_host]
        if self.executor is not None and self.executor not in gpus:
            raise InputError(
                f"{self.path} cannot be done by {self.executor}; "
                f"{' or '.join(dict.fromkeys(gpus))} can"
            )

    def _require_no_sm_options(self) -> None:
        if (self.sms, self.chunk_bytes, self.pace_gbs) != (None, None, None):
            raise InputError(
                f"{self.path} by {self.engine} takes no number of SMs, chunk or pace; use Engine.SM"
            )

    @property
    def in_pieces(self) -> bool:
        """Whether it is more than one plain copy."""
        return self.pieces > 1 or self.submission is not Submission.SINGLE

    @property
    def counted_bytes(self) -> int:
        """Bytes that count for bandwidth.

        A copy to, from or between GPUs counts its payload once. Host threads
        count as STREAM does, what they read and what they write: twice the
        array for ``copy``, three times for ``triad``.
        """
        if self.engine is not Engine.CPU:
            return self.bytes
        return self.bytes * (3 if self.operation is Operation.TRIAD else 2)

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
