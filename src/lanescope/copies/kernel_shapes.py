"""How a kernel copies, where nobody says: found by trying shapes on H200s.

Few SMs fill a PCIe link. Reads from another GPU need many bytes in flight. Writes to
another GPU go fastest from all SMs; ``lanescope bench sms`` finds how few do with a pace.

A GPU whose kernels read and write host memory at the same time does both with one
kernel, in step. A read waits for its request, which takes its turn behind the writes: of
two kernels, two SMs that write leave 18 of 51 GB/s to two that read, and more SMs only
move the loss to the other side. In step neither way gets ahead. The runs are
``h200-x1/opposing-paces.csv``, ``h200-x2/opposing-two-kernels.csv`` and
``h200-x2/opposing-in-step.csv`` under ``benchmarks/results``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lanescope.copies.copy import Copy, Engine
from lanescope.errors import InputError
from lanescope.machine import Gpu, Machine

KIB = 1 << 10

#: Plain loads and stores instead of bulk copies.
LOADS = 0

#: Bulk copies need compute capability 9.0 (Hopper).
_BULK_CAPABILITY = (9, 0)

#: From 12.0 on (GeForce and RTX PRO Blackwell) an SM has 99 KiB of shared memory, not 227:
#: no two chunks of 64 KiB fit, and a ring takes two.
_SMALL_SHARED_CAPABILITY = (12, 0)
_SMALL_SHARED_CHUNK = 32 * KIB

#: SMs for host memory: two fill PCIe 5.0 x16 (H200). More keep it full in both directions.
_HOST_SMS, _BOTH_DIRECTIONS_SMS = 4, 8
_HOST_CHUNK = 16 * KIB
#: SMs for a read from another GPU: 16 reach all that NVLink 4 x18 gives to kernels (H200).
_READ_SMS = 16
#: When nobody knows how many SMs there are.
_SOME_SMS = 64


@dataclass(frozen=True, slots=True)
class SmShape:
    """How a kernel copies.

    Attributes
    ----------
    sms
        Thread blocks, one on each SM.
    chunk_bytes
        Size of a bulk copy through shared memory; 0 is plain loads and stores.
    pace_gbs
        Rate of all SMs together that they do not exceed, GB/s; 0 is no limit.
    in_step_with
        Number of an earlier copy of the experiment whose kernel does this one, too,
        chunk by chunk in turns; None does it alone.
    chunk_repeats
        Times that each chunk is copied before the next one; only bulk copies repeat.
    """

    sms: int
    chunk_bytes: int
    pace_gbs: float = 0.0
    in_step_with: int | None = None
    chunk_repeats: int = 1


def has_bulk_copies(gpu: Gpu) -> bool:
    """Whether a GPU has bulk copies through shared memory."""
    return (gpu.compute_capability or (0, 0)) >= _BULK_CAPABILITY


def sm_shapes(copies: Sequence[Copy], machine: Machine) -> tuple[SmShape | None, ...]:
    """Return the shape of each ``sm`` copy of an experiment; None for other engines.

    What a copy leaves open is filled in. Copies that leave the number of SMs open
    share those of their GPU: kernels that do not fit together run one after the
    other.

    Raises
    ------
    InputError
        If the copies ask for more SMs than a GPU has, for bulk copies that it has
        not, or for a pace that plain loads cannot keep.
    """
    by_gpu = Counter(copy.executing_gpu for copy in copies if copy.engine is Engine.SM)
    shapes = [
        _shape(copy, _gpu_of(copy, machine), by_gpu[copy.executing_gpu])
        if copy.engine is Engine.SM
        else None
        for copy in copies
    ]
    for first, second in _opposing(copies):
        shape = shapes[first]
        assert shape is not None, "both are done by kernels"
        executor = _gpu_of(copies[first], machine)
        every = executor.multiprocessors or _SOME_SMS
        of_both = min(2 * _share(executor, by_gpu[executor.id]), every)
        shapes[first] = shape = replace(shape, sms=min(_BOTH_DIRECTIONS_SMS, of_both))
        shapes[second] = replace(shape, in_step_with=first)
    for gpu in machine.gpus:
        alone = [s for s, c in zip(shapes, copies, strict=True) if s and _by(c, gpu)]
        taken = sum(s.sms for s in alone if s.in_step_with is None)
        if gpu.multiprocessors is not None and taken > gpu.multiprocessors:
            raise InputError(
                f"{gpu.id} has {gpu.multiprocessors} SMs, the copies take {taken} at once; "
                "give them fewer"
            )
    return tuple(shapes)


def _opposing(copies: Sequence[Copy]) -> list[tuple[int, int]]:
    """Return pairs of copies, by number, that one kernel can do in step."""
    waiting: dict[tuple[str | None, int, int | None, bool], list[int]] = {}
    pairs = []
    for number, copy in enumerate(copies):
        is_shaped = (copy.sms, copy.chunk_bytes, copy.pace_gbs) != (None, None, None)
        over_link = copy.source.is_host != copy.destination.is_host
        if copy.engine is not Engine.SM or is_shaped or not over_link:
            continue
        down = copy.source.is_host
        alike = (copy.executing_gpu, copy.bytes, copy.chunk_repeats)
        if partners := waiting.get((*alike, not down)):
            pairs.append((partners.pop(0), number))
        else:
            waiting.setdefault((*alike, down), []).append(number)
    return pairs


def _by(copy: Copy, gpu: Gpu) -> bool:
    return copy.executing_gpu == gpu.id


def _gpu_of(copy: Copy, machine: Machine) -> Gpu:
    return next(gpu for gpu in machine.gpus if _by(copy, gpu))


def _shape(copy: Copy, gpu: Gpu, sharing: int) -> SmShape:
    has_bulk = has_bulk_copies(gpu)
    if copy.chunk_bytes and not has_bulk:
        raise InputError(
            f"{gpu.id} has no bulk copies through shared memory, which came with compute "
            "capability 9.0; leave out the chunk size"
        )
    if copy.pace_gbs is not None and (copy.chunk_bytes == LOADS or not has_bulk):
        raise InputError(f"{copy.path}: plain loads and stores keep no pace; leave it out")
    if copy.chunk_repeats is not None and copy.chunk_bytes == LOADS:
        raise InputError(f"{copy.path}: plain loads and stores repeat nothing; leave it out")
    every = _share(gpu, sharing)
    sms, chunk = _usual(copy, every)
    if not has_bulk:
        chunk = LOADS
    elif (copy.pace_gbs or copy.chunk_repeats) and chunk == LOADS:
        chunk = _HOST_CHUNK
    elif (gpu.compute_capability or (0, 0)) >= _SMALL_SHARED_CAPABILITY:
        chunk = min(chunk, _SMALL_SHARED_CHUNK)
    return SmShape(
        sms=copy.sms if copy.sms is not None else min(sms, every),
        chunk_bytes=copy.chunk_bytes if copy.chunk_bytes is not None else chunk,
        pace_gbs=copy.pace_gbs or 0.0,
        chunk_repeats=(copy.chunk_repeats or 1) if has_bulk else 1,
    )


def _share(gpu: Gpu, sharing: int) -> int:
    """SMs of a GPU for each of so many copies that leave their number open."""
    return max(1, (gpu.multiprocessors or _SOME_SMS) // sharing)


def _usual(copy: Copy, every: int) -> tuple[int, int]:
    """SMs and chunk of a copy that may take `every` SM of a GPU with bulk copies."""
    if copy.source.is_host or copy.destination.is_host:
        return _HOST_SMS, _HOST_CHUNK
    if copy.is_read:
        return _READ_SMS, 32 * KIB
    if copy.source.part == copy.destination.part:
        return every, LOADS
    return every, 64 * KIB if (copy.sms or every) > _SOME_SMS else 16 * KIB
