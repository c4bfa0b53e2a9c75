from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.machine.pcie import PcieLink
from lanescope.trace.wire import RESOLUTION, WireModel, default_model, settle

#: Wire bytes for each payload byte, as measured on an H200 with PM sampling.
MEASURED = ((1.0469, 0.0000), (0.0625, 1.0625))
amounts = st.floats(0, 1e12)


def test_packet_sizes_explain_what_an_h200_showed() -> None:
    model = default_model("pm", PcieLink(5, 16, max_payload_bytes=256))
    assert np.allclose(model.matrix, MEASURED, atol=5e-5)


def test_nvml_counts_framing_and_checksum_too() -> None:
    # 55.400 GB/s received and 60.078 sent, where PM sampling told 51.38 and 50.51 GB/s of payload
    model = default_model("counters")
    h2d, d2h = model.payload(55.400e9, 60.078e9)
    assert float(h2d) == pytest.approx(51.38e9, rel=1e-3)
    assert float(d2h) == pytest.approx(50.51e9, rel=1e-3)


def test_small_packets_cost_more() -> None:
    assert default_model("pm", PcieLink(3, 16, max_payload_bytes=128)).matrix[0][0] == 1.09375


def test_requests_are_no_traffic_to_the_host() -> None:
    h2d, d2h = default_model("pm").payload(1124094022, 67134549)
    assert float(h2d) == pytest.approx(1 << 30, rel=0.001)
    assert float(d2h) == 0.0


def test_what_watching_causes_is_taken_off_before() -> None:
    model = WireModel(((1.0, 0.0), (0.0, 1.0)), (0.0, 92.0), (1000.0, 0.0))
    h2d, d2h = model.payload(1000 + 5e6, 92 * 100_000 + 7e6, seconds=1.0, interval_ns=10_000)
    assert (float(h2d), float(d2h)) == (pytest.approx(5e6), pytest.approx(7e6))


def test_commands_of_copies_are_taken_off() -> None:
    # 16384 copies of 4 KiB to the host
    h2d, d2h = default_model("pm").payload(2736280, 72414268, operations=16384)
    assert float(h2d) == 0.0
    assert float(d2h) == pytest.approx(64 << 20, rel=0.001)


@given(amounts, amounts)
def test_wire_and_back_is_the_same_payload(h2d: float, d2h: float) -> None:
    model = default_model("pm")
    (a, b), (c, d) = model.matrix
    back = model.solve(a * h2d + b * d2h, c * h2d + d * d2h)
    assert np.allclose(back, (h2d, d2h), atol=1e-3, rtol=1e-9)


@given(st.floats(-1e9, 1e12), st.floats(-1e9, 1e12))
def test_payload_is_never_negative_and_never_more_than_solved(h2d: float, d2h: float) -> None:
    down, up = settle(np.asarray(h2d), np.asarray(d2h))
    assert 0 <= down <= max(h2d, 0)
    assert 0 <= up <= max(d2h, 0)


@given(st.floats(1, 1e12), st.floats(-1, 1))
def test_an_error_of_the_model_invents_no_traffic(h2d: float, error: float) -> None:
    up = settle(np.asarray(h2d), np.asarray(0.99 * error * RESOLUTION * h2d))[1]
    assert up == 0.0
