"""Discovery from recorded and made-up snapshots."""

import dataclasses
from pathlib import Path

import pytest

from lanescope.copies.limit import route
from lanescope.machine import LinkKind
from lanescope.machine.discovery import discover, machine_from_snapshot
from lanescope.machine.snapshot import Snapshot
from lanescope.prediction.stored_parameters import machine_key

RECORDED = Path(__file__).parent.parent / "data" / "h200-x2"


@pytest.fixture
def h200():
    return Snapshot.load(RECORDED)


def test_without_cuda_the_driver_tells_the_same_machine(h200):
    """Which machine a fit is of is known before CUDA has answered."""
    told = machine_from_snapshot(dataclasses.replace(h200, cuda={"error": "not asked"}))
    for gpu in (0, 1):
        assert machine_key(told, gpu) == machine_key(machine_from_snapshot(h200), gpu)
    assert machine_key(told) == "NVIDIA H200; Intel(R) Xeon(R) Processor; PCIe 5.0 x16"


def test_two_recorded_h200s(h200):
    machine = machine_from_snapshot(h200)
    assert (machine.name, machine.driver, machine.cuda_version) == ("h200-x2", "580.159.04", "13.0")
    (node,) = machine.nodes
    assert (len(node.cores), node.cache_bytes) == (32, 300 << 20)
    assert node.memory_bytes == h200.memory_bytes  # hwloc saw only what was plugged in
    assert [g.name for g in machine.gpus] == ["NVIDIA H200"] * 2
    assert [(ln.a, ln.b, ln.label) for ln in machine.links] == [
        ("h0", "g0", "PCIe 5.0 x16"),
        ("h0", "g1", "PCIe 5.0 x16"),
        ("g0", "nvswitch", "NVLink 4 x18"),
        ("g1", "nvswitch", "NVLink 4 x18"),
    ]
    pcie = machine.links[0].pcie
    assert (pcie.max_payload_bytes, pcie.max_read_request_bytes) == (256, 4096)
    assert machine.links[2].raw_gbs == pytest.approx(478.1, abs=0.1)
    assert len(machine.notes) == 1  # the memory's speed
    assert not machine.described


def test_a_snapshot_reads_back(h200, tmp_path):
    h200.save(tmp_path)
    assert Snapshot.load(tmp_path) == h200


def test_this_machine_has_cores_and_memory():
    machine = discover()
    assert machine.nodes[0].cores
    assert machine.nodes[0].memory_bytes > 1 << 28


def test_without_hwloc_there_is_one_node(h200):
    machine = machine_from_snapshot(dataclasses.replace(h200, hwloc_xml=None))
    assert [len(n.cores) for n in machine.nodes] == [32]


NO_GPU = {
    "nvml": {"error": "NVML Shared Library Not Found"},
    "cuda": {"error": "cudaErrorNoDevice"},
}


def test_no_gpu_and_no_driver(h200):
    machine = machine_from_snapshot(dataclasses.replace(h200, pci={}, **NO_GPU))
    assert machine.gpus == ()
    assert "no NVIDIA GPU and no NVIDIA driver" in machine.notes[0]


def test_a_gpu_without_a_driver_is_pointed_out(h200):
    machine = machine_from_snapshot(dataclasses.replace(h200, **NO_GPU))
    assert "2 NVIDIA GPU(s) are here, but no working driver" in machine.notes[0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("cudaErrorInsufficientDriver", "libcuda.so.1"),  # this driver is new enough
        ("cudaErrorSystemDriverMismatch", "restart the machine"),
        ("cudaErrorSystemNotReady", "fabricmanager"),
        ("cudaErrorUnknown", "CUDA does not work"),
    ],
)
def test_cuda_that_does_not_work(h200, error, words):
    cuda = {"error": error, "detail": "text"}
    machine = machine_from_snapshot(dataclasses.replace(h200, cuda=cuda))
    assert len(machine.gpus) == 2
    assert all(gpu.unavailable for gpu in machine.gpus)
    assert words in machine.notes[0]


