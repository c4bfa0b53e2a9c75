"""What is known today to be wrong in runs of older versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lanescope.experiment import Purpose
from lanescope.experiment.limit import limits, staging_node
from lanescope.machine import Machine
from lanescope.measurement.result import CopyResult, Result, Status, Verdict
from lanescope.measurement.words import rate_text
from lanescope.units.bandwidth import bandwidth_gbs

#: What the method of a copy through host memory said up to version 4.
_STAGED = "no peer access, staged through host memory"
#: What the method of a set said up to version 3 if some of its copies waited for others.
_OLD_TURNS = "they take turns, so that each is timed from the start of the first to the end of all"


def put_right(machine: Machine, result: Result, version: int) -> Result:
    """Return a result of an older version as today's would be."""
    if version <= 3:
        result = _version_3(machine, result)
    return _version_4(result)


def _version_4(result: Result) -> Result:
    """What a result was for stood in the beginning of its name, and that it was staged in words."""
    first, slash, _ = result.experiment.name.partition("/")
    known = bool(slash) and first in set(Purpose) - {Purpose.PATH, Purpose.SOCKETS}
    experiment = replace(result.experiment, purpose=Purpose(first) if known else Purpose.PATH)
    if result.experiment.name.startswith("contention/sockets/"):
        experiment = replace(experiment, purpose=Purpose.SOCKETS)
    return replace(result, experiment=experiment, staged=_STAGED in result.method)


def _version_3(machine: Machine, result: Result) -> Result:
    """Return a result of version 3 or older without what is known today to be wrong in it.

    Copies of which an engine took some in turns were each given a share of the time of all,
    and judged by it; copies that are staged through host memory had the limit of NVLink.
    """
    copies = result.copies
    if _OLD_TURNS in result.method:
        copies = tuple(_took_turns(copies, number) for number in range(len(copies)))
    parts = {node.id for node in machine.nodes} | {gpu.id for gpu in machine.gpus}
    ends = {place.part for entry in copies for place in (entry.copy.source, entry.copy.destination)}
    staged = [ends <= parts and staging_node(machine, entry.copy) is not None for entry in copies]
    if any(staged):
        bounds = limits(machine, result.experiment)
        copies = tuple(
            replace(entry, limit_gbs=limit.gbs, limit_reason=limit.reason) if through else entry
            for entry, limit, through in zip(copies, bounds, staged, strict=True)
        )
    return replace(result, copies=copies)


def _took_turns(copies: Sequence[CopyResult], number: int) -> CopyResult:
    others = tuple(other for other in range(len(copies)) if other != number)
    counted = sum(entry.copy.counted_bytes for entry in copies)
    total = rate_text(bandwidth_gbs(counted, copies[number].statistics.median_seconds))
    words = f"an engine took some of this set in turns: only the sum of all is known, {total}"
    verdict = Verdict(Status.UNJUDGED, words)
    return replace(copies[number], verdict=verdict, own_rate=False, in_turns_with=others)
