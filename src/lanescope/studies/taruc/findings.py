"""What a suite has shown, in words: differences beyond both intervals and above 3 %."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lanescope.document.finding import Finding
from lanescope.machine import Machine
from lanescope.results.result import Result
from lanescope.studies.taruc.contended import suite_of
from lanescope.studies.taruc.find_contention import contention_findings
from lanescope.studies.taruc.find_copies import device_findings, host_findings
from lanescope.studies.taruc.find_memory import load_findings, overhead_findings

#: What comes first among findings of different kinds; all others follow.
_FIRST = (
    "far-host-memory",
    "shared-link",
    "unfair",
    "saturation",
    "far-pcie",
    "sync-async",
    "far-device-copies",
    "staged-peers",
    "allocate-pinned",
    "first-touch",
    "tlb-random-chase",
    "cache-steps",
    "random-loads",
    "all-gpus",
    "between-sockets",
    "far-loads",
)


def findings(machine: Machine, results: Sequence[Result]) -> tuple[Finding, ...]:
    """Return every finding of a suite, the most telling ones first.

    The first of each kind come before the second of any, so that one effect that
    shows in many places does not hide the others.
    """
    suite = suite_of(machine, results)
    if suite.predicted:
        return ()
    found = [
        *host_findings(suite),
        *device_findings(suite),
        *overhead_findings(suite),
        *load_findings(suite),
        *contention_findings(suite),
    ]
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for one in sorted(found, key=lambda f: -f.effect):
        by_kind[one.kind].append(one)
    places = {kind: place for place, kind in enumerate(_FIRST)}
    ordered = [
        (number, places.get(kind, len(_FIRST)), one)
        for kind, listed in by_kind.items()
        for number, one in enumerate(listed)
    ]
    return tuple(one for _, _, one in sorted(ordered, key=lambda entry: entry[:2]))
