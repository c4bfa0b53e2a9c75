"""Copies for which the calling thread waits."""

from __future__ import annotations

from collections.abc import Iterator

from lanescope.document.finding import Finding
from lanescope.findings.trace.evidence import bytes_text, copies_text, finding
from lanescope.trace.codes import BoolArray
from lanescope.trace.operations import Operations
from lanescope.trace.rectangles import covered_ns

#: Below this share of the watch waiting is not what makes a program slow.
LEAST_SHARE = 0.02
#: A call that does not wait takes so long: 2 to 10 µs were measured.
SUBMIT_SECONDS = 10e-6
_COLUMNS = ("bytes", "call_start_ns", "call_end_ns")


def synchronous_copies(operations: Operations, watched_seconds: float) -> Iterator[Finding]:
    """Yield a finding for each process that waits for its copies."""
    for pid in sorted(operations.values("pid", _waits)):
        rows = operations.where(_waits, *_COLUMNS, by="call_start_ns", pid=pid)
        called = all(_called(piece).all() for piece in rows.pieces())
        if not called:
            rows = operations.where(_waits, *_COLUMNS, pid=pid)
        found = _finding(rows, pid, called, watched_seconds)
        if found is not None:
            yield found


def _called(o: Operations) -> BoolArray:
    return (o.call_start_ns > 0) & (o.call_end_ns > o.call_start_ns)


def _waits(o: Operations) -> BoolArray:
    return o.is_copy & ~o.asynchronous


def _finding(rows: Operations, pid: int, called: bool, watched: float) -> Finding | None:
    start, end = (rows.call_start_ns, rows.call_end_ns) if called else (rows.start_ns, rows.end_ns)
    waited = covered_ns(start, end) * 1e-9
    if watched <= 0 or waited < LEAST_SHARE * watched:
        return None
    total = rows.total("bytes")
    word = "waited" if called else "waited, by the times of the GPU, at least"
    gain = waited - len(rows) * SUBMIT_SECONDS
    if gain < LEAST_SHARE * watched:  # many small ones: to hand them over takes as long
        return None
    known = "call times are known" if called else "call times are not known: flags and GPU times"
    return finding(
        "synchronous-copies",
        f"Process {pid} {word} {waited:.3g} s ({waited / watched * 100:.1f} % of the watch) in "
        f"{copies_text(len(rows), 'synchronous')} of {bytes_text(total)} in sum.",
        gain,
        f"the thread works on while copies run, but for {SUBMIT_SECONDS * 1e6:g} µs a call",
        (
            "There is other work for the thread or the GPU in that time.",
            "Host memory is pinned: asynchronous copies of pageable memory wait as well.",
            "The program synchronises before it uses what was copied.",
        ),
        (known, f"{len(rows)} copies, {bytes_text(total)}, {waited:.4g} s"),
    )
