"""A made-up check of a machine whose GPU 1 came up with half of its PCIe lanes.

The README shows it, as no stored machine is sick. Rates are those of the stored check of two
H200s; copies between the host and g1 take twice as long. To write the run folder again:
``python -m tests.docs.narrow_link docs/examples/narrow-link``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from lanescope import read_run
from lanescope.copies import Copy
from lanescope.engine.sampling import Plan, measure_all
from lanescope.machine import Link
from lanescope.results import LinkEvidence, Result
from lanescope.store.folder import State
from lanescope.store.run import Manifest, Run
from lanescope.store.store import RunWriter
from tests.fake_backend import FakeBackend

ROOT = Path(__file__).parents[2]
HEALTHY = ROOT / "benchmarks" / "results" / "h200-x2" / "check"
NOTE = "This machine is made up: the check of two H200s, with half of the lanes to g1."


def made_up(folder: Path) -> Run:
    """Write the run into a new folder and return it."""
    healthy = read_run(HEALTHY)
    machine = healthy.manifest.machine
    machine = replace(machine, name="made-up", links=tuple(narrowed(one) for one in machine.links))
    manifest = Manifest(
        "check",
        "lanescope check",
        "2026-11-23T09:00:00+00:00",
        healthy.manifest.tool_version,
        machine,
        notes=(NOTE, *healthy.manifest.notes),
    )
    writer = RunWriter(folder, manifest)
    for result in healthy.results:
        backend = FakeBackend(twice_as_long(result), evidence_of(result))
        plan = Plan(target=0.005, budget_seconds=1.0, samples=len(result.copies[0].seconds))
        measure_all([result.experiment], backend, machine, plan, writer.add)
    return writer.finish(State.COMPLETE)


def narrowed(link: Link) -> Link:
    """Return the link, g1's with 8 of its 16 lanes."""
    if link.b != "g1" or link.pcie is None:
        return link
    return replace(link, pcie=replace(link.pcie, width=8))


def over_the_link(copy: Copy) -> bool:
    return {copy.source.part, copy.destination.part} == {"h0", "g1"}


def twice_as_long(result: Result):
    """Return the stored seconds of each copy as one batch, times two over the narrow link."""
    stored = {one.copy: one.seconds for one in result.copies}

    def seconds(copy: Copy, batch: int) -> list[float]:
        return list(stored[copy] * (2 if over_the_link(copy) else 1))

    return seconds


def evidence_of(result: Result) -> tuple[LinkEvidence, ...]:
    """Return what the GPUs' links did after copies over them."""
    parts = {part for c in result.copies for part in (c.copy.source.part, c.copy.destination.part)}
    gpus = sorted(parts - {"h0"}) if "h0" in parts else ()
    return tuple(LinkEvidence(gpu, 5, 8 if gpu == "g1" else 16) for gpu in gpus)


if __name__ == "__main__":
    made_up(Path(sys.argv[1]))
