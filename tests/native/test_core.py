"""The compiled core on a CPU: patterns, the gate's guard, host threads, topology."""

import itertools
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lanescope._core import native


def test_a_throwing_body_leaves_the_gate_open():
    assert native.testing.gate_opens_when_body_throws()


def test_pattern_is_splitmix64():
    # first outputs of the generator with seed 0, as published with it
    words = [native.testing.pattern_word(0, i) for i in range(2)]
    assert words == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 4096, 10_007])
def test_every_flipped_byte_is_seen(size):
    assert native.testing.mismatches_after_flip(size, size) == 0  # nothing flipped
    for position in {0, size // 2, size - 1}:
        assert native.testing.mismatches_after_flip(size, position) == 1


@pytest.mark.parametrize("operation", ["copy", "triad"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_host_threads_move_every_element(operation, threads):
    cpus = [cpu % 2 for cpu in range(threads)]  # three threads share two CPUs
    size = 8 * 1_000_003  # an odd count, so that parts are unequal
    spec = native.HostCopySpec(0, 0, size, getattr(native.Operation, operation), cpus)
    team = native.HostTeam(native.Topology(), [spec])
    spans = team.run(3)[0]
    assert team.count_mismatches() == 0
    assert len(spans) == 3
    assert all(begin < end for begin, end in spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_two_host_copies_run_together():
    spec = native.HostCopySpec(0, 0, 32 << 20, native.Operation.copy, [0])
    other = native.HostCopySpec(0, 0, 32 << 20, native.Operation.triad, [1])
    first, second = native.HostTeam(native.Topology(), [spec, other]).run(5)
    starts = [abs(a[0] - b[0]) for a, b in zip(first, second, strict=True)]
    assert statistics.median(starts) < 1e-3  # one barrier starts both


def test_impossible_memory_is_an_error_not_a_crash():
    spec = native.HostCopySpec(0, 0, 1 << 60, native.Operation.copy, [0])
    with pytest.raises(native.NativeError) as caught:
        native.HostTeam(native.Topology(), [spec])
    call, code, name, detail, where = caught.value.args
    assert "mmap" in call
    assert (code, name) == (12, "errno 12")
    assert detail
    assert "host_buffer.cpp:" in where


def test_topology_is_hwloc_xml():
    root = ET.fromstring(native.topology_xml())
    assert root.tag == "topology"
    assert [o for o in root.iter("object") if o.get("type") == "PU"]


def test_only_cpus_that_this_process_may_use():
    code = """
import os, xml.etree.ElementTree as ET
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from lanescope._core import native
print(sum(o.get("type") == "PU" for o in ET.fromstring(native.topology_xml()).iter("object")))
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "1"


def test_devices_or_cudas_own_reason():
    try:
        devices = native.cuda_devices()
    except native.NativeError as error:
        reason = error.args[2]
    else:
        reason = None
        assert all(d["pci_address"] for d in devices)
    assert reason is None or reason.startswith("cudaError")


def test_stubs_are_those_of_the_core(tmp_path):
    stubgen = pytest.importorskip("nanobind.stubgen")
    import lanescope

    stubgen.main(["-m", "lanescope._native", "-O", str(tmp_path), "-r", "-q"])
    kept = Path(lanescope.__file__).parent / "_native"
    generated = {path.name: path.read_text() for path in tmp_path.rglob("*.pyi")}
    assert generated == {path.name: path.read_text() for path in kept.glob("*.pyi")}, "make stubs"
