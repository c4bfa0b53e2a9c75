"""Many copies so small that their fixed cost is most of their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import Limits, bytes_text, finding, median, path_rate
from lanescope.trace.codes import BoolArray, Direction, FloatArray, MemoryKind
from lanescope.trace.limits import DIRECTIONS
from lanescope.trace.operations import Operations
from lanescope.units.bandwidth import transfer_seconds

#: 64 KiB take 1.2 µs at 55 GB/s: as long as what a copy costs beyond its bytes.
MOST_BYTES = 64 << 10
#: Fewer do not add up.
LEAST_COPIES = 1000
#: Copies that follow within this time could have been one; beyond it they are other work.
BATCH_GAP_NS = 50_000
#: Gains below this are not worth a change.
LEAST_SECONDS = 1e-3

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
        for direction, code in enumerate((Direction.H2D, Direction.D2H)):
            if counts[gpu, code] < LEAST_COPIES:
                continue
            rows = _of_direction(operations, gpu, code)
            rate = path_rate(operations, gpu, direction, limits, _HOST)
            found = _finding(rows, gpu, direction, None if rate is None else rate.gbs)
            if found is not None:
                yield found


def _of_direction(operations: Operations, gpu: int, code: int) -> Operations:
    return operations.where(
        lambda o: _is_tiny(o) & (o.direction == code),
        *("bytes", "pid", "context", "stream", "call_start_ns", "call_end_ns"),
        device=gpu,
    )


def _is_tiny(o: Operations) -> BoolArray:
    return o.is_copy & (o.bytes <= MOST_BYTES) & (o.bytes > 0)


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


def _called(o: Operations) -> FloatArray:
    """Return how long the thread was in each call; 0 where that is not known."""
    called: FloatArray = np.maximum(o.call_end_ns - o.call_start_ns, 0).astype(np.float64) * 1e-9
    return called


def _finding(rows: Operations, gpu: int, direction: int, gbs: float | None) -> Finding | None:
    count = len(rows)
    typical = median(count, lambda: (_lasted(piece) for piece in rows.pieces()))
    size = median(count, lambda: (piece.bytes.astype(np.float64) for piece in rows.pieces()))
    called = median(count, lambda: (_called(piece) for piece in rows.pieces()))
    moving = 0.0 if gbs is None else transfer_seconds(size, gbs)
    fixed, left = max(typical - moving, 0.0), batches(rows)
    each = max(fixed, called)
    gain = (count - left) * each
    if gain < LEAST_SECONDS:
        return None
    total = rows.total("bytes")
    lasted = sum(float(_lasted(piece).sum()) for piece in rows.pieces())
    thread = f", and its call {called * 1e6:.3g} µs of the thread" if called > fixed else ""
    whose = "of the thread" if called > fixed else "of the GPU"
    looked_at = direction == 1 and size <= LOOKED_AT
    return finding(
        "tiny-copies",
        f"{count} {DIRECTIONS[direction]} copies of g{gpu} are at most {MOST_BYTES >> 10} KiB "
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
