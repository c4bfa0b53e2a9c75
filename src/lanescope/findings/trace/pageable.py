"""Asynchronous copies from or to pageable memory, which are neither fast nor asynchronous."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import Limits, bytes_text, copies_text, finding, path_rate
from lanescope.trace.codes import BoolArray, Direction, MemoryKind
from lanescope.trace.limits import DIRECTIONS
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.units.bandwidth import bandwidth_gbs, transfer_seconds

#: The driver takes small ones into the command itself: they wait for nothing.
LEAST_BYTES = 64 << 10
#: Below this much copied time nobody gains from a change.
LEAST_SECONDS = 1e-3


def pageable_async(operations: Operations, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU and direction with such copies."""
    gpus = sorted(operations.values("device", _is_one))
    for gpu, (direction, code) in product(gpus, enumerate((Direction.H2D, Direction.D2H))):
        rows = _of_direction(operations, gpu, code)
        if len(rows) and covered_ns(rows.start_ns, rows.end_ns) * 1e-9 >= LEAST_SECONDS:
            yield _finding(rows, operations, gpu, direction, limits)


def _of_direction(operations: Operations, gpu: int, code: int) -> Operations:
    return operations.where(lambda o: _is_one(o) & (o.direction == code), "bytes", device=gpu)


def _is_one(o: Operations) -> BoolArray:
    chosen = o.is_copy & o.asynchronous & (o.bytes >= LEAST_BYTES)
    chosen &= o.host_memory == MemoryKind.PAGEABLE
    return chosen


def _finding(
    rows: Operations, operations: Operations, gpu: int, direction: int, limits: Limits
) -> Finding:
    total, seconds = rows.total("bytes"), covered_ns(rows.start_ns, rows.end_ns) * 1e-9
    rate = path_rate(operations, gpu, direction, limits, (MemoryKind.PINNED,))
    gain, basis = None, "the rate of pinned copies is not known here"
    evidence = [f"{len(rows)} copies, {bytes_text(total)}, {seconds:.4g} s on the GPU"]
    if rate is not None:
        gain = max(seconds - transfer_seconds(total, rate.gbs), 0.0)
        basis = f"the same bytes at {rate.gbs:.3g} GB/s ({rate.source})"
        evidence.append(f"pinned: {rate.gbs:.3g} GB/s, {rate.source}")
    return finding(
        "pageable-async",
        f"{copies_text(len(rows), f'asynchronous {DIRECTIONS[direction]}')} of g{gpu} "
        f"({bytes_text(total)}) {'uses' if len(rows) == 1 else 'use'} pageable memory and took "
        f"{seconds:.3g} s at {bandwidth_gbs(total, seconds):.3g} GB/s: the driver stages them "
        "through pinned memory, and the call waits for that.",
        gain,
        basis,
        (
            "The same buffers are used again and again: pinning costs more than a copy of "
            "the same bytes.",
            "The memory may be pinned, and nothing is copied into a pinned buffer only for this.",
            "The program waits for these copies; what overlaps with kernels now gains less.",
        ),
        tuple(evidence),
    )
