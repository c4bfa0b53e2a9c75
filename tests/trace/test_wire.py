from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.machine.pcie import PcieLink
from lanescope.trace.codes import FloatArray
from lanescope.trace.timeline import Counters
from lanescope.trace.wire import RESOLUTION, WireModel, default_model, payload_records, settle

#: Wire bytes for each payload byte, as measured on an H200 with PM sampling.
MEASURED = ((1.0469, 0.0000), (0.0625, 1.0625))
amounts = st.floats(0, 1e12)


def test_packet_sizes_explain_what_an_h200_showed() -> None:
    model = default_model("pm", PcieLink(5, 16, max_payload_bytes=256))
    assert np.allclose(model.matrix, MEASURED, atol=5e-5)


def payload(model: WireModel, rx: int, tx: int, copies: int = 0, lasted_ns: int = 1) -> FloatArray:
    """Return payload (h2d, d2h) of one sample, in which so many copies ended."""
    ends, wire = np.array([0, lasted_ns]), np.array([[0, rx], [0, tx]])
    counters = Counters("pm", 0, lasted_ns, ends, *wire, np.array([False, True]))
    ((_, rows),) = payload_records(counters, model, None, np.full(copies, lasted_ns))
    return np.array(settle(*rows[1, :2]))


def test_nvml_counts_framing_and_checksum_too() -> None:
    # 55.400 GB/s received and 60.078 sent, where PM sampling told 51.38 and 50.51 GB/s of payload
    found = payload(default_model("counters"), 55_400_000_000, 60_078_000_000)
    assert found == pytest.approx(np.array((51.38e9, 50.51e9)), rel=1e-3)


def test_small_packets_cost_more() -> None:
    assert default_model("pm", PcieLink(3, 16, max_payload_bytes=128)).matrix[0][0] == 1.09375


def test_requests_are_no_traffic_to_the_host() -> None:
    h2d, d2h = payload(default_model("pm"), 1124094022, 67134549)
    assert h2d == pytest.approx(1 << 30, rel=0.001)
    assert d2h == 0.0


def test_what_watching_causes_is_taken_off_before() -> None:
    model = WireModel(((1.0, 0.0), (0.0, 1.0)), (0.0, 92.0), (1000.0, 0.0))
    found = payload(model, 1000 + 5_000_000, 92 + 7_000_000, lasted_ns=10**9)
    assert found == pytest.approx(np.array((5e6, 7e6)))


def test_commands_of_copies_are_taken_off() -> None:
    # 16384 copies of 4 KiB to the host
    h2d, d2h = payload(default_model("pm"), 2736280, 72414268, copies=16384)
    assert h2d == 0.0
    assert d2h == pytest.approx(64 << 20, rel=0.001)


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
