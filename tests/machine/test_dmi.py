import dataclasses
import struct

import pytest

from lanescope.machine.discovery import machine_from_snapshot
from lanescope.machine.snapshot import Snapshot
from lanescope.machine.sysfs import memory_modules, peak_gbs


def module(locator, speed=4800, configured=4400, size=32768, width=64, extended=0):
    """A Memory Device structure (type 17) of SMBIOS 3.3."""
    body = bytearray(0x5C)
    body[0:4] = struct.pack("<BBH", 17, len(body), 0x1100)
    struct.pack_into("<HHH", body, 0x08, width + 8, width, size)
    body[0x10] = 1  # device locator: the first text
    struct.pack_into("<H", body, 0x15, speed)
    struct.pack_into("<H", body, 0x20, configured)
    struct.pack_into("<II", body, 0x54, extended, extended)
    return bytes(body) + locator.encode() + b"\0\0"


OTHER = bytes([0, 4, 0, 0]) + b"vendor\0\0"
END = bytes([127, 4, 0, 0]) + b"\0\0"


def table(*modules):
    return OTHER + b"".join(modules) + END


def test_modules_are_read_with_their_configured_speed():
    (only,) = memory_modules(table(module("DIMM_A1"), module("DIMM_B1", size=0)))
    assert only.megatransfers == 4400
    assert only.peak_gbs == pytest.approx(35.2)


def test_speeds_past_16_bits():
    (only,) = memory_modules(table(module("A", 0xFFFF, 0xFFFF, extended=70000)))
    assert only.megatransfers == 70000


@pytest.mark.parametrize(
    ("locators", "channels"),
    [
        (["DIMM_A1", "DIMM_A2", "DIMM_B1"], 2),
        (["P0_Node0_Channel0_Dimm0", "P0_Node0_Channel1_Dimm0", "P1_Node0_Channel0_Dimm0"], 3),
        (["ChannelA-DIMM0", "ChannelB-DIMM0"], 2),
        (["CPU0_DIMM_A1", "CPU1_DIMM_A1"], 2),
        (["slot one", "slot two"], 2),
        # each controller of a socket has a channel 0 (Supermicro), A (Intel)
        (["P0_Node0_Channel0_Dimm0", "P0_Node1_Channel0_Dimm0"], 2),
        (["Controller0-ChannelA-DIMM0", "Controller1-ChannelA-DIMM0"], 2),
        (["P0_CHANNEL_A DIMM 0", "P0_CHANNEL_A DIMM 1", "P0_CHANNEL_B DIMM 0"], 2),
        # here the letter is the socket (Dell): no channel takes so many modules
        (["DIMM_A1", "DIMM_A2", "DIMM_A3", "DIMM_A4"], 4),
    ],
)
def test_modules_of_a_channel_share_it(locators, channels):
    modules = memory_modules(table(*(module(name) for name in locators)))
    peak, detail = peak_gbs(modules)
    assert peak == pytest.approx(channels * 35.2)
    assert f"{channels} × 4400 MT/s" in detail


def test_no_modules_no_peak():
    assert peak_gbs(memory_modules(END)) is None
    assert memory_modules(b"\x11\x50garbage") == ()


def test_the_machine_gets_a_memory_limit():
    dmi = table(module("DIMM_A1"), module("DIMM_B1")).hex()
    bare = Snapshot("pc", dmi=dmi, dmi_present=True, cpu_count=4)
    (node,) = machine_from_snapshot(bare).nodes
    assert node.memory_gbs == pytest.approx(70.4)
    hidden = dataclasses.replace(bare, dmi=None)
    machine = machine_from_snapshot(hidden)
    assert machine.nodes[0].memory_gbs is None
    assert any("run once as root" in note for note in machine.notes)
