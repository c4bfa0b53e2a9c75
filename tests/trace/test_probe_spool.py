"""Spools of probes: whole, cut off, damaged."""

import json
import struct

import numpy as np
import pytest

from lanescope.errors import InputError
from lanescope.machine import machine_named
from lanescope.trace.counter_spool import read_all_counters
from lanescope.trace.probe import probe_header, read_all_probes, read_probe
from lanescope.trace.spool_records import sidecar_of
from lanescope.trace.store import read_spools

T = 1_795_000_000_000_000_000
RECORDS = [(T, 5_000, 20_000, 0, 0), (T + 25_000, 6_000, 40_960, 1, 0)]


def write(path, records=RECORDS, gpu=0):
    content = probe_header(gpu, 204_800, 0, 1.0).encode()
    path.write_bytes(content + b"".join(struct.pack("<QIIII", *record) for record in records))
    return path


def test_records_become_columns(tmp_path):
    path = write(tmp_path / "probe.g2.bin", gpu=2)
    sidecar_of(path).write_text(json.dumps({"cpu_seconds": 0.5}))
    found = read_probe(path)
    assert (found.gpu, found.chunk_bytes, found.period_ns, found.cpu_seconds) == (
        2,
        204_800,
        0,
        0.5,
    )
    assert found.begin_ns.tolist() == [T, T + 25_000]
    assert found.end_ns.tolist() == [T + 25_000, T + 71_960]
    assert found.gbs.tolist() == pytest.approx([10.24, 5.0])
    assert len(found.one_direction(1)) == 1


def test_a_copy_in_no_time_has_no_bandwidth(tmp_path):
    found = read_probe(write(tmp_path / "probe.g0.bin", [(T, 0, 0, 0, 0)]))
    assert np.isnan(found.gbs).all()


@pytest.mark.parametrize("cut", range(1, 24))
def test_a_record_that_is_cut_off_is_left_out(tmp_path, cut):
    path = write(tmp_path / "probe.g0.bin")
    path.write_bytes(path.read_bytes()[:-cut])
    assert len(read_probe(path)) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"source": "probe"',
        b"[]\n",
        b'{"source": "pm", "version": 1}\n',
        b'{"source": "probe", "version": 2}\n',
        b'{"source": "probe", "version": 1}\n',
        probe_header(0, 4, 0, 1.0).encode() + struct.pack("<QIIII", T, 1, 1, 2, 0),
    ],
)
def test_other_files_are_no_spools(tmp_path, content):
    path = tmp_path / "probe.g0.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"probe\.g0\.bin"):
        read_probe(path)
    if b"\n" not in content:  # cut off: nothing had been probed
        assert read_all_probes(tmp_path) == ()


def test_a_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_probe(tmp_path / "probe.g0.bin")


def test_a_folder_is_read_by_gpu_and_no_counter_is_made_of_a_probe(tmp_path):
    for gpu in (10, 2):
        write(tmp_path / f"probe.g{gpu}.bin", gpu=gpu)
    assert [probe.gpu for probe in read_all_probes(tmp_path)] == [2, 10]
    assert read_all_counters(tmp_path) == ()


def test_a_watch_that_was_killed_ends_with_its_last_copy(tmp_path):
    write(tmp_path / "probe.g0.bin")
    timeline = read_spools(tmp_path, machine_named("h200-x2"), T, None)
    assert timeline.end_ns == T + 71_960
    assert len(timeline.probes) == 1
