"""Faults to plant, and the one diagnosis that each must give."""

from __future__ import annotations

from lanescope.copies import Copy, Experiment
from lanescope.document.contents import Finding
from lanescope.findings.machine import diagnose
from lanescope.machine import Machine
from lanescope.results import Result
from tests.findings.machine.simulator import Fault


def only(machine: Machine, results: list[Result]) -> Finding:
    found = diagnose(machine, results)
    assert len(found) == 1, [d.sentence for d in found]
    assert all((found[0].sentence, found[0].evidence, found[0].confirm, found[0].remedy))
    return found[0]


def of_host(part: str, factor: float) -> Fault:
    def fault(case: Experiment, copy: Copy, gbs: float) -> float:
        over_host = copy.source.is_host or copy.destination.is_host
        return gbs * (factor if over_host and part in copy.path.split() else 1)

    return fault


def of_peers(*ends: set[str], factor: float) -> Fault:
    def fault(case: Experiment, copy: Copy, gbs: float) -> float:
        return gbs * (factor if {copy.source.part, copy.destination.part} in ends else 1)

    return fault
