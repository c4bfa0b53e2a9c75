"""Reads PCI Express capabilities out of a device's configuration space.

Offsets are those of the PCI Express Base Specification, sections 7.5.3 and 7.7.11 (ACS).
"""

from __future__ import annotations

from dataclasses import dataclass

_CAPABILITIES_POINTER = 0x34
_PCI_EXPRESS = 0x10
_CAPABILITIES = 0x02
_DEVICE_CONTROL = 0x08
_UPSTREAM_PORT = 5
_EXTENDED, _ACS = 0x100, 0x000D
_ACS_CONTROL = 0x06
#: P2P Request Redirect and P2P Egress Control: what GPUs send each other goes up to the host.
_ACS_REDIRECTS = 1 << 2 | 1 << 5
#: A list longer than configuration space can hold runs in a circle.
_MOST_CAPABILITIES = 48
_MOST_EXTENDED = 960


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


def redirects_peers(config: bytes) -> bool | None:
    """Whether a bridge sends what devices below it send each other up to the host (ACS).

    None when it cannot be read: only root sees the extended capabilities.
    """
    at = _EXTENDED
    if len(config) < at + 4:
        return None
    for _ in range(_MOST_EXTENDED):
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == _ACS:
            return bool(_word(config, at + _ACS_CONTROL) & _ACS_REDIRECTS)
        at = header >> 20 & 0xFFC
        if at < _EXTENDED or at + 4 > len(config):
            return False  # the end of the list: it has no ACS
    return None


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
