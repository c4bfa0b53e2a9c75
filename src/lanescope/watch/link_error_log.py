"""Error counters of links at the start and at the end of a watch, in its folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from lanescope.codec.atomic import write_atomically, writing_to
from lanescope.codec.fields import build
from lanescope.codec.files import fields_of, read_json, require_version
from lanescope.machine import Machine
from lanescope.machine.nvml import Nvml
from lanescope.watch.link_errors import LinkErrors, risen
from lanescope.watch.nvlink import nvlinked

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

    def _write(self, told: dict[str, tuple[LinkErrors, ...]]) -> None:
        rows = {key: [dataclasses.asdict(one) for one in found] for key, found in told.items()}
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
        told = build(_Readings, read_json(path, inner=1))
        require_version(told.version, VERSION, path)
    start, ends = told.start, {one.gpu: one for one in told.end}
    return tuple(risen(one, ends.get(one.gpu, LinkErrors(one.gpu))) for one in start)


def _pcie(nvml: Nvml, uuid: str) -> dict[str, int | None]:
    values = nvml.counts(uuid, [(field, 0) for field in _PCIE_FIELDS.values()])
    return {
        "pcie_replays": nvml.replay_counter(uuid),
        **dict(zip(_PCIE_FIELDS, values, strict=True)),
    }


def _nvlink(nvml: Nvml, uuid: str) -> dict[str, int | None]:
    asked = [
        (field, link)
        for fields in _NVLINK_FIELDS.values()
        for field in fields
        for link in range(_MOST_NVLINKS)
    ]
    found = dict(zip(asked, nvml.counts(uuid, asked), strict=True))
    counts: dict[str, int | None] = {}
    for name, fields in _NVLINK_FIELDS.items():
        sums = [_sum([found[field, link] for link in range(_MOST_NVLINKS)]) for field in fields]
        counts[name] = next((count for count in sums if count is not None), None)
    return counts


def _sum(values: list[int | None]) -> int | None:
    """The sum of what is told; None where nothing is: a GPU may have fewer links."""
    told = [value for value in values if value is not None]
    return sum(told) if told else None
