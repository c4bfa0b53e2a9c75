"""Memory modules from the firmware's DMI (SMBIOS) table.

Offsets are those of the SMBIOS Reference Specification 3.7, section 7.18
(Memory Device, type 17).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MEMORY_DEVICE = 17
_END = 127
_EXTENDED = 0xFFFF
#: Where firmware names the channel: "P0_Node0_Channel3_Dimm0", "CPU1_DIMM_B2", "DIMM_A1".
_CHANNEL = (r"CHANNEL\s*([A-Z0-9]+)", r"DIMM[ _-]?([A-Z])\d", r"\bDIMM_?([A-Z])\b")
_SOCKET = r"(?:CPU|P|PROC|NODE|SOCKET)\s*(\d+)"


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


def peak_gbs(modules: tuple[Module, ...]) -> tuple[float, str] | None:
    """Return the peak of all channels together in GB/s, with how it was counted.

    Two modules of one channel share it. None without modules.
    """
    if not modules:
        return None
    channels: dict[str, float] = {}
    named = True
    for number, module in enumerate(modules):
        channel = _channel(module.locator)
        named = named and channel is not None
        key = channel if channel is not None else f"module {number}"
        channels[key] = max(channels.get(key, 0.0), module.peak_gbs)
    counted = "channels by the modules' names" if named else "one channel a module, at most"
    speed = max(m.megatransfers for m in modules)
    return sum(channels.values()), f"{len(channels)} × {speed} MT/s, {counted}"


def _channel(locator: str) -> str | None:
    text = locator.upper()
    for pattern in _CHANNEL:
        if found := re.search(pattern, text):
            socket = re.search(_SOCKET, text)
            return f"{socket[1] if socket else ''}/{found[1]}"
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
    if speed == _EXTENDED:
        speed = word(0x58, 4) or word(0x54, 4)
    width = word(0x0A)
    if not populated or speed == 0 or width in (0, 0xFFFF):
        return None
    return Module(f"{text(0x11)} {text(0x10)}".strip(), width, speed)
