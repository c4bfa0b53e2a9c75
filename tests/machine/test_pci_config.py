import pytest

from lanescope.machine.sysfs import (
    PacketSizes,
    is_upstream_port,
    packet_sizes,
    redirects_peers,
)


def space(control, length=256, pointer=0x60):
    config = bytearray(256)
    config[0x34] = pointer
    config[0x60:0x62] = bytes([0x01, 0x80])  # power management, then
    config[0x80] = 0x10  # PCI Express
    config[0x88:0x8A] = control.to_bytes(2, "little")
    return bytes(config[:length])


@pytest.mark.parametrize(
    ("control", "sizes"),
    [(0x0000, (128, 128)), (0x5134, (256, 4096)), (0x2040, (512, 512)), (0x50A0, (4096, 4096))],
)
def test_device_control(control, sizes):
    assert packet_sizes(space(control)) == PacketSizes(*sizes)


@pytest.mark.parametrize(
    "config", [b"", space(0x5134, length=64), space(0, pointer=0), b"\xff" * 256]
)
def test_nothing_to_be_read(config):
    assert packet_sizes(config) is None


def test_a_list_that_runs_in_a_circle_ends():
    config = bytearray(256)
    config[0x34], config[0x60], config[0x61] = 0x60, 0x05, 0x60
    assert packet_sizes(bytes(config)) is None


@pytest.mark.parametrize(("kind", "upstream"), [(4, False), (5, True), (6, False), (7, False)])
def test_kind_of_port(kind, upstream):
    config = bytearray(space(0))
    config[0x82] = 2 | kind << 4
    assert is_upstream_port(bytes(config)) is upstream


def test_kind_of_port_without_root():
    assert is_upstream_port(space(0, length=64)) is None


def extended(control, capability=0x000D):
    """Advanced error reporting, then ACS or another capability."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 2 << 16 | 0x148 << 20).to_bytes(4, "little")
    config[0x148:0x14C] = (capability | 1 << 16).to_bytes(4, "little")
    config[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(config)


@pytest.mark.parametrize(
    ("config", "redirects"),
    [
        (extended(0x0000), False),
        (extended(0x0011), False),  # source validation and upstream forwarding
        (extended(0x0004), True),
        (extended(0x001D), True),
        (extended(0x0020), True),
        (extended(0xFFFF, capability=0x0019), False),
        (bytes(4096), False),
        (space(0, length=64), None),
        (b"", None),
        (b"\xff" * 4096, None),
    ],
)
def test_what_peers_send_each_other_goes_up_where_acs_says_so(config, redirects):
    assert redirects_peers(config) is redirects
