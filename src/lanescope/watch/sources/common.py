"""What the sources of counters have in common: their beginning and their end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lanescope._core import native
from lanescope.codec.atomic import write_atomically
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Gpu, Machine
from lanescope.watch.counter_spool import sidecar_of
from lanescope.watch.sources.base import Availability, SourceReport
from lanescope.watch.sources.refusals import refusal


def unusable(machine: Machine, gpu: Gpu) -> Availability | None:
    """Say why no source can watch a GPU; None when that is not so."""
    if machine.described:
        return Availability(False, "A machine that is only described cannot be watched.")
    if gpu not in machine.gpus:
        return Availability(False, f"{machine.name} has no {gpu.id}.", "Look at lanescope topo.")
    if gpu.unavailable is not None:
        return Availability(False, gpu.unavailable)
    return None


def tried(trial: Callable[[], object]) -> Availability:
    """Say whether a trial succeeds, and if not why."""
    try:
        trial()
    except native.NativeError as error:
        told = refusal(error)
    except NotMeasuredError as error:
        told = error
    else:
        return Availability(True)
    return Availability(False, told.reason, told.remedy)


def uuid_of(gpu: Gpu) -> str:
    """Return what NVML calls a GPU.

    Raises
    ------
    NotMeasuredError
        If the machine does not tell.
    """
    if gpu.uuid is None:
        raise NotMeasuredError(f"The driver does not tell the UUID of {gpu.id}.")
    return gpu.uuid


def finish(report: native.CounterReport, spool: Path, *, second: bool = False) -> SourceReport:
    """Write what a sampler tells next to its spool, and return it.

    Parameters
    ----------
    second
        Whether the sampler has another spool, beside which its processor time stands.
    """
    told = {
        "samples": report.samples,
        "lost_samples": report.lost_samples,
        "gaps": report.gaps,
        "restarts": report.restarts,
        "reads": report.reads,
        "asked": report.asked,
        "contradictions": report.contradictions,
        "cpu_seconds": None if second else report.cpu_seconds,
        "decode_cpu_seconds": report.decode_cpu_seconds,
        "evaluate_cpu_seconds": report.evaluate_cpu_seconds,
        "wall_seconds": report.wall_seconds,
        "errors": report.errors,
    }
    write_sidecar(spool, told)
    return SourceReport(
        reason=" ".join(report.errors) or None,
        samples=report.samples,
        lost_samples=report.lost_samples,
        gaps=report.gaps,
        asked=report.asked,
        cpu_seconds=report.cpu_seconds,
        wall_seconds=report.wall_seconds,
    )


def write_sidecar(spool: Path, told: Mapping[str, Any]) -> None:
    """Write what a sampler tells next to its spool, if that can be; the spool tells its end."""
    with contextlib.suppress(OSError, InputError):
        write_atomically(sidecar_of(spool), json.dumps(told).encode(), inner=2)


def together(reports: list[SourceReport]) -> SourceReport:
    """Return one report of several samplers that worked at the same time."""
    return SourceReport(
        reason=" ".join(r.reason for r in reports if r.reason) or None,
        samples=sum(r.samples or 0 for r in reports),
        lost_samples=sum(r.lost_samples or 0 for r in reports),
        gaps=sum(r.gaps or 0 for r in reports),
        asked=sum(r.asked or 0 for r in reports),
        cpu_seconds=sum(r.cpu_seconds or 0.0 for r in reports),
        wall_seconds=max((r.wall_seconds or 0.0 for r in reports), default=None),
    )
