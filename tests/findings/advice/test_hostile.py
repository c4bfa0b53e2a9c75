"""Watches that no program makes: whatever was recorded, advice is finite, or refused."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest

from lanescope.errors import InputError
from lanescope.findings.advice import advise
from lanescope.findings.advice.lanes import samples
from lanescope.studies.advise import Advised
from lanescope.trace.codes import OperationCode
from lanescope.trace.timeline import Operations
from lanescope.units.estimate import Estimate, TimeCurve
from tests.findings.advice.made_up import LINK, PINNED_ONLY, Simple
from tests.findings.advice.programs import DEVICE, MANAGED, PAGEABLE, PINNED, run_of
from tests.printed import printed

PINNING = replace(
    LINK, pinning=TimeCurve((10**6, 10**9), (Estimate.exactly(1e-3), Estimate.exactly(0.5)))
)


def anything(seed):
    """Operations with any times, kinds and numbers that a reader lets through."""
    dice = random.Random(seed)
    now, rows = dice.choice([1, 10**9]), []
    sizes = [dice.choice([1, 8, 4096, 1 << 20, 64 << 20, 10**10]) for _ in range(3)]
    for number in range(dice.choice([1, 2, 5, 30, 200])):
        copy, down = dice.random() < 0.6, dice.random() < 0.5
        lasts = dice.choice([0, 1, 1000, 10**6, 10**8])
        start = max(now + dice.choice([0, 0, 100, 60_000, 10**7, -500]), 1)
        call = max(dice.choice([0, start - dice.randint(0, 10**5), start + 5]), 0) * copy
        ends = (dice.choice([PAGEABLE, PAGEABLE, PINNED, MANAGED, 0]), DEVICE)
        source, destination = (ends if down else ends[::-1]) if copy else (0, 0)
        rows.append({
            "what": OperationCode.COPY
            if copy
            else dice.choice([OperationCode.KERNEL, OperationCode.MEMSET]),
            **{"pid": dice.choice([7, 7, 8]), "device": dice.choice([0, 0, 1]), "context": 1},
            **{"stream": dice.choice([7, 8]), "thread": dice.choice([7, 9])},
            **{"correlation": dice.choice([number + 1, 0]), "asynchronous": dice.random() < 0.5},
            **{"start_ns": start, "end_ns": start + lasts, "call_start_ns": call},
            "call_end_ns": max(call + dice.choice([0, 10, lasts, -5]), 0) * bool(call),
            "bytes": dice.choice(sizes) * copy,
            **{"source_kind": source, "destination_kind": destination},
            **{"source_device": -1 if down else 0, "destination_device": 0 if down else -1},
        })  # fmt: skip
        now = start + dice.choice([lasts, 0])
    rows.sort(key=lambda row: row["start_ns"])
    return Operations.of(**{name: [row[name] for row in rows] for name in rows[0]})


def finite(value):
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("parameters", [PINNED_ONLY, PINNING], ids=["pinned only", "pinning"])
def test_advice_is_finite_and_gains_no_more_than_there_is(seed, parameters):
    run = run_of(anything(seed))
    try:
        found = Advised(advise(run, parameters, Simple()))
    except InputError:
        refused = True
    else:
        refused = False
    over = run.timeline.timed_operations
    assert refused == (not sum(len(one.parts) for one in samples(over) if one.bytes_seen))
    if refused:
        return
    assert finite(json.loads(found.to_json()))
    assert "nan" not in printed(found.blocks())
    for phase in found.advice.phases:
        for change in phase.changes:
            gain = change.round_gain_seconds
            assert gain.low <= gain.value <= gain.high
            assert gain.value <= phase.base_seconds * (1 + 1e-9)
            assert 0 <= change.seconds.low <= change.seconds.value <= change.seconds.high
