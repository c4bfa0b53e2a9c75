"""Reads the PCI Express capability out of a device's configuration space.

Offsets are those of the PCI Express Base Specification, section 7.5.3.
"""

from __future__ import annotations

from dataclasses import dataclass

_CAPABILITIES_POINTER = 0x34
_PCI_EXPRESS = 0x10
_CAPABILITIES = 0x02
_DEVICE_CONTROL = 0x08
_UPSTREAM_PORT = 5
#: A list longer than configuration space can hold runs in a circle.
_MOST_CAPABILITIES = 48


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """Negotiated sizes in bytes."""

    max_payload_bytes: int
    max_read_request_bytes: int


def packet_sizes(config: bytes) -> PacketSizes | None:
    """Return the packet sizes that a device is set to.

    None when the capability is not in what could be read: the kernel shows
    only the first 64 bytes to ordinary users.
    """
    at = _capability(config)
    if at is None:
        return None
    control = _word(config, at + _DEVICE_CONTROL)
    return PacketSizes(128 << (control >> 5 & 7), 128 << (control >> 12 & 7))


def is_upstream_port(config: bytes) -> bool | None:
    """Whether a bridge is the upstream port of a switch; None when it cannot be read."""
    at = _capability(config)
    return None if at is None else _word(config, at + _CAPABILITIES) >> 4 & 0xF == _UPSTREAM_PORT


def _capability(config: bytes) -> int | None:
    """Offset of the PCI Express capability, if all that is read of it is there."""
    if len(config) <= _CAPABILITIES_POINTER:
        return None
    at = config[_CAPABILITIES_POINTER] & 0xFC
    for _ in range(_MOST_CAPABILITIES):
        if at == 0 or at + _DEVICE_CONTROL + 2 > len(config):
            return None
        if config[at] == _PCI_EXPRESS:
            return at
        at = config[at + 1] & 0xFC
    return None


def _word(config: bytes, offset: int) -> int:
    return int.from_bytes(config[offset : offset + 2], "little")