def without_second(h200, **entry):
    cuda = {"devices": h200.cuda["devices"][:1]}
    first, second = h200.nvml["gpus"]
    gpus = [first, second | entry]
    return dataclasses.replace(h200, cuda=cuda, nvml=h200.nvml | {"gpus": gpus})


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"mig": True}, "MIG is on"),
        ({"compute_mode": "prohibited"}, "prohibited"),
        ({"compute_mode": "exclusive-process"}, "exclusive-process"),
        ({"name": None}, "fallen off the bus"),
        ({}, "the driver does not say why"),
    ],
)
def test_a_gpu_that_cuda_does_not_offer_says_why(h200, entry, words):
    machine = machine_from_snapshot(without_second(h200, **entry))
    assert machine.gpu(0).unavailable is None
    assert words in machine.gpu(1).unavailable


def test_hidden_gpus_are_told(h200):
    hidden = dataclasses.replace(without_second(h200), visible_devices="0")
    assert "CUDA_VISIBLE_DEVICES=0" in machine_from_snapshot(hidden).gpu(1).unavailable


def changed(h200, **attributes):
    pci = {a: d | (attributes if d["vendor"] == "0x10de" else {}) for a, d in h200.pci.items()}
    return machine_from_snapshot(dataclasses.replace(h200, pci=pci))


def test_a_narrow_link_keeps_the_limit_it_should_have(h200):
    link = changed(h200, current_link_width="8").links[0]
    assert link.label == "PCIe 5.0 x8"
    assert link.pcie.trained_down
    assert link.payload_gbs == machine_from_snapshot(h200).links[0].payload_gbs


def test_an_ordinary_user_sees_no_packet_size(h200):
    config = next(d["config"] for d in h200.pci.values() if d["vendor"] == "0x10de")
    machine = changed(h200, config=config[:128])
    assert machine.links[0].pcie.max_payload_bytes is None
    assert any("256 bytes are assumed" in note for note in machine.notes)


def test_nvml_stands_in_for_sysfs(h200):
    machine = machine_from_snapshot(dataclasses.replace(h200, pci={}))
    assert machine.links[0].label == "PCIe 5.0 x16"


def bridge(parent, **more):
    port = {"vendor": "0x1000", "class": "0x060400", "parent": parent, "config": None}
    speeds = {
        "current_link_speed": "16.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_width": "16",
    }
    return port | speeds | more


def test_both_gpus_behind_one_switch(h200):
    pci = dict(h200.pci)
    pci["0000:10:00.0"] = bridge(None)  # root port
    pci["0000:11:00.0"] = bridge("0000:10:00.0")  # upstream port
    for number, gpu in enumerate(("0000:00:06.0", "0000:00:07.0")):
        pci[f"0000:12:0{number}.0"] = bridge("0000:11:00.0")  # downstream ports
        pci[gpu] = pci[gpu] | {"parent": f"0000:12:0{number}.0"}
    machine = machine_from_snapshot(dataclasses.replace(h200, pci=pci))
    pcie = [(ln.a, ln.b, ln.label) for ln in machine.links if ln.kind is LinkKind.PCIE]
    assert sorted(pcie) == [
        ("h0", "s0", "PCIe 4.0 x16"),
        ("s0", "g0", "PCIe 5.0 x16"),
        ("s0", "g1", "PCIe 5.0 x16"),
    ]
    assert machine.switches[0].pci_address == "0000:11:00.0"
    assert [hop.b for hop, _ in route(machine, "h0", "g1")] == ["s0", "g1"]


