"""What is told of a watch: its summary and its findings, against what links carry here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from lanescope.machine import Machine
from lanescope.watch.findings import Finding
from lanescope.watch.findings.find_all import find
from lanescope.watch.limits import Ceilings
from lanescope.watch.link_error_log import error_notes
from lanescope.watch.links import measured_links, measured_nodes
from lanescope.watch.run import WatchRun
from lanescope.watch.summarise import summarise
from lanescope.watch.summary import Summary
from lanescope.watch.tracing_cost import kept, slowdown

_NO_SLOWDOWN = (
    "What tracing cost the program is not known: 'lanescope doctor --cost' measures what it costs "
    "here, and --turns what watching costs this program."
)


@dataclass(frozen=True, slots=True)
class Told:
    """A watch in numbers and in words."""

    summary: Summary
    findings: tuple[Finding, ...]


def tell(run: WatchRun, runs: Path | None = None) -> Told:
    """Return what a watch has seen.

    Parameters
    ----------
    runs
        Where earlier runs lie, which tell what links carry; None is where runs are kept.
    """
    machine = run.manifest.machine
    ceilings = measured_ceilings(machine, runs)
    summary = summarise(run.timeline, machine, ceilings)
    predicted = slowdown(run.timeline, kept(machine, runs))
    notes = error_notes(run.link_errors) + summary.notes
    if predicted is None and any(s.used and s.name == "trace" for s in run.manifest.sources):
        notes += (_NO_SLOWDOWN,)
    summary = dataclasses.replace(
        summary,
        link_errors=run.link_errors,
        notes=notes,
        slowdown=predicted,
        turns=run.turns,
    )
    return Told(summary, find(run.timeline, summary, machine, ceilings))


def measured_ceilings(machine: Machine, runs: Path | None = None) -> Ceilings | None:
    """Return what earlier runs measured of a machine's links; None without any."""
    links = measured_links(machine, runs)
    names = ", ".join(sorted({link.run for link in links.values()}))
    gbs = {key: link.gbs for key, link in links.items()}
    by_node = {key: link.gbs for key, link in measured_nodes(machine, runs).items()}
    return Ceilings(gbs, f"measured in {names}", by_node) if links else None
