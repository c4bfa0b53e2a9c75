"""How a program copies: pageable memory, threads that wait, tiny copies, nothing at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from lanescope.document.contents import Finding
from lanescope.findings.trace.evidence import (
    Limits,
    bytes_text,
    copies_text,
    finding,
    median,
    path_rate,
)
from lanescope.trace.busy import GpuTime
from lanescope.trace.codes import BoolArray, DirectionCode, FloatArray, MemoryKind
from lanescope.trace.limits import DIRECTIONS
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns
from lanescope.units.sizes import bandwidth_gbs, transfer_seconds

#: Gains, or copied time, below this are not worth a change.
_LEAST_SECONDS = 1e-3
#: The driver takes small copies into the command itself: they wait for nothing.
_LEAST_BYTES = 64 << 10


def pageable_async(operations: Operations, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU and direction with asynchronous copies of pageable memory.

    They are neither fast nor asynchronous.
    """
    gpus = sorted(operations.values("device", _is_pageable))
    for gpu, (direction, code) in product(gpus, enumerate((DirectionCode.H2D, DirectionCode.D2H))):
        rows = _pageable_of(operations, gpu, code)
        if len(rows) and covered_ns(rows.start_ns, rows.end_ns) * 1e-9 >= _LEAST_SECONDS:
            yield _pageable(rows, operations, gpu, direction, limits)


def _pageable_of(operations: Operations, gpu: int, code: int) -> Operations:
    return operations.where(lambda o: _is_pageable(o) & (o.direction == code), "bytes", device=gpu)


def _is_pageable(o: Operations) -> BoolArray:
    chosen = o.is_copy & o.asynchronous & (o.bytes >= _LEAST_BYTES)
    chosen &= o.host_memory == MemoryKind.PAGEABLE
    return chosen