def test_direct_nvlinks_are_counted_once(h200):
    first, second = h200.nvml["gpus"]

    def bundle(remote):
        link = {"up": True, "version": 4, "speed_mbps": 25781, "remote_type": 0}
        down = link | {"up": False, "remote_address": None}
        return [link | {"remote_address": remote}] * 4 + [down]

    gpus = [
        first | {"nvlinks": bundle("0000:00:07.0")},
        second | {"nvlinks": bundle("0000:00:06.0")},
    ]
    machine = machine_from_snapshot(dataclasses.replace(h200, nvml=h200.nvml | {"gpus": gpus}))
    (link,) = (ln for ln in machine.links if ln.kind is LinkKind.NVLINK)
    assert (link.a, link.b, link.label) == ("g0", "g1", "NVLink 3 x4")
    assert link.raw_gbs == pytest.approx(4 * 25.781)


def test_an_old_driver_is_told_from_a_missing_library(h200):
    cuda = {"error": "cudaErrorInsufficientDriver", "detail": "text"}
    old = dataclasses.replace(h200, cuda=cuda, nvml=h200.nvml | {"driver": "550.54.15"})
    assert "550.54.15 is too old" in machine_from_snapshot(old).notes[0]


def test_an_updated_driver_asks_for_a_restart_not_for_an_installation(h200):
    nvml = {"error": "Driver/library version mismatch"}
    for error in ("cudaErrorSystemDriverMismatch", "cudaErrorNoDevice"):
        changed_driver = dataclasses.replace(h200, nvml=nvml, cuda={"error": error})
        assert "restart the machine" in machine_from_snapshot(changed_driver).notes[0]


def test_every_gpu_hidden(h200):
    cuda = {"error": "cudaErrorNoDevice", "detail": "no CUDA-capable device is detected"}
    machine = machine_from_snapshot(dataclasses.replace(h200, cuda=cuda, visible_devices=""))
    assert all('CUDA_VISIBLE_DEVICES=""' in gpu.unavailable for gpu in machine.gpus)
    assert "CUDA_VISIBLE_DEVICES" in machine.notes[0]


def test_hiding_is_told_before_exclusive_mode(h200):
    hidden = without_second(h200, compute_mode="exclusive-process", in_use=False)
    hidden = dataclasses.replace(hidden, visible_devices="0")
    assert "CUDA_VISIBLE_DEVICES" in machine_from_snapshot(hidden).gpu(1).unavailable


@pytest.mark.parametrize(("in_use", "closed"), [(True, True), (False, False), (None, False)])
def test_an_exclusive_gpu_is_closed_only_when_held(h200, in_use, closed):
    gpus = [g | {"compute_mode": "exclusive-process", "in_use": in_use} for g in h200.nvml["gpus"]]
    machine = machine_from_snapshot(dataclasses.replace(h200, nvml=h200.nvml | {"gpus": gpus}))
    assert [gpu.unavailable is not None for gpu in machine.gpus] == [closed] * 2


def test_every_gpu_that_has_fallen_off_is_counted(h200):
    nvml = h200.nvml | {"gpus": [{"index": 0}, {"index": 1}]}
    machine = machine_from_snapshot(dataclasses.replace(h200, nvml=nvml, cuda={"devices": []}))
    assert len(machine.gpus) == 2


def test_a_link_that_nobody_tells_is_noted_once(h200):
    unknown = {"current_link_speed": "Unknown", "current_link_width": "0"}
    pci = {a: d | unknown for a, d in h200.pci.items()}
    gpus = [g | {"generation": None, "nvlinks": []} for g in h200.nvml["gpus"]]
    silent = dataclasses.replace(h200, pci=pci, nvml=h200.nvml | {"gpus": gpus})
    (note,) = (n for n in machine_from_snapshot(silent).notes if "PCIe link" in n)
    assert "g0, g1" in note


def test_root_is_not_sent_to_become_root(h200):
    (note,) = (n for n in changed(h200, config="00" * 256).notes if "256 bytes" in n)
    assert "root" not in note


def test_broken_xml_leaves_one_node(h200):
    machine = machine_from_snapshot(dataclasses.replace(h200, hwloc_xml="<topology"))
    assert [len(n.cores) for n in machine.nodes] == [32]
