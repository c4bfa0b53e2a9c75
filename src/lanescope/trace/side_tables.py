"""What a trace tells beside its operations: managed memory, and what copies were passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Self

import numpy as np

from lanescope.trace.codes import IntArray
from lanescope.trace.operations import KINDS, Operations
from lanescope.trace.stored_columns import in_memory


class ManagedKind(IntEnum):
    """What the driver did for managed memory, by CUPTI's numbers."""

    TO_GPU = 1
    FROM_GPU = 2
    CPU_FAULT = 3
    GPU_FAULT = 4
    BETWEEN_GPUS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Columns of whole numbers of equal length, a row for each record."""

    @classmethod
    def of(cls, **columns: Any) -> Self:
        """Return rows from columns or anything like them."""
        return cls(**{key: np.asarray(columns[key]).astype(np.int64) for key in cls.columns()})

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls.of(**dict.fromkeys(cls.columns(), ()))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of several one after the other."""
        none = np.empty(0, np.int64)
        return cls.of(
            **{k: np.concatenate([none, *(getattr(p, k) for p in parts)]) for k in cls.columns()}
        )

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the columns, in the order of the fields."""
        return tuple(field.name for field in fields(cls))

    def rows(self, chosen: Any) -> Self:
        """Return some rows, by a mask or by their numbers."""
        return type(self)(**{key: getattr(self, key)[chosen] for key in self.columns()})

    def __len__(self) -> int:
        return int(getattr(self, self.columns()[0]).size)


@dataclass(frozen=True, slots=True, eq=False)
class Managed(_Table):
    """Migrations and faults of managed memory.

    Attributes
    ----------
    kind
        `ManagedKind`.
    start_ns, end_ns
        Nanoseconds since 1970; the end of a fault of a CPU is 0.
    value
        Bytes of a migration; faults of a page.
    address
        Of the first page.
    device
        The machine's number of the GPU; -1 for a fault of a CPU.
    """

    pid: IntArray
    kind: IntArray
    start_ns: IntArray
    end_ns: IntArray
    value: IntArray
    address: IntArray
    device: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class HostCopies(_Table):
    """What calls that copy were passed.

    Attributes
    ----------
    correlation
        Number that the call and its operation share within a process.
    source, destination
        Addresses; those from 2^63 on come out negative.
    node
        NUMA node of the host's first page; -1 where the kernel did not tell.
    hash
        Of the bytes that were copied, where `hashed` is 1.
    """

    pid: IntArray
    correlation: IntArray
    source: IntArray
    destination: IntArray
    bytes: IntArray
    node: IntArray
    hash: IntArray
    hashed: IntArray


def with_addresses(operations: Operations, called: HostCopies) -> tuple[Operations, HostCopies]:
    """Return the copies whose addresses are known, in the order of time, and those.

    One call is one copy: where several operations share a number, those of a graph say, they
    are left out.
    """
    if not len(called):
        return Operations.empty(), called
    columns = ("pid", "correlation", "bytes", "device", *KINDS)
    # in memory, as all that the calls were passed is
    operations = in_memory(operations.where(lambda o: o.is_copy & (o.correlation > 0), *columns))
    places = np.arange(len(operations))
    key = _key(operations.pid, operations.correlation)
    alone, first, count = np.unique(key, return_index=True, return_counts=True)
    alone, places = alone[count == 1], places[first[count == 1]]
    wanted = _key(called.pid, called.correlation)
    at = np.searchsorted(alone, wanted)
    known = at < alone.size
    known[known] = alone[at[known]] == wanted[known]
    with_address = np.flatnonzero(known)
    # a call that was told of twice, as the driver's and as the runtime's: the latter says more
    _, last = np.unique(wanted[with_address][::-1], return_index=True)
    with_address = with_address[::-1][last]
    rows = places[at[with_address]]
    order = np.argsort(operations.start_ns[rows], kind="stable")
    return operations.rows(rows[order]), called.rows(with_address[order])


def _key(pid: IntArray, correlation: IntArray) -> IntArray:
    return (pid << 32) + correlation
