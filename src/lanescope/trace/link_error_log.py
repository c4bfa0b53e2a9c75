"""Error counters of links at the start and at the end of a watch, in its folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from lanescope.codec.fields import build
from lanescope.codec.files import (
    fields_of,
    read_json,
    require_version,
    write_atomically,
    writing_to,
)
from lanescope.machine import Machine
from lanescope.machine.nvml import Nvml
from lanescope.trace.limits import nvlinked


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
#: Counts of which none rises on a link that is well.
FAULTS = tuple(_WORDS)
_AFTER = {"pcie_replays": " (replays)", "nvlink_replays": " (replays)"}


def risen(start: LinkErrors, end: LinkErrors) -> LinkErrors:
    """Return by how much counts rose; None where one is not told, or was set back between."""
    rises = {}
    for name in COUNTS:
        before, after = getattr(start, name), getattr(end, name)
        readable = before is not None and after is not None and after >= before
        rises[name] = after - before if readable else None
    return LinkErrors(start.gpu, **rises)


def error_notes(errors: Sequence[LinkErrors]) -> tuple[str, ...]:
    """Return a sentence for each GPU whose links had errors; none where all went well."""
    notes = []
    for one in errors:
        risen_notes = [
            f"{count} {words[count > 1]}{_AFTER.get(name, '')}"
            for name, words in _WORDS.items()
            if (count := getattr(one, name))
        ]
        if risen_notes:
            notes.append(f"g{one.gpu}: {', '.join(risen_notes)} while watching.")
    return tuple(notes)


#: Where they are. Without an end the watch was killed, and nothing is known of it.
LINK_ERRORS = "link-errors.json"
VERSION = 1
#: NVML's fields (NVML_FI_DEV_PCIE_*), as its header numbers them.
_PCIE_FIELDS = {
    "pcie_replay_rollovers": 95,
    "pcie_recoveries": 169,
    "pcie_correctable": 173,
    "pcie_naks_received": 174,
    "pcie_naks_sent": 177,
    "pcie_non_fatal": 179,
    "pcie_fatal": 180,
    "pcie_unsupported_requests": 181,
}
#: Of one link each (NVML_FI_DEV_NVLINK_ERROR_DL_*, and of Blackwell, which has recoveries alone,
#: NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS); the first that is answered counts.
_NVLINK_FIELDS = {
    "nvlink_crc_errors": (163,),
    "nvlink_replays": (161,),
    "nvlink_recoveries": (162, 215),
}
_MOST_NVLINKS = 18

Reading = Callable[[Machine], tuple[LinkErrors, ...]]


def read_now(machine: Machine) -> tuple[LinkErrors, ...]:
    """Return the error counters of all GPUs as they are now, since their driver was loaded."""
    gpus = [gpu for gpu in machine.gpus if gpu.unavailable is None]
    nvml = Nvml.open() if gpus else None
    linked = nvlinked(machine)
    found = []
    for gpu in gpus:
        counts: dict[str, int | None] = {}
        if nvml is not None and gpu.uuid is not None:
            counts = _pcie(nvml, gpu.uuid)
            counts |= _nvlink(nvml, gpu.uuid) if gpu.index in linked else {}
        found.append(LinkErrors(gpu.index, **counts))
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True)
class _Readings:
    """What the file holds."""

    version: int
    start: tuple[LinkErrors, ...]
    end: tuple[LinkErrors, ...] = ()


class LinkErrorLog:
    """Reads error counters when it is made, and once more at the end.

    Parameters
    ----------
    folder
        Of the run.
    read
        Reads them; for tests.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(self, folder: Path, machine: Machine, read: Reading = read_now) -> None:
        self._folder, self._machine, self._read = folder, machine, read
        self._start = read(machine)
        self._write({"start": self._start})

    def end(self) -> None:
        """Read them again, and store that."""
        self._write({"start": self._start, "end": self._read(self._machine)})

    def _write(self, readings: dict[str, tuple[LinkErrors, ...]]) -> None:
        rows = {key: [dataclasses.asdict(one) for one in found] for key, found in readings.items()}
        content = json.dumps({"version": VERSION, **rows}, indent=1)
        with writing_to(self._folder):
            write_atomically(self._folder / LINK_ERRORS, content.encode())


def read_link_errors(folder: Path) -> tuple[LinkErrors, ...]:
    """Return by how much error counters rose during a watch, by GPU.

    Empty for runs that have none stored; without counts where the watch was killed.

    Raises
    ------
    InputError
        If the file cannot be read or is damaged.
    """
    path = folder / LINK_ERRORS
    if not path.exists():
        return ()
    with fields_of(path, "name another run"):
        readings = build(_Readings, read_json(path, inner=1))
        require_version(readings.version, VERSION, path)
    start, ends = readings.start, {one.gpu: one for one in readings.end}
    return tuple(risen(one, ends.get(one.gpu, LinkErrors(one.gpu))) for one in start)


def _pcie(nvml: Nvml, uuid: str) -> dict[str, int | None]:
    values = nvml.counts(uuid, [(field, 0) for field in _PCIE_FIELDS.values()])
    return {
        "pcie_replays": nvml.replay_counter(uuid),
        **dict(zip(_PCIE_FIELDS, values, strict=True)),
    }


def _nvlink(nvml: Nvml, uuid: str) -> dict[str, int | None]:
    field_ids = [
        (field, link)
        for fields in _NVLINK_FIELDS.values()
        for field in fields
        for link in range(_MOST_NVLINKS)
    ]
    found = dict(zip(field_ids, nvml.counts(uuid, field_ids), strict=True))
    counts: dict[str, int | None] = {}
    for name, numbers in _NVLINK_FIELDS.items():
        sums = [_sum([found[field, link] for link in range(_MOST_NVLINKS)]) for field in numbers]
        counts[name] = next((count for count in sums if count is not None), None)
    return counts


def _sum(values: list[int | None]) -> int | None:
    """The sum of what is told; None where nothing is: a GPU may have fewer links."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
