"""Reads what the kernel tells of PCI and RDMA devices, memory and the firmware's tables.

Offsets in a PCI device's configuration space are those of the PCI Express Base Specification,
sections 7.5.3 and 7.7.11 (ACS); those of memory modules in the firmware's DMI (SMBIOS) table of the
SMBIOS Reference Specification 3.7, section 7.18 (Memory Device, type 17).
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
_MEMORY_DEVICE = 17
_END = 127
_SIZE_EXTENDED = 0xFFFF
_LOCATOR, _BANK_LOCATOR = 0x10, 0x11  # numbers of texts
#: Where firmware names the channel: "P0_Node0_Channel3_Dimm0", "CPU1_DIMM_B2", "DIMM_A1".
_CHANNEL = (r"CHANNEL[ _]?([A-Z0-9]+)", r"DIMM[ _-]?([A-Z])\d", r"\bDIMM_?([A-Z])\b")
#: Everything that a channel belongs to: each memory controller counts its own from the start.
_OWNERS = r"(?:CPU|(?<![A-Z])P|PROC|NODE|SOCKET|CONTROLLER|IMC)[ _]?(\d+)"
#: More modules than a channel takes: the letter names something else, such as the socket.
_MOST_ON_A_CHANNEL = 2


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


@dataclass(frozen=True, slots=True)
class Module:
    """A populated memory module.

    Attributes
    ----------
    width_bits
        Data width without error correction.
    megatransfers
        Configured speed in MT/s.
    """

    locator: str
    width_bits: int
    megatransfers: int

    @property
    def peak_gbs(self) -> float:
        """Bytes a second of the module's channel, GB/s."""
        return self.width_bits / 8 * self.megatransfers / 1e3


def memory_modules(table: bytes) -> tuple[Module, ...]:
    """Return the populated modules whose speed the firmware tells."""
    modules = (
        _module(data, texts) for kind, data, texts in _structures(table) if kind == _MEMORY_DEVICE
    )
    return tuple(m for m in modules if m is not None)


def memory_devices(table: bytes) -> bytes:
    """Return a table of the memory devices alone, their locators as the only texts."""
    parts = []
    for kind, data, texts in _structures(table):
        if kind != _MEMORY_DEVICE or len(data) <= _BANK_LOCATOR:
            continue
        locators = (data[_LOCATOR], data[_BANK_LOCATOR])
        shown = [text if i in locators else "-" for i, text in enumerate(texts, start=1)]
        parts.append(data + b"\0".join(text.encode() or b"-" for text in shown) + b"\0\0")
    return b"".join(parts)


def peak_gbs(modules: tuple[Module, ...]) -> tuple[float, str] | None:
    """Return the peak of all channels together in GB/s, with how it was counted.

    Two modules of one channel share it. None without modules.
    """
    if not modules:
        return None
    names = [_channel(m.locator) for m in modules]
    crowded = any(names.count(name) > _MOST_ON_A_CHANNEL for name in names if name is not None)
    named = None not in names and not crowded
    channels: dict[str, float] = {}
    for number, (name, module) in enumerate(zip(names, modules, strict=True)):
        # taken as channels of their own, modules give a limit that is too high, never too low
        key = f"module {number}" if name is None or crowded else name
        channels[key] = max(channels.get(key, 0.0), module.peak_gbs)
    counted = "channels by the modules' names" if named else "one channel a module, at most"
    speed = max(m.megatransfers for m in modules)
    return sum(channels.values()), f"{len(channels)} × {speed} MT/s, {counted}"


def _channel(locator: str) -> str | None:
    text = locator.upper()
    for pattern in _CHANNEL:
        if found := re.search(pattern, text):
            return "/".join([*re.findall(_OWNERS, text), found[1]])
    return None


def _structures(table: bytes) -> Iterator[tuple[int, bytes, list[str]]]:
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        end = table.find(b"\0\0", at + length)
        if length < 4 or end < 0 or kind == _END:
            return
        texts = [t.decode(errors="replace").strip() for t in table[at + length : end].split(b"\0")]
        yield kind, table[at : at + length], texts
        at = end + 2


def _module(data: bytes, texts: list[str]) -> Module | None:
    def word(offset: int, size: int = 2) -> int:
        return int.from_bytes(data[offset : offset + size], "little")

    def text(offset: int) -> str:
        number = data[offset] if offset < len(data) else 0
        return texts[number - 1] if 0 < number <= len(texts) else ""

    populated = word(0x0C) not in (0, 0xFFFF) or word(0x1C, 4) > 0
    speed = word(0x20) or word(0x15)  # configured, else the module's own
    if speed == _SIZE_EXTENDED:
        speed = word(0x58, 4) or word(0x54, 4)
    width = word(0x0A)
    if not populated or speed == 0 or width in (0, 0xFFFF):
        return None
    return Module(f"{text(_BANK_LOCATOR)} {text(_LOCATOR)}".strip(), width, speed)