def _pageable(
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


#: Below this share of the watch waiting is not what makes a program slow.
_LEAST_WAITED_SHARE = 0.02
#: A call that does not wait takes so long: 2 to 10 µs were measured.
_SUBMIT_SECONDS = 10e-6
_COLUMNS = ("bytes", "call_start_ns", "call_end_ns")


def synchronous_copies(operations: Operations, watched_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each process that waits for its copies."""
    for pid in sorted(operations.values("pid", _waits)):
        rows = operations.where(_waits, *_COLUMNS, by="call_start_ns", pid=pid)
        called = all(_has_call_times(piece).all() for piece in rows.pieces())
        if not called:
            rows = operations.where(_waits, *_COLUMNS, pid=pid)
        found = _synchronous(rows, pid, called, watched_seconds)
        if found is not None:
            yield found


def _has_call_times(o: Operations) -> BoolArray:
    return (o.call_start_ns > 0) & (o.call_end_ns > o.call_start_ns)


def _waits(o: Operations) -> BoolArray:
    return o.is_copy & ~o.asynchronous


def _synchronous(rows: Operations, pid: int, called: bool, watched: float) -> Finding | None:
    start, end = (rows.call_start_ns, rows.call_end_ns) if called else (rows.start_ns, rows.end_ns)
    waited = covered_ns(start, end) * 1e-9
    if watched <= 0 or waited < _LEAST_WAITED_SHARE * watched:
        return None
    total = rows.total("bytes")
    word = "waited" if called else "waited, by the times of the GPU, at least"
    gain = waited - len(rows) * _SUBMIT_SECONDS
    if gain < _LEAST_WAITED_SHARE * watched:  # many small ones: to hand them over takes as long
        return None
    known = "call times are known" if called else "call times are not known: flags and GPU times"
    return finding(
        "synchronous-copies",
        f"Process {pid} {word} {waited:.3g} s ({waited / watched * 100:.1f} % of the watch) in "
        f"{copies_text(len(rows), 'synchronous')} of {bytes_text(total)} in sum.",
        gain,
        f"the thread works on while copies run, but for {_SUBMIT_SECONDS * 1e6:g} µs a call",
        (
            "There is other work for the thread or the GPU in that time.",
            "Host memory is pinned: asynchronous copies of pageable memory wait as well.",
            "The program synchronises before it uses what was copied.",
        ),
        (known, f"{len(rows)} copies, {bytes_text(total)}, {waited:.4g} s"),
    )


#: 64 KiB take 1.2 µs at 55 GB/s: as long as what a copy costs beyond its bytes.
_MOST_BYTES = 64 << 10
#: Fewer do not add up.
_LEAST_COPIES = 1000
#: Copies that follow within this time could have been one; beyond it they are other work.
BATCH_GAP_NS = 50_000

#: Results of so few bytes are looked at by the host, and can be read later.
LOOKED_AT = 4 << 10
_LEAVE = ("leave such results on the GPU, and read those of many rounds together", ("defer",))
_CONDITIONS = (
    "What is copied in a row can lie in one buffer, or go as one batch.",
    "Nothing waits for one of them before the next is made.",
    "The time between these copies is not spent on other work that hides their cost.",
)
_LOOKED_AT_CONDITIONS = (
    "Nothing on the host depends on a result before all of them are there.",
    "The GPU keeps the results until they are read together.",
)

#: Long before anything ended.
_NEVER = -(2**62)

_HOST = (MemoryKind.PINNED, MemoryKind.PAGEABLE)


def tiny_copies(operations: Operations, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each GPU and direction with many tiny copies in rows."""
    counts: Counter[tuple[int, int]] = Counter()
    for piece in operations.pieces():
        tiny = _is_tiny(piece)
        counts.update(zip(piece.device[tiny].tolist(), piece.direction[tiny].tolist(), strict=True))
    for gpu in sorted({gpu for gpu, _ in counts}):
        for direction, code in enumerate((DirectionCode.H2D, DirectionCode.D2H)):
            if counts[gpu, code] < _LEAST_COPIES:
                continue
            rows = _tiny_of(operations, gpu, code)
            rate = path_rate(operations, gpu, direction, limits, _HOST)
            found = _tiny(rows, gpu, direction, None if rate is None else rate.gbs)
            if found is not None:
                yield found


def _tiny_of(operations: Operations, gpu: int, code: int) -> Operations:
    return operations.where(
        lambda o: _is_tiny(o) & (o.direction == code),
        *("bytes", "pid", "context", "stream", "call_start_ns", "call_end_ns"),
        device=gpu,
    )


def _is_tiny(o: Operations) -> BoolArray:
    return o.is_copy & (o.bytes <= _MOST_BYTES) & (o.bytes > 0)


def batches(rows: Operations) -> int:
    """Return how many copies would be left if those of a stream that follow at once were one.

    They are ordered by start.
    """
    left = 0
    ended: dict[tuple[int, ...], int] = {}
    for piece in rows.pieces():
        order = np.lexsort((piece.start_ns, piece.stream, piece.context, piece.pid))
        own = np.stack((piece.pid, piece.context, piece.stream), axis=1)[order]
        start, end = piece.start_ns[order], piece.end_ns[order]
        first = np.append(True, np.any(own[1:] != own[:-1], axis=1))
        before = np.append(0, end[:-1])  # when the one before in its stream ended
        before[first] = [ended.get(tuple(key), _NEVER) for key in own[first].tolist()]
        left += int(np.count_nonzero(start - before > BATCH_GAP_NS))
        last = np.append(first[1:], True)
        ended.update(zip(map(tuple, own[last].tolist()), end[last].tolist(), strict=True))
    return left


def _lasted(o: Operations) -> FloatArray:
    """Return how long the GPU took for each, or where that is not known the call."""
    called = (o.call_end_ns - o.call_start_ns).astype(np.float64) * 1e-9
    return np.where(o.end_ns > o.start_ns, o.seconds, called)


def _call_seconds(o: Operations) -> FloatArray:
    """Return how long the thread was in each call; 0 where that is not known."""
    called: FloatArray = np.maximum(o.call_end_ns - o.call_start_ns, 0).astype(np.float64) * 1e-9
    return called


def _tiny(rows: Operations, gpu: int, direction: int, gbs: float | None) -> Finding | None:
    count = len(rows)
    typical = median(count, lambda: (_lasted(piece) for piece in rows.pieces()))
    size = median(count, lambda: (piece.bytes.astype(np.float64) for piece in rows.pieces()))
    called = median(count, lambda: (_call_seconds(piece) for piece in rows.pieces()))
    moving = 0.0 if gbs is None else transfer_seconds(size, gbs)
    fixed, left = max(typical - moving, 0.0), batches(rows)
    each = max(fixed, called)
    gain = (count - left) * each
    if gain < _LEAST_SECONDS:
        return None
    total = rows.total("bytes")
    lasted = sum(float(_lasted(piece).sum()) for piece in rows.pieces())
    thread = f", and its call {called * 1e6:.3g} µs of the thread" if called > fixed else ""
    whose = "of the thread" if called > fixed else "of the GPU"
    looked_at = direction == 1 and size <= LOOKED_AT
    return finding(
        "tiny-copies",
        f"{count} {DIRECTIONS[direction]} copies of g{gpu} are at most {_MOST_BYTES >> 10} KiB "
        f"(median {int(size)} B); each takes {typical * 1e6:.3g} µs, of which {fixed * 1e6:.3g} µs "
        f"are fixed cost{thread}. Those that follow each other within {BATCH_GAP_NS // 1000} µs "
        f"fit into {left} {'copy' if left == 1 else 'copies'}.",
        gain,
        f"{count - left} copies fewer, {each * 1e6:.3g} µs {whose} each; what the program does "
        "for each comes on top",
        _LOOKED_AT_CONDITIONS if looked_at else _CONDITIONS,
        (
            f"{count} copies, {bytes_text(total)}, {lasted:.4g} s",
            "rate for their bytes: " + ("not known" if gbs is None else f"{gbs:.3g} GB/s"),
        ),
        _LEAVE if looked_at else None,
    )


#: Both copies and kernels must cover so much of the watch for overlap to matter.
_LEAST_BUSY_SHARE = 0.02
#: With more of the smaller one hidden already, little is left to gain.
_MOST_HIDDEN = 0.5


def no_overlap(times: Sequence[GpuTime], watched_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each GPU whose copies and kernels take turns; needs traced kernels."""
    for one in times:
        found = _no_overlap(one, watched_seconds)
        if found is not None:
            yield found


def _no_overlap(one: GpuTime, watched: float) -> Finding | None:
    gpu, copied, worked, hidden = one.gpu, one.copying, one.computing, one.both
    least = min(copied, worked)
    if watched <= 0 or least < _LEAST_BUSY_SHARE * watched or hidden > _MOST_HIDDEN * least:
        return None
    return finding(
        "no-overlap",
        f"On g{gpu} copies take {copied:.3g} s and kernels {worked:.3g} s of {watched:.3g} s, and "
        f"only {hidden:.3g} s of that at the same time.",
        least - max(hidden, 0.0),
        "all of the shorter one hidden behind the longer; what depends on each other cannot be",
        (
            "Work can be split into pieces, so that one is copied while another is computed.",
            "Copies are asynchronous, of pinned memory, and on another stream than the kernels.",
            "There is GPU memory for two pieces at once.",
        ),
        (
            f"{one.copies} copies cover {copied:.4g} s",
            f"{one.kernels} kernels cover {worked:.4g} s",
            f"both at once {hidden:.4g} s",
        ),
    )
