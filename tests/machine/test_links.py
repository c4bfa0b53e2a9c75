"""Links of made-up machines: a server of two sockets, switches, a laptop."""

import dataclasses
from pathlib import Path

import pytest

from lanescope.machine import LinkKind
from lanescope.machine.discovery import machine_from_snapshot
from lanescope.machine.snapshot import Snapshot, link_states
from tests.machine.test_hwloc_xml import TWO_SOCKETS, socket

H200 = Snapshot.load(Path(__file__).parent.parent / "data" / "h200-x2")
DEVICE, ENTRY = H200.cuda["devices"][0], H200.nvml["gpus"][0]
GPU = H200.pci[DEVICE["pci_address"]]


def port(parent, kind=None, control=0x2020, speed="32.0 GT/s PCIe"):
    """A bridge; `kind` is its port type, None when its configuration is hidden."""
    config = bytearray(256)
    config[0x34], config[0x60], config[0x62] = 0x60, 0x10, (kind or 0) << 4
    config[0x68:0x6A] = control.to_bytes(2, "little")
    speeds = {f"{which}_link_speed": speed for which in ("current", "max")}
    widths = {f"{which}_link_width": "16" for which in ("current", "max")}
    shown = config.hex() if kind is not None else config[:64].hex()
    return {"parent": parent, "config": shown, "class": "0x060400"} | speeds | widths


def machine_with(pci, gpus, **more):
    """A machine of the recorded kind of GPU, at other addresses."""
    devices = [DEVICE | {"index": i, "pci_address": a} for i, a in enumerate(gpus)]
    entries = [ENTRY | {"index": i, "pci_address": a} for i, a in enumerate(gpus)]
    snapshot = dataclasses.replace(
        H200, pci=pci, cuda={"devices": devices}, nvml=H200.nvml | {"gpus": entries}
    )
    return machine_from_snapshot(dataclasses.replace(snapshot, **more))


def pcie(machine):
    return [(ln.a, ln.b) for ln in machine.links if ln.kind is LinkKind.PCIE]


