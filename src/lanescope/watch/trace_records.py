"""Finds the records in the spool of a traced process.

The layouts are those of native/src/inject/spool_format.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.void]


class Kind(IntEnum):
    """Kinds of records."""

    OPERATION = 1
    STRING = 2
    CALL = 3
    LOSS = 4
    END = 5
    NOTE = 6


#: A flag of operations.
TIMES_UNKNOWN = 1

HEAD = np.dtype([("kind", "<u2"), ("flags", "<u2"), ("size", "<u4")])
OPERATIONS = np.dtype(
    [
        ("head", HEAD),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("bytes", "<i8"),
        ("what", "<u4"),
        ("copy_kind", "u1"),
        ("source_kind", "u1"),
        ("destination_kind", "u1"),
        ("asynchronous", "u1"),
        ("source_device", "<i4"),  # 0xFFFFFFFF, the host, becomes -1
        ("destination_device", "<i4"),
        ("device", "<i4"),
        ("context", "<u4"),
        ("stream", "<u4"),
        ("correlation", "<u4"),
        ("name", "<u4"),
        ("count", "<u4"),
        ("reserved", "<u4", 2),
    ]
)
CALLS = np.dtype(
    [
        ("head", HEAD),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("correlation", "<u4"),
        ("thread", "<u4"),
        ("name", "<u4"),
        ("result", "<u4"),
    ]
)
COUNTS = np.dtype([("head", HEAD), ("at_ns", "<i8"), ("records", "<u8")])


@dataclass(frozen=True, slots=True)
class Records:
    """The places of a spool's whole records by their kind."""

    content: bytes
    places: Mapping[int, npt.NDArray[np.int64]]

    @classmethod
    def found_in(cls, content: bytes, begin: int) -> Records:
        """Return the places of the records from `begin` to the first that is not whole."""
        places: dict[int, list[npt.NDArray[np.int64]]] = {}
        at, end = begin, len(content)
        while at + HEAD.itemsize <= end:
            kind = int.from_bytes(content[at : at + 2], "little")
            size = int.from_bytes(content[at + 4 : at + 8], "little")
            if size < HEAD.itemsize or size % 8 or at + size > end:
                break  # cut off, or damaged: what follows cannot be told
            many = _run(content, at, size, end)
            places.setdefault(kind, []).append(at + size * np.arange(many))
            at += size * many
        return cls(content, {kind: np.concatenate(runs) for kind, runs in places.items()})

    def table(self, kind: Kind, layout: np.dtype[np.void]) -> Table:
        """Return the records of a kind that has a fixed layout."""
        places = self.places.get(kind, np.empty(0, np.int64))
        places = places[places + layout.itemsize <= len(self.content)]
        raw = np.frombuffer(self.content, np.uint8)
        words = np.lib.stride_tricks.as_strided(
            raw, (max(len(raw) - layout.itemsize + 1, 0), layout.itemsize), (1, 1), writeable=False
        )
        return np.ascontiguousarray(words[places]).view(layout).reshape(-1)

    def texts(self, kind: Kind) -> list[tuple[int, str]]:
        """Return the numbers and the texts of strings or notes."""
        found = []
        for place in self.places.get(kind, np.empty(0, np.int64)).tolist():
            identity = int.from_bytes(self.content[place + 8 : place + 12], "little")
            length = int.from_bytes(self.content[place + 12 : place + 16], "little")
            text = self.content[place + 16 : place + 16 + length]
            found.append((identity, text.decode("utf-8", "replace")))
        return found


def _run(content: bytes, at: int, size: int, end: int) -> int:
    """Return how many records behind each other have the kind and size of the one at `at`."""
    reach, count = 16, 1
    while True:  # in growing steps: most runs are short, some are very long
        most = min(reach, (end - at) // size)
        heads = np.ndarray((most,), HEAD, content, at, (size,))
        other = (heads["kind"] != heads["kind"][0]) | (heads["size"] != size)
        count = int(other.argmax()) if other.any() else most
        if count < most or most < reach:
            return count
        reach *= 16
