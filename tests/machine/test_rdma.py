"""RDMA NICs: what the kernel says of them, and the GPUs that they are near."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lanescope.machine import Nic, sysfs
from lanescope.machine.discovery import gbps, machine_from_snapshot
from lanescope.machine.files import dumps_machine, machine_named, parse_machine
from lanescope.machine.several import differences
from lanescope.machine.snapshot import Snapshot
from lanescope.machine.sysfs import RdmaPort
from lanescope.report.terminal import nic_text


@pytest.fixture
def sys_folder(tmp_path):
    """Two devices, one of two ports, as the kernel lists them."""
    for name, address, ports in (("mlx5_0", "0000:0c:00.0", 1), ("mlx5_1", "0000:0d:00.0", 2)):
        device = tmp_path / "class/infiniband" / name
        pci = tmp_path / "devices" / address
        pci.mkdir(parents=True)
        device.mkdir(parents=True)
        (device / "device").symlink_to(pci)
        (device / "fw_ver").write_text("28.39.1002\n")
        for number in range(1, ports + 1):
            port = device / "ports" / str(number)
            port.mkdir(parents=True)
            (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
            (port / "state").write_text("4: ACTIVE\n" if number == 1 else "1: DOWN\n")
            (port / "link_layer").write_text("InfiniBand\n")
    return tmp_path


def test_ports_are_read_as_the_kernel_lists_them(sys_folder):
    found = sysfs.rdma_ports(sys_folder)
    assert [(one.device, one.port) for one in found] == [
        ("mlx5_0", 1),
        ("mlx5_1", 1),
        ("mlx5_1", 2),
    ]
    assert found[0].pci_address == "0000:0c:00.0"
    assert (found[2].state, found[2].firmware) == ("1: DOWN", "28.39.1002")
    assert sysfs.rdma_ports(sys_folder / "nowhere") == ()


def cuda_gpu(index, address):
    about = {"index": index, "name": "GPU", "pci_address": address, "uuid": f"GPU-{index}"}
    numbers = {"memory_bytes": 1 << 30, "compute_major": 9, "compute_minor": 0}
    more = {"multiprocessors": 1, "async_engines": 3, "peers": []}
    return about | numbers | more


def machine(numa="0"):
    """Two GPUs below a switch each, of which one has a NIC beside it; another NIC of the node."""

    def below(parent, node=None):
        return {"parent": parent, "numa_node": node}

    pci = {
        "0000:00:01.0": below(None),
        "0000:0a:00.0": below("0000:00:01.0"),
        "0000:0b:00.0": below("0000:0a:00.0", numa),  # g0
        "0000:0c:00.0": below("0000:0a:00.0", numa)
        | {"current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"},
        "0000:10:00.0": below("0000:00:01.0"),
        "0000:11:00.0": below("0000:10:00.0", numa),  # g1
        "0000:80:01.0": below(None),
        "0000:81:00.0": below("0000:80:01.0", numa),
    }
    ports = (
        RdmaPort("mlx5_0", 1, "0000:0c:00.0", "400 Gb/sec (4X NDR)", "4: ACTIVE", "InfiniBand"),
        RdmaPort("mlx5_1", 1, "0000:81:00.0", "200 Gb/sec (4X HDR)", "1: DOWN", "Ethernet"),
        RdmaPort("rxe0", 1),
    )
    gpus = [cuda_gpu(0, "0000:0b:00.0"), cuda_gpu(1, "0000:11:00.0")]
    return machine_from_snapshot(Snapshot("host", pci=pci, cuda={"devices": gpus}, rdma=ports))


def test_a_nic_is_near_the_gpu_below_the_same_switch_else_those_of_its_node():
    first, second, software = machine().nics
    assert first.gpus == ("g0",)
    assert second.gpus == ("g0", "g1")
    assert software == Nic("rxe0", 1)
    assert machine(numa="-1").nics[1].gpus == ()


def test_a_nic_is_a_line_of_the_tree():
    first, second, software = map(nic_text, machine().nics)
    assert first == (
        "mlx5_0:1: InfiniBand, 400 Gbit/s, active, PCIe 5.0 x16, 0000:0c:00.0, near g0"
    )
    assert second == "mlx5_1:1: Ethernet, 200 Gbit/s, down, 0000:81:00.0, near g0, g1"
    assert software == "rxe0:1: RDMA"


def test_a_machine_file_keeps_nics_and_refuses_two_of_one_name():
    text = dumps_machine(machine())
    assert parse_machine(text, "x").nics == machine().nics
    with pytest.raises(Exception, match="two parts 'mlx5_0:1'"):
        parse_machine(text.replace("mlx5_1", "mlx5_0"), "x")


def test_what_an_expected_nic_lacks_is_said():
    expected = machine()
    first, second, software = expected.nics
    found = replace(
        expected, nics=(replace(first, state="down", rate_gbps=200.0), second, replace(software))
    )
    assert differences(expected, found) == (
        "mlx5_0:1: state: down, active expected.",
        "mlx5_0:1: rate: 200 Gbit/s, 400 Gbit/s expected.",
    )
    (gone,) = differences(expected, replace(expected, nics=expected.nics[:2]))
    assert gone == "NIC rxe0:1 is expected and not there."
    # a file from before there were NICs says nothing of them
    old = machine_named("h200-x2")
    assert not differences(old, replace(old, nics=expected.nics))


@pytest.mark.parametrize(
    ("text", "rate"), [("100 Gb/sec (4X EDR)", 100), ("2.5 Gb/sec (1X SDR)", 2.5), ("", None)]
)
def test_rates(text, rate):
    assert gbps(text) == rate
