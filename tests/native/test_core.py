"""The compiled core on a CPU: patterns, the gate's guard, topology."""

import ctypes
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lanescope._core import native
from tests.patience import until


def test_a_throwing_body_leaves_the_gate_open():
    assert native.testing.gate_opens_when_body_throws()


def test_an_impatient_gate_opens_by_itself_and_a_patient_one_does_not():
    until(lambda: native.testing.gate_opens_late(0.01, 0.5))
    assert not native.testing.gate_opens_late(60, 0.05)


def test_pattern_is_splitmix64():
    # first outputs of the generator with seed 0, as published with it
    words = [native.testing.pattern_word(0, i) for i in range(2)]
    assert words == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 4096, 10_007])
def test_every_flipped_byte_is_seen(size):
    assert native.testing.mismatches_after_flip(size, size) == 0  # nothing flipped
    for position in {0, size // 2, size - 1}:
        assert native.testing.mismatches_after_flip(size, position) == 1


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

    patterns = Path(__file__).parents[2] / "native/bindings/stub_patterns.txt"
    words = ["-m", "lanescope._native", "-O", str(tmp_path), "-r", "-q", "-p", str(patterns)]
    stubgen.main(words)
    kept = Path(lanescope.__file__).parent / "_native"
    generated = {path.name: path.read_text() for path in tmp_path.rglob("*.pyi")}
    assert generated == {path.name: path.read_text() for path in kept.glob("*.pyi")}, "make stubs"


def test_what_stands_in_for_libpciaccess_has_all_that_hwloc_calls():
    ours = Path(native.__file__).with_name("liblanescope_no_pciaccess.so")
    with open("/proc/self/maps") as maps:
        hwloc = {line.split()[-1] for line in maps if "libhwloc" in line}
    if shutil.which("nm") is None or not hwloc:
        pytest.skip("no nm, or hwloc is linked in")

    def symbols(library, kind):
        done = subprocess.run(["nm", "-D", kind, library], capture_output=True, text=True)
        return {word for word in done.stdout.split() if word.startswith("pci_")}

    assert symbols(hwloc.pop(), "--undefined-only") <= symbols(ours, "--defined-only")
    assert ctypes.CDLL(str(ours)).pci_system_init() != 0


def test_arrays_of_python_are_taken_by_one_class():
    """Which sees to the strides of buffers; that of nanobind is for arrays that are returned."""
    folder = Path(__file__).parents[2] / "native/bindings"
    lines = [
        f"{path.name}: {line.strip()}"
        for path in sorted(folder.glob("*.?pp"))
        if path.name != "lent_array.hpp"
        for line in path.read_text().splitlines()
        if "ndarray<" in line and "ndarray<nb::numpy," not in line
    ]
    assert not lines
