"""All kinds of findings in one list."""

from __future__ import annotations

from lanescope.document.finding import Finding
from lanescope.machine import Machine
from lanescope.watch.findings.far_node import far_node
from lanescope.watch.findings.overlap import no_overlap
from lanescope.watch.findings.pageable import pageable_async
from lanescope.watch.findings.resent import resent
from lanescope.watch.findings.synchronous import synchronous_copies
from lanescope.watch.findings.thrashing import thrashing
from lanescope.watch.findings.tiny import tiny_copies
from lanescope.watch.findings.trained_down import trained_down
from lanescope.watch.limits import Ceilings, link_limits
from lanescope.watch.summary import Summary
from lanescope.watch.timeline import Timeline


def find(
    timeline: Timeline,
    summary: Summary,
    machine: Machine | None = None,
    ceilings: Ceilings | None = None,
) -> tuple[Finding, ...]:
    """Return what could be faster, with the largest predicted gain first."""
    operations, seconds = timeline.operations, timeline.seconds
    migrated = timeline.managed.device
    gpus = sorted(operations.values("device").union(migrated[migrated >= 0].tolist()))
    limits = {gpu: link_limits(machine, gpu, ceilings) for gpu in gpus}
    found = [
        *pageable_async(operations, limits),
        *synchronous_copies(operations, seconds),
        *tiny_copies(operations, limits),
    ]
    if not any(process.left_out_kernels for process in timeline.processes):
        found += no_overlap(operations, seconds)
    found += [
        *thrashing(timeline.managed, operations, limits),
        *resent(timeline),
    ]
    if machine is not None:
        found += far_node(timeline, machine, ceilings)
        found += trained_down(machine, summary.ways)
    return tuple(sorted(found, key=lambda f: -(f.gain_seconds.high if f.gain_seconds else 0.0)))
