"""Advice as plain values for JSON: units in the names, None for what is unknown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lanescope.model.advice.advice import Advice, PhaseAdvice
from lanescope.model.advice.change import Change
from lanescope.model.advice.phase import CopyKind, Phase
from lanescope.model.transfer.estimate import Estimate

#: Of the values below; it changes when a key changes its meaning or goes.
ADVICE_VERSION = 1


def advice_json(advice: Advice) -> dict[str, Any]:
    """Return advice as dicts, lists, numbers and text."""
    return {
        "version": ADVICE_VERSION,
        "seconds": advice.seconds,
        "parameters": advice.parameters,
        "predictor": advice.predictor,
        "phases": [
            {**_phase(one), "command": advice.commands.get(one.phase.pid)} for one in advice.phases
        ],
        "notes": list(advice.notes),
    }


def _phase(one: PhaseAdvice) -> dict[str, Any]:
    phase = one.phase
    return {
        "pid": phase.pid,
        "gpu": phase.gpu,
        "number": phase.number,
        "measured": _measured(phase),
        "method": phase.method,
        "parts": phase.parts,
        "waited": list(phase.waited),
        "endless": phase.endless,
        "workload": asdict(phase.workload),
        "predicted_seconds": _estimate(one.predicted_seconds),
        "predicted_over_measured": None if one.error is None else one.error + 1,
        "described": one.described,
        "reason": one.reason,
        "changes": [_change(change, one.changes) for change in one.changes],
        "notes": list(one.notes),
    }


def _measured(phase: Phase) -> dict[str, Any]:
    return {
        "rounds": phase.rounds,
        "rounds_in_run": phase.rounds_in_run,
        "seconds": _estimate(phase.seconds),
        "period_seconds": _estimate(phase.period_seconds),
        "h2d_seconds": _estimate(phase.h2d_seconds),
        "d2h_seconds": _estimate(phase.d2h_seconds),
        "kernel_seconds": _estimate(phase.kernel_seconds),
        "hidden_seconds": _estimate(phase.hidden_seconds),
        "idle_seconds": _estimate(phase.idle_seconds),
        "host_seconds": _estimate(phase.host_seconds),
        "copies": [_copy(kind) for kind in phase.copies],
        "streams": phase.streams,
        "launches": phase.launches,
    }


def _copy(kind: CopyKind) -> dict[str, Any]:
    return {**asdict(kind), "memory": kind.memory.label}


def _change(change: Change, others: tuple[Change, ...]) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "steps": list(change.steps),
        "sentence": change.sentence,
        "method": change.method,
        "streams": change.streams,
        "predicted_seconds": _estimate(change.seconds),
        "predicted_gain_seconds": _estimate(change.gain_seconds),
        "predicted_run_gain_seconds": _estimate(change.run_gain_seconds),
        "worth": change.worth,
        "why_not": change.why,
        "conditions": list(change.conditions),
        "basis": change.basis,
        "excludes": [other.kind for other in others if change.excludes(other)],
    }


def _estimate(one: Estimate | None) -> dict[str, float] | None:
    return None if one is None else asdict(one)
