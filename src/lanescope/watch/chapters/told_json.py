"""What a reproduction tells as plain values, for ``chapters.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lanescope.watch.chapters.plan import Way
from lanescope.watch.chapters.quantity import Quantity
from lanescope.watch.chapters.told import ProgramTold, SourceTold, StepTold, Told
from lanescope.watch.limits import WAYS

#: Version of ``chapters.json``.
JSON_VERSION = 1


def told_json(told: Told) -> dict[str, Any]:
    """Return it as plain values; each number has its unit, its method and its spread."""
    asked = told.reproduction.asked
    gpu = next(gpu for gpu in asked.machine.gpus if gpu.index == asked.gpu)
    return {
        "schema": JSON_VERSION,
        "what": "Qi, Analysis of data movements over the PCIe bus, 2022, chapters 4, 5 and 7.4",
        "tool_version": asked.tool_version,
        "command": asked.command,
        "started": asked.started,
        "state": asked.state,
        "machine": asked.machine.name,
        "gpu": {"index": gpu.index, "name": gpu.name},
        "repetitions": asked.repetitions,
        "turns_done": len(told.reproduction.done),
        "turns_planned": told.planned,
        "notes": list(asked.notes),
        "limits": _ways([asdict(limit) for limit in told.limits]),
        "idle": {
            "probe_gbs": _ways(told.idle_gbs),
            "probe_delay_seconds": _ways(told.idle_delay_seconds),
        },
        "programs": [_program(one) for one in told.programs],
    }


def _program(one: ProgramTold) -> dict[str, Any]:
    return {
        "program": asdict(one.program),
        "truth": {
            "bytes": _ways(one.truth_bytes),
            "copies": one.truth_copies,
            "unit": "B",
            "method": "As the program itself says.",
        },
        "fastest_step_gbs": _ways(one.fastest_step_gbs),
        "work_seconds": _plain(one.work_seconds),
        "slowdown": _plain(one.slowdown),
        "sources": [_source(source) for source in one.sources],
        "steps": [_step(step) for step in one.steps],
        "noticed_by_probe": [asdict(noticed) for noticed in one.noticed],
        "sentences": asdict(one.sentences),
    }


def _source(one: SourceTold) -> dict[str, Any]:
    pairs = ("bytes", "deviation", "elsewhere_bytes", "highest_gbs")
    return {**asdict(one), **{key: _ways(getattr(one, key)) for key in pairs}}


def _step(one: StepTold) -> dict[str, Any]:
    return {
        "name": one.name,
        "h2d_bytes": one.h2d_bytes,
        "d2h_bytes": one.d2h_bytes,
        "copies": one.copies,
        "seconds": _plain(one.seconds),
        "probe_gbs": _ways(one.probe_gbs),
        "probe_delay_seconds": _ways(one.probe_delay_seconds),
    }


def _ways(pair: Any) -> dict[str, Any]:
    return {
        way: asdict(value) if isinstance(value, Quantity) else value
        for way, value in zip(WAYS, pair, strict=True)
    }


def _plain(by_way: Mapping[Way, Quantity]) -> dict[str, Any]:
    return {way.value: asdict(value) for way, value in by_way.items()}
