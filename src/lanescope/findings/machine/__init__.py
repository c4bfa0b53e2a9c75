"""What is wrong with a machine, from all results of a run and not from one path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lanescope.copies import Purpose
from lanescope.document.contents import Finding
from lanescope.findings.machine.evidence import below, matrix_of
from lanescope.findings.machine.host import asymmetric_opposing, far_numa, host_memory_bound
from lanescope.findings.machine.links import slow_gpus, trained_down
from lanescope.findings.machine.peers import iommu_or_acs, slow_pairs, staged_through_host
from lanescope.machine import Machine
from lanescope.machine.part_names import is_gpu
from lanescope.results import Result

#: A suite loads paths in ways that say nothing of their health.
_OF_PATHS = (Purpose.PATH, Purpose.SWEEP, Purpose.SMALL)


def diagnose(machine: Machine, results: Sequence[Result]) -> tuple[Finding, ...]:
    """Return what a run says about the causes of slow paths; nothing for a healthy machine.

    Experiments are known by their copies, never by their names, and may be missing.

    Parameters
    ----------
    results
        Of one run on this machine. Predictions and what was not measured are left out, and
        so are suites, which load paths in ways that say nothing of their health.
    """
    matrix = matrix_of(machine, [r for r in results if r.experiment.purpose in _OF_PATHS])
    links = trained_down(matrix)
    # What a slow link explains is told by no other rule again.
    narrow = below(machine, _parts(links))
    gpus = slow_gpus(matrix, narrow)
    slow = narrow | {part for part in _parts(gpus) if is_gpu(part)}
    staged, staged_pairs = staged_through_host(matrix)
    translated, translated_pairs = iommu_or_acs(matrix, slow)
    opposing, fabric_bound = asymmetric_opposing(matrix, slow)
    return (
        *links,
        *far_numa(matrix),
        *gpus,
        *staged,
        *translated,
        *slow_pairs(matrix, slow, staged_pairs | translated_pairs),
        *host_memory_bound(matrix, slow, fabric_bound),
        *opposing,
    )


def _parts(diagnoses: Iterable[Finding]) -> frozenset[str]:
    return frozenset(part for found in diagnoses for part in found.parts)
