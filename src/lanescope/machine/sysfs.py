"""Reads what the kernel tells of PCI and RDMA devices, memory and the firmware's tables.

Offsets in a PCI device's configuration space are those of the PCI Express Base Specification,
sections 7.5.3 and 7.7.11 (ACS).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PciDevice = dict[str, str | None]

_ATTRIBUTES = (
    "class",
    "vendor",
    "device",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "numa_node",
)
_CONFIG_BYTES = 256
_ADDRESS = re.compile(r"[0-9a-f]{4,}(:[0-9a-f]{2}){2}\.\d")
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
class RdmaPort:
    """A port of an RDMA device, with its files in /sys/class/infiniband as they read.

    Attributes
    ----------
    rate
        Such as ``400 Gb/sec (4X NDR)``.
    state
        Such as ``4: ACTIVE``.
    layer
        ``InfiniBand`` or ``Ethernet``.
    """

    device: str
    port: int
    pci_address: str | None = None
    rate: str | None = None
    state: str | None = None
    layer: str | None = None
    firmware: str | None = None


def pci_devices(root: Path = Path("/sys")) -> dict[str, PciDevice]:
    """Return the PCI devices by address, such as ``0000:17:00.0``.

    Each holds its attributes as the kernel wrote them, ``config`` with the
    readable start of its configuration space in hex, and ``parent`` with the
    address of the bridge it hangs on; None for what there is not.
    """
    folder = root / "bus" / "pci" / "devices"
    if not folder.is_dir():
        return {}
    return {path.name: _pci_device(path) for path in sorted(folder.iterdir())}


def _pci_device(path: Path) -> PciDevice:
    device: PciDevice = {name: _read_text(path / name) for name in _ATTRIBUTES}
    config = _read_bytes(path / "config")
    device["config"] = None if config is None else config[:_CONFIG_BYTES].hex()
    parent = path.resolve().parent.name
    device["parent"] = parent if _ADDRESS.fullmatch(parent) else None
    return device


def link_now(address: str, root: Path = Path("/sys")) -> tuple[str | None, str | None]:
    """Return speed and width of the link above a PCI device, as the kernel writes them."""
    folder = root / "bus" / "pci" / "devices" / address
    return _read_text(folder / "current_link_speed"), _read_text(folder / "current_link_width")


def bridges_above(address: str, root: Path = Path("/sys")) -> dict[str, bytes]:
    """Return the bridges between a PCI device and the host, with their configuration space.

    All of it for root, else its first 64 bytes.
    """
    found = {}
    path = (root / "bus" / "pci" / "devices" / address).resolve().parent
    while _ADDRESS.fullmatch(path.name):
        found[path.name] = _read_bytes(path / "config") or b""
        path = path.parent
    return found


def rdma_ports(root: Path = Path("/sys")) -> tuple[RdmaPort, ...]:
    """Return the ports of all RDMA devices; none where there is no such device."""
    folder = root / "class" / "infiniband"
    return tuple(_ports(folder)) if folder.is_dir() else ()


def _ports(folder: Path) -> Iterator[RdmaPort]:
    for device in sorted(folder.iterdir()):
        link = device / "device"
        address = link.resolve().name if link.exists() else None
        for port in sorted((device / "ports").glob("[0-9]*"), key=lambda path: int(path.name)):
            yield RdmaPort(
                device.name,
                int(port.name),
                address,
                _read_text(port / "rate"),
                _read_text(port / "state"),
                _read_text(port / "link_layer"),
                _read_text(device / "fw_ver"),
            )


def dmi_table(root: Path = Path("/sys")) -> bytes | None:
    """Return the firmware's DMI (SMBIOS) table, or None when it cannot be read."""
    return _read_bytes(root / "firmware" / "dmi" / "tables" / "DMI")


def has_dmi_table(root: Path = Path("/sys")) -> bool:
    """Whether there is a DMI table at all, readable or not."""
    return (root / "firmware" / "dmi" / "tables" / "DMI").exists()


def memory_bytes(proc: Path = Path("/proc")) -> int | None:
    """Return the size of the memory, or None."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", _read_text(proc / "meminfo") or "", re.M)
    return int(match[1]) * 1024 if match else None


def cpu_model(proc: Path = Path("/proc")) -> str | None:
    """Return the CPU's name, or None."""
    match = re.search(r"^model name\s*:\s*(.+)$", _read_text(proc / "cpuinfo") or "", re.M)
    return match[1].strip() if match else None


def _read_text(path: Path) -> str | None:
    content = _read_bytes(path)
    return None if content is None else content.decode(errors="replace").strip()


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


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
