"""What could be faster, from a timeline: the summary and the findings of a watch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from lanescope.document.contents import Finding
from lanescope.findings.trace.copies import (
    no_overlap,
    pageable_async,
    synchronous_copies,
    tiny_copies,
)
from lanescope.findings.trace.evidence import with_code
from lanescope.findings.trace.links import far_node, resent, thrashing, trained_down
from lanescope.machine import Machine
from lanescope.trace.limits import Ceilings, link_limits, measured_links, measured_nodes, runs_of
from lanescope.trace.link_error_log import error_notes
from lanescope.trace.run import WatchRun, slowdown, stored_cost
from lanescope.trace.summarise import summarise
from lanescope.trace.summary import Cost, Summary
from lanescope.trace.timeline import Timeline


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
        found += no_overlap(summary.gpu_times, seconds)
    found += [
        *thrashing(timeline.managed, operations, limits),
        *resent(timeline),
    ]
    if machine is not None:
        found += far_node(timeline, machine, ceilings)
        found += trained_down(machine, summary.directions)
    found.sort(key=lambda f: -(f.gain_seconds.high if f.gain_seconds else 0.0))
    return tuple(with_code(found, timeline))


_NO_SLOWDOWN = (
    "What tracing cost the program is not known: 'lanescope doctor --cost' measures what it costs "
    "here, and --turns what watching costs this program."
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A watch in numbers, and what could be faster."""

    summary: Summary
    findings: tuple[Finding, ...]


def evaluate_watch(run: WatchRun, runs: Path | None = None) -> Evaluation:
    """Return the summary and the findings of a watch.

    Parameters
    ----------
    runs
        Where earlier runs lie, which measured what links carry; None is where runs are kept.
    """
    machine = run.manifest.machine
    ceilings = measured_ceilings(machine, runs)
    summary = summarise(run.timeline, machine, ceilings)
    predicted = slowdown(run.timeline, stored_cost(machine, runs))
    rates = tuple(one.rate_note for one in run.manifest.sources if one.rate_note)
    notes = rates + error_notes(run.link_errors) + summary.notes
    if predicted is None and any(s.used and s.name == "trace" for s in run.manifest.sources):
        notes += (_NO_SLOWDOWN,)
    summary = dataclasses.replace(
        summary,
        costs=tuple(_with_learning(cost, run) for cost in summary.costs),
        link_errors=run.link_errors,
        notes=notes,
        slowdown=predicted,
        turns=run.turns,
        boost=run.boost,
    )
    return Evaluation(summary, find(run.timeline, summary, machine, ceilings))


def _with_learning(cost: Cost, run: WatchRun) -> Cost:
    """Return a cost with what its source has said of its samples."""
    for source in run.manifest.sources:
        if source.learned is not None and source.name.replace(".", " of ") == cost.source:
            return dataclasses.replace(cost, asked=source.asked, learned=source.learned)
    return cost


def measured_ceilings(machine: Machine, runs: Path | None = None) -> Ceilings | None:
    """Return what earlier runs measured of a machine's links; None without any."""
    measured = [*runs_of(machine, runs)]
    links = measured_links(measured)
    names = ", ".join(sorted({link.run for link in links.values()}))
    gbs = {key: link.gbs for key, link in links.items()}
    by_node = {key: link.gbs for key, link in measured_nodes(measured).items()}
    return Ceilings(gbs, f"measured in {names}", by_node) if links else None
