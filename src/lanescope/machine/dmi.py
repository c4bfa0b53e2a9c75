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
_LOCATOR, _BANK_LOCATOR = 0x10, 0x11  # numbers of texts
#: Where firmware names the channel: "P0_Node0_Channel3_Dimm0", "CPU1_DIMM_B2", "DIMM_A1".
_CHANNEL = (r"CHANNEL[ _]?([A-Z0-9]+)", r"DIMM[ _-]?([A-Z])\d", r"\bDIMM_?([A-Z])\b")
#: Everything that a channel belongs to: each memory controller counts its own from the start.
_OWNERS = r"(?:CPU|(?<![A-Z])P|PROC|NODE|SOCKET|CONTROLLER|IMC)[ _]?(\d+)"
#: More modules than a channel takes: the letter names something else, such as the socket.
_MOST_ON_A_CHANNEL = 2


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
    if speed == _EXTENDED:
        speed = word(0x58, 4) or word(0x54, 4)
    width = word(0x0A)
    if not populated or speed == 0 or width in (0, 0xFFFF):
        return None
    return Module(f"{text(_BANK_LOCATOR)} {text(_LOCATOR)}".strip(), width, speed)
