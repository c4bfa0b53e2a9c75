from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from lanescope.trace.timeline import Counters, Operations, Timeline
from lanescope.trace.wire import (
    OBSERVER_PER_OWN_SECOND,
    OBSERVER_PER_SAMPLE,
    OBSERVER_PER_SECOND,
    default_model,
)
from lanescope.trace.wire_fit import default_of, fit, model_of, with_observer

MS = 1_000_000
BYTES_A_SAMPLE = 5_000_000


def timeline(down: float, back: float, *, rx_more: int = 0, tx_per_sample: int = 92) -> Timeline:
    """0.5 s at 0.1 ms: copies of 500 MB, 10 ms each, in the second half."""
    n = 5000
    end = np.arange(n + 1) * MS // 10
    busy = np.arange(n + 1) > 2500
    wire = np.where(busy, BYTES_A_SAMPLE, 0)
    counters = Counters(
        "pm",
        0,
        MS // 10,
        end,
        np.rint(wire * down).astype(np.int64) + rx_more * busy * (np.arange(n + 1) // 100 % 2),
        np.rint(wire * back).astype(np.int64) + tx_per_sample,
        np.arange(n + 1) > 0,
    )
    start = 250 * MS + np.arange(25) * 10 * MS
    copies = Operations.of(
        start_ns=start,
        end_ns=start + 10 * MS,
        bytes=np.full(25, 100 * BYTES_A_SAMPLE),
        source_kind=np.full(25, 2),
        destination_kind=np.full(25, 3),
        destination_device=np.zeros(25),
    )
    return Timeline(0, int(end[-1]), (counters,), copies)


def test_a_fit_finds_what_packets_cost_and_keeps_what_was_not_seen() -> None:
    seen = timeline(1.09, 0.07)
    model = model_of(seen, seen.counters[0])
    assert model.matrix[0][0] == pytest.approx(1.09, rel=1e-3)
    assert model.matrix[1][0] == pytest.approx(0.07, rel=1e-2)
    assert model.matrix[1][1] == 1.0625
    assert model.source.startswith("fitted to 2")
    assert model.residual is not None
    assert model.residual < 0.001


def test_traffic_that_was_not_traced_is_no_protocol() -> None:
    seen = timeline(1.09, 0.07, rx_more=2_000_000)
    assert fit(seen, seen.counters[0], default_model("pm")) is None
    assert model_of(seen, seen.counters[0]).source.startswith("default for PCIe")


def test_what_no_size_of_packets_explains_is_refused() -> None:
    seen = timeline(0.5, 0.0)
    assert fit(seen, seen.counters[0], default_model("pm")) is None


def test_pauses_tell_what_watching_causes() -> None:
    seen = timeline(1.05, 0.06, tx_per_sample=92 + 50)
    model = with_observer(default_model("pm"), seen.counters[0])
    assert model.per_second[0] == 0.0
    assert model.per_second[1] == pytest.approx(50 * 10_000)


def test_without_trace_or_counters_nothing_is_fitted() -> None:
    seen = timeline(1.05, 0.06)
    bare = Timeline(0, seen.end_ns, seen.counters)
    assert fit(bare, seen.counters[0], default_model("pm")) is None


def test_steady_small_traffic_is_not_taken_for_the_watch() -> None:
    seen = timeline(1.05, 0.06, tx_per_sample=1500)
    model = with_observer(default_model("pm"), seen.counters[0])
    assert model.per_second[1] == default_model("pm").per_second[1]


def test_others_that_copy_in_step_are_not_taken_for_protocol() -> None:
    seen = timeline(1.2, 0.07)
    assert fit(seen, seen.counters[0], default_model("pm")) is None


def test_chunks_of_records_do_not_change_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = timeline(1.09, 0.07)
    whole = model_of(seen, seen.counters[0])
    monkeypatch.setattr("lanescope.trace.wire_fit._CHUNK", 777)
    parts = model_of(seen, seen.counters[0])
    assert np.allclose(parts.matrix, whole.matrix)
    assert np.allclose(parts.per_second, whole.per_second)


def test_copies_that_cost_what_packets_are_confirm_their_sizes() -> None:
    seen = timeline(1.0474, 0.0628)
    model = model_of(seen, seen.counters[0])
    assert model.matrix == default_model("pm").matrix
    assert "as 24 windows of 10 ms with traced copies h2d confirm" in model.source


def test_what_other_sources_cause_by_watching_is_taken_off() -> None:
    seen = timeline(1.05, 0.06)
    (pm,) = seen.counters
    every = slice(0, None, 10)  # as read every millisecond
    other = Counters(
        "counters", 0, MS, pm.end_ns[every], pm.rx_bytes[every], pm.tx_bytes[every], pm.known[every]
    )
    both = Timeline(0, seen.end_ns, (pm, other), seen.operations)
    told = default_of(both, pm).others_per_second
    assert told == pytest.approx(np.array(OBSERVER_PER_SAMPLE["counters"]) * 1000, rel=0.01)
    back = default_of(both, other).others_per_second
    expected = np.array(OBSERVER_PER_SAMPLE["pm"]) * 10_000 + np.array(OBSERVER_PER_SECOND["pm"])
    assert back == pytest.approx(expected, rel=0.01)
    marked = dataclasses.replace(pm, own=np.arange(len(pm)) % 50 == 0)  # 2 % of the time
    back = default_of(Timeline(0, seen.end_ns, (marked, other)), other).others_per_second
    expected = np.array(OBSERVER_PER_SAMPLE["pm"]) * 10_000
    expected += np.array(OBSERVER_PER_OWN_SECOND["pm"]) * 0.02
    assert back == pytest.approx(expected, rel=0.01)
