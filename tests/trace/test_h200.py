"""What the analysis makes of captures of a real H200, at 10 µs."""

from __future__ import annotations

import numpy as np
import pytest

from lanescope.trace.rates import Rates, counter_rates, operation_rates
from lanescope.trace.timeline import Operations
from lanescope.trace.wire import default_model
from lanescope.trace.wire_fit import Aligner
from tests.trace import captures

GIB = 1 << 30


def rates_of(capture: str, operations: Operations | None = None) -> tuple[Rates, Rates]:
    counted = captures.counters(capture)
    span = captures.span(counted)
    return counter_rates(counted, default_model("pm"), span, (58.4, 57.6), operations)


@pytest.mark.parametrize(("capture", "direction"), [("1gib-h2d", 0), ("1gib-d2h", 1)])
def test_a_gibibyte_is_found_and_no_traffic_back(capture: str, direction: int) -> None:
    rates = rates_of(capture)
    assert rates[direction].payload_bytes == pytest.approx(GIB, rel=1e-4)
    assert rates[1 - direction].payload_bytes == 0.0


def test_both_directions_at_once_are_told_apart() -> None:
    down, up = rates_of("both-1gib")
    assert down.payload_bytes == pytest.approx(GIB, rel=1e-4)
    assert up.payload_bytes == pytest.approx(GIB, rel=1e-4)


def test_rates_stay_below_the_link() -> None:
    down, _ = rates_of("1gib-h2d")
    for window in down.windows[:2]:
        assert window.p50_gbs is not None
        assert 51 < window.p50_gbs < 58.4
    assert down.windows[2].reason == "not half of any 1 s is known"


def test_commands_of_traced_tiny_copies_are_no_payload() -> None:
    counted = captures.counters("64mib-4k-d2h")
    start, end = captures.span(counted)
    ends = np.linspace(start + 1_000_000, end - 1_000_000, 16384).astype(np.int64)
    assert rates_of("64mib-4k-d2h")[0].payload_bytes == pytest.approx(2.47 * (1 << 20), rel=0.01)
    down, up = rates_of("64mib-4k-d2h", Operations.of(end_ns=ends))
    assert down.payload_bytes == 0.0
    assert up.payload_bytes == pytest.approx(64 << 20, rel=1e-3)


def test_an_idle_link_is_idle() -> None:
    down, up = rates_of("idle")
    assert down.payload_bytes == 0.0
    assert up.payload_bytes == pytest.approx(0, abs=4096)
    assert (down.busy_share, up.busy_share) == (0.0, 0.0)


@pytest.mark.parametrize(("direction", "most_ns"), [("h2d", 1200), ("d2h", 100)])
def test_clocks_of_trace_and_counters_agree(direction: str, most_ns: float) -> None:
    name = f"copies-4mib-{direction}"
    found = Aligner(captures.counters(name), captures.operations(name)).found()
    assert found is not None
    assert found.copies == 50
    assert abs(found.offset_ns) < 1000
    assert found.residual_p99_ns < most_ns
    (delay,) = found.delays  # what the first and the last bytes wait: no matter of clocks
    assert delay.direction == direction
    assert 500 < delay.begin_ns < 2000
    assert -2000 < delay.end_ns < -500


@pytest.mark.parametrize(("direction", "megabytes"), [("h2d", (201, 1)), ("d2h", (1, 201))])
def test_counters_and_trace_tell_the_same(direction: str, megabytes: tuple[int, int]) -> None:
    name = f"copies-4mib-{direction}"
    counted, traced = captures.counters(name), captures.operations(name)
    for rates in (
        rates_of(name, traced),
        operation_rates(traced, 0, captures.span(counted)),
    ):
        main = megabytes.index(201)
        assert rates[main].payload_bytes == pytest.approx(201 << 20, rel=1e-3)
