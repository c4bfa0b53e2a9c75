"""The numbers that stand for kinds of operations, memories and directions in columns."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int8]
BoolArray = npt.NDArray[np.bool_]


class OperationCode(IntEnum):
    """What an operation was; the numbers are those of the trace spool."""

    COPY = 0
    MEMSET = 1
    KERNEL = 2
    MIGRATION = 3


class MemoryKind(IntEnum):
    """Kind of memory at one end of a copy, by CUPTI's numbers."""

    UNKNOWN = 0
    PAGEABLE = 1
    PINNED = 2
    DEVICE = 3
    ARRAY = 4
    MANAGED = 5
    DEVICE_STATIC = 6
    MANAGED_STATIC = 7

    @property
    def label(self) -> str:
        """The kind as it is shown, such as ``device static``."""
        return self.name.lower().replace("_", " ")


class DirectionCode(IntEnum):
    """Which way bytes went; NONE for operations that move none between two places."""

    NONE = 0
    H2D = 1
    D2H = 2
    D2D = 3
    P2P = 4
    H2H = 5

    @property
    def label(self) -> str:
        """The direction as it is shown, such as ``h2d``."""
        return self.name.lower()


#: Times are nanoseconds since 1970, below those of the year 2116: a 64-bit number holds sums.
LATEST_NS = 2**62
#: Between which numbers values lie, both included: any, times, bytes of one thing, the system's
#: numbers of GPUs and threads with -1 for none and of processes, truth values.
Range = tuple[int, int]
ANY, TIMES, BYTES = (-(2**63), 2**63 - 1), (0, LATEST_NS), (0, 2**48)
NUMBERS, PIDS, TRUTH = (-1, 2**31 - 1), (0, 2**31 - 1), (0, 1)

#: Stands in device columns for the host, in the thread column for unknown.
HOST_DEVICE = -1
UNKNOWN_THREAD = -1

#: Kinds that tell alone on which side memory lies. Managed memory can be on either: there the
#: device columns decide.
_ON_HOST = (MemoryKind.PAGEABLE, MemoryKind.PINNED)
_ON_DEVICE = (MemoryKind.DEVICE, MemoryKind.ARRAY, MemoryKind.DEVICE_STATIC)


def among(column: IntArray | CodeArray, values: Iterable[int]) -> BoolArray:
    """Return where a column holds one of a few values; `numpy.isin` is made for many."""
    found: BoolArray = np.logical_or.reduce([column == value for value in values])
    return found


def on_host(kind: CodeArray, device: IntArray) -> BoolArray:
    """Return where the memory at one end lies in the host, by its kind, else by its device."""
    known = among(kind, _ON_HOST)
    ambiguous = ~known & ~among(kind, _ON_DEVICE)
    host: BoolArray = known | (ambiguous & (device == HOST_DEVICE))
    return host
