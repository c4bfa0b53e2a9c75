"""The search for the fewest SMs that fill a path: which copies to try."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lanescope.experiment.copy import Copy, Engine
from lanescope.experiment.experiment import Experiment, experiment_of
from lanescope.experiment.notation import DEFAULT_BYTES
from lanescope.experiment.patterns import reach_each_other
from lanescope.experiment.place import Memory, Place
from lanescope.experiment.sm import KIB, LOADS, has_bulk_copies
from lanescope.machine import Gpu, Machine

#: Few SMs fill a PCIe link, so that these lie close together at the lower end.
_HOST_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
_PEER_COUNTS = (4, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)
_HOST_CHUNKS = (LOADS, 16 * KIB)
_PEER_CHUNKS = (LOADS, 16 * KIB, 32 * KIB, 64 * KIB)
#: SMs between which a pace is tried, and the chunks that keep one.
_PACED_COUNTS = (8, 9, 10, 12, 16, 24, 32)
_PACED_CHUNKS = (16 * KIB, 32 * KIB)
#: A pace just below the plateau: at it, some links already queue.
_PACE_SHARE = 0.99

Way = tuple[str, str, str]  # source, destination, executing GPU


def sms_experiments(
    machine: Machine, gpus: Iterable[Gpu], size: int = DEFAULT_BYTES
) -> tuple[Experiment, ...]:
    """Return kernels' copies of many shapes: host and GPU each way, and to and from a peer.

    Each GPU is tried with the first other one that it can reach, reading and writing.
    """
    experiments: list[Experiment] = []
    for gpu in gpus:
        host = Place(machine.nearest_node(gpu).id, Memory.PINNED)
        here = Place(gpu.id, Memory.DEVICE)
        for ends in ((host, here), (here, host)):
            experiments += _shapes(gpu, *ends, size, _HOST_COUNTS, _HOST_CHUNKS)
        other = next((g for g in machine.gpus if g != gpu and reach_each_other(g, gpu)), None)
        if other is not None:
            there = Place(other.id, Memory.DEVICE)
            for ends in ((there, here), (here, there)):
                experiments += _shapes(gpu, *ends, size, _PEER_COUNTS, _PEER_CHUNKS)
    return tuple(experiments)


def paced_experiments(
    machine: Machine, plateaus: dict[Way, float], size: int = DEFAULT_BYTES
) -> tuple[Experiment, ...]:
    """Return writes to peers that keep a pace just below what was reached without one.

    Writes that push harder than the links take wait in the order in which they were
    made, also for links that are free.

    Parameters
    ----------
    plateaus
        Best rate of each way so far, GB/s.
    """
    experiments = []
    for (source, destination, executor), gbs in plateaus.items():
        gpu = next(g for g in machine.gpus if g.id == executor)
        to_peer = executor == source and destination.startswith("g")
        if not to_peer or not has_bulk_copies(gpu):
            continue
        ends = (Place(source, Memory.DEVICE), Place(destination, Memory.DEVICE))
        every = gpu.multiprocessors or max(_PACED_COUNTS)
        for sms in (count for count in _PACED_COUNTS if count <= every):
            for chunk in _PACED_CHUNKS:
                pace = round(gbs * _PACE_SHARE, 1)
                experiments.append(_copy(*ends, size, gpu, sms, chunk, pace))
    return tuple(experiment_of([copy]) for copy in experiments)


def _shapes(
    gpu: Gpu,
    source: Place,
    destination: Place,
    size: int,
    counts: Sequence[int],
    chunks: Sequence[int],
) -> list[Experiment]:
    every = gpu.multiprocessors or max(counts)
    usable = [chunk for chunk in chunks if chunk == LOADS or has_bulk_copies(gpu)]
    return [
        experiment_of([_copy(source, destination, size, gpu, sms, chunk)])
        for sms in sorted({min(count, every) for count in (*counts, every)})
        for chunk in usable
    ]


def _copy(
    source: Place,
    destination: Place,
    size: int,
    gpu: Gpu,
    sms: int,
    chunk: int,
    pace_gbs: float | None = None,
) -> Copy:
    return Copy(
        source,
        destination,
        size,
        Engine.SM,
        executor=gpu.id if source.memory is destination.memory is Memory.DEVICE else None,
        sms=sms,
        chunk_bytes=chunk,
        pace_gbs=pace_gbs,
    )
