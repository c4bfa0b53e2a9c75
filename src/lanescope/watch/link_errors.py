"""Errors that links counted while they were watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """By how much the error counters of one GPU's links rose; None where that is not told.

    Attributes
    ----------
    pcie_replays
        Packets that were sent again.
    pcie_replay_rollovers
        Packets that were sent again in vain so often that the link was trained anew.
    pcie_correctable, pcie_non_fatal, pcie_fatal
        Errors by their severity, as PCI Express calls them.
    pcie_unsupported_requests
        Requests that the GPU did not know.
    pcie_naks_received, pcie_naks_sent
        Packets that the other end, and the GPU, did not take.
    pcie_recoveries
        Passes through recovery: after errors, and whenever the link changes its speed.
    nvlink_crc_errors, nvlink_replays, nvlink_recoveries
        Over all NVLinks of the GPU.
    """

    gpu: int
    pcie_replays: int | None = None
    pcie_replay_rollovers: int | None = None
    pcie_correctable: int | None = None
    pcie_non_fatal: int | None = None
    pcie_fatal: int | None = None
    pcie_unsupported_requests: int | None = None
    pcie_naks_received: int | None = None
    pcie_naks_sent: int | None = None
    pcie_recoveries: int | None = None
    nvlink_crc_errors: int | None = None
    nvlink_replays: int | None = None
    nvlink_recoveries: int | None = None


#: All counts.
COUNTS = tuple(field.name for field in fields(LinkErrors) if field.name != "gpu")
#: One and several of each. A PCIe link passes through recovery whenever it changes its speed:
#: that alone is no error.
_WORDS = {
    "pcie_replays": ("packet was sent again over PCIe", "packets were sent again over PCIe"),
    "pcie_replay_rollovers": ("replay rollover on PCIe", "replay rollovers on PCIe"),
    "pcie_correctable": ("PCIe error was corrected", "PCIe errors were corrected"),
    "pcie_non_fatal": ("non-fatal PCIe error", "non-fatal PCIe errors"),
    "pcie_fatal": ("fatal PCIe error", "fatal PCIe errors"),
    "pcie_unsupported_requests": ("unsupported PCIe request", "unsupported PCIe requests"),
    "pcie_naks_received": ("NAK received over PCIe", "NAKs received over PCIe"),
    "pcie_naks_sent": ("NAK sent over PCIe", "NAKs sent over PCIe"),
    "nvlink_crc_errors": ("CRC error on NVLink", "CRC errors on NVLink"),
    "nvlink_replays": ("packet was sent again over NVLink", "packets were sent again over NVLink"),
    "nvlink_recoveries": ("recovery of an NVLink", "recoveries of NVLinks"),
}
_AFTER = {"pcie_replays": " (replays)", "nvlink_replays": " (replays)"}


def risen(start: LinkErrors, end: LinkErrors) -> LinkErrors:
    """Return by how much counts rose; None where one is not told, or was set back between."""
    rises = {}
    for name in COUNTS:
        before, after = getattr(start, name), getattr(end, name)
        told = before is not None and after is not None and after >= before
        rises[name] = after - before if told else None
    return LinkErrors(start.gpu, **rises)


def error_notes(errors: Sequence[LinkErrors]) -> tuple[str, ...]:
    """Return a sentence for each GPU whose links had errors; none where all went well."""
    notes = []
    for one in errors:
        told = [
            f"{count} {words[count > 1]}{_AFTER.get(name, '')}"
            for name, words in _WORDS.items()
            if (count := getattr(one, name))
        ]
        if told:
            notes.append(f"g{one.gpu}: {', '.join(told)} while watching.")
    return tuple(notes)
