"""Where copies of an nsys export come from and go to, by its names of kinds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lanescope.watch.codes import HOST_DEVICE, IntArray, MemoryKind, What
from lanescope.watch.nsys_tables import Tables

#: Kinds of copies by number, as documented; exports tell them in a table of their own.
_COPY_KINDS = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
_MEMORY_KINDS = (
    *("PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC"),
    "UNKNOWN",
)
_COPY_PREFIX, _MEMORY_PREFIX = "CUDA_MEMCPY_KIND_", "CUDA_MEMOPR_MEMORY_KIND_"
_MIGRATION = "UVM_"
#: What an end of a copy is where the kind of memory is not told.
_PLAIN = {"D": MemoryKind.DEVICE, "P": MemoryKind.DEVICE, "A": MemoryKind.ARRAY}
#: Columns of the table that operations have not.
_OWN = ("copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
_HOST_KINDS = (MemoryKind.PAGEABLE, MemoryKind.PINNED)


def copy_columns(tables: Tables, found: dict[str, IntArray]) -> dict[str, IntArray]:
    """Return a table of copies with kinds and devices as operations have them.

    Parameters
    ----------
    found
        Its columns; -1 in `srcKind` and `dstKind`, -2 in the ends' devices is unknown.
    """
    ways = _names(tables, "ENUM_CUDA_MEMCPY_OPER", _COPY_PREFIX, _COPY_KINDS)
    kinds = _names(tables, "ENUM_CUDA_MEM_KIND", _MEMORY_PREFIX, _MEMORY_KINDS)
    codes, which = np.unique(found["copyKind"], return_inverse=True)
    names = [ways.get(code, "UNKNOWN") for code in codes.tolist()]
    migrated = np.array([name.startswith(_MIGRATION) for name in names], bool)[which]
    told = {key: column for key, column in found.items() if key not in _OWN}
    told["what"] = np.where(migrated, int(What.MIGRATION), int(What.COPY))
    told["text"] = np.zeros(which.size, np.int64)
    for end, kind, device, place in (
        ("source", "srcKind", "srcDeviceId", 0),
        ("destination", "dstKind", "dstDeviceId", -1),
    ):
        letters = np.array([_letter(name, place) for name in names], "U1")[which]
        memory = _memory(found[kind], letters, kinds)
        told[f"{end}_kind"] = memory
        host = (letters == "H") | ((letters == "?") & np.isin(memory, _HOST_KINDS))
        there = np.where(found[device] >= 0, found[device], found["deviceId"])
        told[f"{end}_device"] = np.where(host, HOST_DEVICE, there)
    return told


def _letter(way: str, place: int) -> str:
    """Return H, D, A or P for the source (place 0) or destination (-1) of a kind of copy."""
    ends = way.removeprefix(_MIGRATION).split("TO")
    return ends[place][:1] if len(ends) == 2 else "?"


def _memory(codes: IntArray, letters: npt.NDArray[np.str_], kinds: Mapping[int, str]) -> IntArray:
    """Return kinds of memory by their names, else what the kind of copy says of that end."""
    found, which = np.unique(codes, return_inverse=True)
    named = [MemoryKind.__members__.get(kinds.get(code, ""), 0) for code in found.tolist()]
    memory: IntArray = np.array(named, np.int64)[which]
    for letter, kind in _PLAIN.items():
        memory[(memory == MemoryKind.UNKNOWN) & (letters == letter)] = kind
    return memory


def _names(tables: Tables, table: str, prefix: str, documented: tuple[str, ...]) -> dict[int, str]:
    """Return the names of an export's own table of kinds, else the documented ones."""
    own = {
        int(one["id"]): str(one["name"]).removeprefix(prefix)
        for one in tables.records(table, "id", "name")
        if one.get("name") and one.get("id") is not None
    }
    return {**dict(enumerate(documented)), **own}