@pytest.mark.parametrize("as_root", [True, False])
def test_eight_gpus_behind_four_switches_of_two_sockets(as_root):
    root, upstream, downstream = (4, 5, 6) if as_root else (None, None, None)
    pci, gpus = {}, []
    for number in range(4):
        pci[f"root{number}"] = port(None, root)
        pci[f"up{number}"] = port(f"root{number}", upstream)
        for slot in range(2):
            pci[f"down{number}.{slot}"] = port(f"up{number}", downstream)
            gpus.append(f"0000:{number}{slot}:00.0")
            pci[gpus[-1]] = GPU | {"parent": f"down{number}.{slot}", "numa_node": str(number // 2)}
    sockets = (socket(0, "0x11", "0x1", 0, 4), socket(1, "0x22", "0x2", 1, 5))
    machine = machine_with(pci, gpus, hwloc_xml=TWO_SOCKETS.format(*sockets))

    assert [s.pci_address for s in machine.switches[:4]] == ["up0", "up1", "up2", "up3"]
    assert set(pcie(machine)) == {
        *((f"h{n // 2}", f"s{n}") for n in range(4)),
        *((f"s{i // 2}", f"g{i}") for i in range(8)),
    }
    fabric = [(ln.a, ln.b) for ln in machine.links if ln.kind is LinkKind.NVLINK]
    assert fabric == [(f"g{i}", "nvswitch") for i in range(8)]
    assert [(ln.a, ln.b) for ln in machine.links if ln.kind is LinkKind.SOCKET] == [("h0", "h1")]
    # the GPUs ask for 4096 bytes at a time, on the link above the switch too
    assert {ln.pcie.max_read_request_bytes for ln in machine.links if ln.pcie} == {4096}


def test_a_bridge_is_a_switch_by_its_own_word():
    pci = {"root": port(None, 4), "bridge": port("root", 7), "0000:01:00.0": GPU}
    pci["0000:01:00.0"] = GPU | {"parent": "bridge"}
    assert pcie(machine_with(pci, ["0000:01:00.0"])) == [("h0", "g0")]
    # nor is a root port one, whatever stands above the device
    hidden = pci | {"root": port(None), "bridge": port("root")}
    assert pcie(machine_with(hidden, ["0000:01:00.0"])) == [("h0", "g0")]


def test_a_silent_gpu_behind_a_switch_is_told_by_nvml():
    silent = GPU | {"parent": "down", "current_link_speed": None, "current_link_width": None}
    pci = {"root": port(None, 4), "up": port("root", 5), "down": port("up", 6)}
    machine = machine_with(pci | {"0000:01:00.0": silent}, ["0000:01:00.0"])
    assert pcie(machine) == [("s0", "g0"), ("h0", "s0")]


def test_a_port_does_not_speak_for_the_gpus_read_requests():
    pci = {"root": port(None, 4), "0000:01:00.0": GPU | {"parent": "root", "config": None}}
    link = machine_with(pci, ["0000:01:00.0"]).links[0].pcie
    assert (link.max_payload_bytes, link.max_read_request_bytes) == (256, None)


def test_an_idle_laptop_keeps_the_limit_of_its_full_speed():
    idle = GPU | {"parent": "root", "current_link_speed": "2.5 GT/s PCIe"}
    pci = {"root": port(None, 4, speed="16.0 GT/s PCIe"), "0000:01:00.0": idle}
    link = machine_with(pci, ["0000:01:00.0"]).links[0]
    assert (link.pcie.generation, link.pcie.max_generation) == (1, 4)  # the slot's, not the GPU's 5
    assert link.raw_gbs == pytest.approx(31.5, abs=0.1)


@pytest.mark.parametrize(
    ("version", "told", "gbs"),
    [(6, 26562, 26.5625), (6, None, 26.5625), (5, None, 25.0), (3, 25781, 25.78125), (6, 20, 0.02)],
)
def test_rate_of_one_nvlink(version, told, gbs):
    links = [ln | {"version": version, "speed_mbps": told} for ln in ENTRY["nvlinks"]]
    nvml = H200.nvml | {"gpus": [ENTRY | {"nvlinks": links}]}
    machine = machine_from_snapshot(dataclasses.replace(H200, nvml=nvml))
    (rate,) = {ln.nvlink.link_gbs for ln in machine.links if ln.nvlink}
    assert rate == gbs


@pytest.mark.parametrize(("peers", "linked"), [([], False), ([1], True), (None, True)])
def test_nvlinks_that_reach_no_gpu_are_left_out(peers, linked):
    gpus = [g | {"nvlink_peers": peers} for g in H200.nvml["gpus"]]
    machine = machine_from_snapshot(dataclasses.replace(H200, nvml=H200.nvml | {"gpus": gpus}))
    assert any(ln.kind is LinkKind.NVLINK for ln in machine.links) is linked
    assert any(s.id == "nvswitch" for s in machine.switches) is linked


def test_states_now_are_the_kernels_else_the_drivers(tmp_path, monkeypatch):
    pci = {"root": port(None, 4), "up": port("root", 5), "down": port("up", 6)}
    gpus = ["0000:01:00.0", "0000:02:00.0"]
    pci |= {gpu: GPU | {"parent": "down"} for gpu in gpus}
    machine = machine_with(pci, gpus)
    for part, speed, lanes in (("up", "16.0 GT/s PCIe", "16"), (gpus[0], "Unknown", "0")):
        folder = tmp_path / "bus/pci/devices" / part
        folder.mkdir(parents=True)
        (folder / "current_link_speed").write_text(f"{speed}\n")
        (folder / "current_link_width").write_text(f"{lanes}\n")

    class Driver:
        def link_state(self, uuid):
            return (4, 8)

    monkeypatch.setattr("lanescope.machine.snapshot.Nvml.open", lambda: Driver())
    found = link_states(machine, tmp_path)
    assert (found["s0"].generation, found["s0"].width) == (4, 16)
    assert (found["g0"].generation, found["g0"].width) == (4, 8)
    best = next(link.pcie for link in machine.links if link.b == "g0")
    assert (found["g0"].max_generation, found["g0"].max_width) == (5, 16)
    assert found["g0"].max_payload_bytes == best.max_payload_bytes
    monkeypatch.setattr("lanescope.machine.snapshot.Nvml.open", lambda: None)
    assert set(link_states(machine, tmp_path)) == {"s0"}
