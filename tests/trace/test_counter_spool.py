"""Spools of counters: whole, cut off, and of one direction."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.trace.counter_spool import (
    RX,
    TX,
    counter_header,
    merge_directions,
    read_all_counters,
    read_counters,
)
from lanescope.trace.spool_records import sidecar_of
from lanescope.trace.timeline import Counters

UNKNOWN = 0xFFFFFFFF
T = 1_795_000_000_000_000_000


def write(path, records, source="pm", columns=(RX, TX), gpu=0):
    content = counter_header(source, gpu, 100, columns).encode()
    path.write_bytes(content + b"".join(struct.pack("<QII", *record) for record in records))
    return path


def counters(ends, rx, tx, known=None):
    size = len(ends)
    known = np.ones(size, bool) if known is None else np.array(known)
    known[:1] = False
    arrays = (np.array(values, np.int64) for values in (ends, rx, tx))
    return Counters("x", 0, 10, *arrays, known)


def test_records_become_columns(tmp_path):
    path = write(tmp_path / "pm.g2.bin", [(T, UNKNOWN, UNKNOWN), (T + 100, 7, 8)], gpu=2)
    sidecar_of(path).write_text(json.dumps({"lost_samples": 4, "cpu_seconds": 0.5}))
    found = read_counters(path)
    assert (found.source, found.gpu, found.interval_ns) == ("pm", 2, 100)
    assert (found.lost_samples, found.cpu_seconds) == (4, 0.5)
    assert found.end_ns.tolist() == [T, T + 100]
    assert found.rx_bytes.tolist() == [0, 7]
    assert found.tx_bytes.tolist() == [0, 8]
    assert found.known.tolist() == [False, True]


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_record_that_is_cut_off_is_left_out(tmp_path, cut):
    path = write(tmp_path / "pm.g0.bin", [(T, UNKNOWN, UNKNOWN), (T + 100, 7, 8)])
    path.write_bytes(path.read_bytes()[:-cut])
    assert len(read_counters(path)) == 1


@pytest.mark.parametrize("content", [b"", b'{"source": "pm"', b"[]\n", b'{"version": 2}\n'])
def test_other_files_are_no_spools(tmp_path, content):
    path = tmp_path / "pm.g0.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"pm\.g0\.bin"):
        read_counters(path)
    if b"\n" not in content:  # cut off: nothing had been counted
        assert read_all_counters(tmp_path) == ()


def test_a_damaged_sidecar_is_a_missing_one(tmp_path):
    path = write(tmp_path / "pm.g0.bin", [])
    sidecar_of(path).write_text("[1")
    assert read_counters(path).cpu_seconds is None


def test_a_spool_of_one_direction_is_known_by_that(tmp_path):
    records = [(T, UNKNOWN, UNKNOWN), (T + 20, 5, UNKNOWN)]
    path = write(tmp_path / "throughput-rx.g0.bin", records, "throughput-rx", (RX,))
    found = read_counters(path)
    assert found.known.tolist() == [False, True]
    assert (found.rx_bytes[1], found.tx_bytes[1]) == (5, 0)


def test_a_folder_is_read_and_halves_come_together(tmp_path):
    write(tmp_path / "pm.g1.bin", [], gpu=1)
    write(tmp_path / "pm.g0.bin", [])
    for end, column in (("rx", RX), ("tx", TX)):
        write(tmp_path / f"throughput-{end}.g0.bin", [], f"throughput-{end}", (column,))
    found = [(c.source, c.gpu) for c in read_all_counters(tmp_path)]
    assert found == [("pm", 0), ("throughput", 0), ("pm", 1)]


def test_directions_end_wherever_one_of_them_does():
    rx = counters([T, T + 20, T + 40], [0, 100, 200], [0, 0, 0])
    tx = counters([T + 10, T + 30, T + 50], [0, 0, 0], [0, 40, 60])
    both = merge_directions(rx, tx, "throughput")
    assert (both.end_ns - T).tolist() == [10, 20, 30, 40]
    assert both.rx_bytes.tolist() == [0, 50, 100, 100]
    assert both.tx_bytes.tolist() == [0, 20, 20, 30]
    assert both.known.tolist() == [False, True, True, True]


def test_what_one_direction_does_not_know_is_unknown():
    rx = counters([T, T + 20, T + 40], [0, 0, 200], [0, 0, 0], [False, False, True])
    tx = counters([T, T + 30, T + 40], [0, 0, 0], [0, 30, 10])
    both = merge_directions(rx, tx, "throughput")
    assert (both.end_ns - T).tolist() == [0, 20, 30, 40]
    assert both.known.tolist() == [False, False, True, True]
    assert both.rx_bytes.tolist() == [0, 0, 100, 100]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**9)), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**9)), min_size=1, max_size=30),
)
def test_no_byte_is_lost_between_directions(rx_steps, tx_steps):
    def of(steps, received):
        ends = T + np.cumsum([0, *(s for s, _ in steps)])
        values = np.array([0, *(b for _, b in steps)])
        zeros = np.zeros_like(values)
        return counters(ends, *((values, zeros) if received else (zeros, values)))

    rx, tx = of(rx_steps, True), of(tx_steps, False)
    both = merge_directions(rx, tx, "throughput")
    last = both.end_ns[-1]
    for whole, column, merged in (
        (rx, rx.rx_bytes, both.rx_bytes),
        (tx, tx.tx_bytes, both.tx_bytes),
    ):
        if whole.end_ns[-1] == last:
            assert merged.sum() == column.sum()
        assert merged.sum() <= column.sum()
        assert (merged >= 0).all()
