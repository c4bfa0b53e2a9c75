"""Copies, memsets and kernels of watched processes, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from lanescope.trace.codes import (
    ANY,
    BYTES,
    NUMBERS,
    PIDS,
    TIMES,
    TRUTH,
    UNKNOWN_THREAD,
    BoolArray,
    CodeArray,
    DirectionCode,
    FloatArray,
    IntArray,
    MemoryKind,
    OperationCode,
    Range,
    among,
    on_host,
)
from lanescope.trace.stored_columns import Rows, SortedRows, StoredColumn, pieces_of

#: Rows of a piece: 17 MB.
_PIECE = 1 << 17
#: What `Operations.direction` follows from.
KINDS = ("what", "source_kind", "destination_kind", "source_device", "destination_device")
_DEFAULTS = {"source_device": -1, "destination_device": -1, "thread": UNKNOWN_THREAD}


@dataclass(frozen=True, eq=False)
class Operations(Rows):
    """Operations of all processes, one row each; columns of equal length.

    Of long watches columns are `lanescope.trace.stored_columns.StoredColumn`, and so are those of
    what `where` chooses: work on them by `pieces`. Not slotted, as derived columns are computed
    once and kept.

    Attributes
    ----------
    pid
        Process that submitted the operation.
    what
        `OperationCode`.
    start_ns, end_ns
        When the GPU worked on it, nanoseconds since 1970.
    bytes
        Moved or set; 0 for kernels.
    source_kind, destination_kind
        `MemoryKind`; UNKNOWN for what is no copy.
    asynchronous
        Whether the call is flagged as asynchronous.
    source_device, destination_device
        Number of the GPU whose memory it is, -1 for the host.
    device, context, stream
        Where it ran; `device` is the machine's number of the GPU.
    thread
        Operating system's number of the calling thread; -1 unknown.
    correlation
        Number that operation and call share within a process.
    name
        Index into `names`.
    call_start_ns, call_end_ns
        When the host was in the call; 0 unknown.
    names
        Names of kernels and calls; the first is empty and stands for none.
    """

    types: ClassVar[Mapping[str, type[np.generic]]] = {
        "asynchronous": np.bool_,
        **dict.fromkeys(("what", "source_kind", "destination_kind"), np.int8),
    }
    coded: ClassVar[tuple[str, str]] = ("name", "names")

    pid: IntArray
    what: CodeArray
    start_ns: IntArray
    end_ns: IntArray
    bytes: IntArray
    source_kind: CodeArray
    destination_kind: CodeArray
    asynchronous: BoolArray
    source_device: IntArray
    destination_device: IntArray
    device: IntArray
    context: IntArray
    stream: IntArray
    thread: IntArray
    correlation: IntArray
    name: IntArray
    call_start_ns: IntArray
    call_end_ns: IntArray
    names: tuple[str, ...] = ("",)

    @classmethod
    def of(cls, names: Sequence[str] = ("",), **columns: Any) -> Self:
        """Return operations from columns or anything like them; what is left out is unknown.

        Raises
        ------
        ValueError
            If columns differ in length.
        TypeError
            If a column does not exist.
        """
        sizes = {len(np.atleast_1d(column)) for column in columns.values()}
        if len(sizes) > 1:
            raise ValueError(f"columns of operations differ in length: {sorted(sizes)}")
        n = sizes.pop() if sizes else 0
        given = {key: np.atleast_1d(np.asarray(column)) for key, column in columns.items()}
        for key in COLUMNS:
            column = given.get(key, np.full(n, _DEFAULTS.get(key, 0), np.int64))
            given[key] = column.astype(cls.type_of(key), copy=False)
        return cls(**given, names=tuple(names))

    def __len__(self) -> int:
        return int(self.start_ns.size)

    def pieces(self, most: int = _PIECE) -> Iterator[Operations]:
        """Yield consecutive rows with all columns in memory, so many at once."""
        if 0 < len(self) <= most and isinstance(self.start_ns, np.ndarray):
            yield self  # which keeps the directions that were found
            return
        for part in pieces_of(len(self), most):
            yield _Piece(self, part)

    def _values(self, column: str) -> list[frozenset[int]]:
        """Return which values of a column each piece holds."""
        if column not in self._held:
            found = [frozenset(_distinct(getattr(piece, column))) for piece in self.pieces()]
            self._held[column] = found
        return self._held[column]

    @cached_property
    def _held(self) -> dict[str, list[frozenset[int]]]:
        return {}

    def values(
        self, column: str, chosen: Callable[[Operations], BoolArray] | None = None
    ) -> set[int]:
        """Return which values a column holds, in all rows or in those that a mask chooses."""
        if chosen is None:
            return {value for values in self._values(column) for value in values}
        pieces = ((getattr(piece, column), chosen(piece)) for piece in self.pieces())
        return {value for values, mask in pieces for value in _distinct(values[mask])}

    def where(
        self,
        chosen: Callable[[Operations], BoolArray],
        *columns: str,
        by: str = "start_ns",
        **only: int,
    ) -> Operations:
        """Return the rows that a mask chooses, with their times and some other columns.

        They are in the order of their starts. What is not named is left empty. Where there are
        many, columns are stored ones.

        Parameters
        ----------
        chosen
            Returns the mask of a piece that it is given.
        by
            Another of the columns to be ordered by.
        only
            Values of columns, such as ``device=0``: pieces without them are not read.

        Raises
        ------
        InputError
            If there are many, and the disk has no room for them.
        """
        names = dict.fromkeys(("start_ns", "end_ns", *columns))
        folder = self.start_ns.folder if isinstance(self.start_ns, StoredColumn) else None
        found = SortedRows({name: self.type_of(name) for name in names}, by, folder)
        for number, piece in enumerate(self.pieces()):
            if any(value not in self._values(name)[number] for name, value in only.items()):
                continue
            mask = chosen(piece)
            for name, value in only.items():
                mask = mask & (getattr(piece, name) == value)
            if mask.any():
                found.add({name: getattr(piece, name)[mask] for name in names})
        empty: dict[str, Any] = {name: np.empty(0, self.type_of(name)) for name in COLUMNS}
        return Operations(**empty | found.columns(), names=self.names)

    def total(self, column: str) -> int:
        """Return the sum of a column of whole numbers."""
        return sum(int(getattr(piece, column).sum()) for piece in self.pieces())

    def rows(self, chosen: BoolArray | IntArray | slice) -> Operations:
        """Return some rows, by a mask, by their numbers, or consecutive ones as views."""
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            column = getattr(self, name)
            columns[name] = column if column.size == 0 else column[chosen]
        return Operations(**columns, names=self.names)

    @property
    def seconds(self) -> FloatArray:
        """How long the GPU worked on each, in seconds."""
        return (self.end_ns - self.start_ns).astype(np.float64) * 1e-9

    @property
    def is_copy(self) -> BoolArray:
        """Where it is a copy that a program asked for."""
        return np.equal(self.what, OperationCode.COPY)

    @property
    def is_kernel(self) -> BoolArray:
        """Where it is a kernel."""
        return np.equal(self.what, OperationCode.KERNEL)

    @property
    def moves(self) -> BoolArray:
        """Where bytes went from one place to another: copies, and migrations of managed memory."""
        return among(self.what, (OperationCode.COPY, OperationCode.MIGRATION))

    @cached_property
    def direction(self) -> CodeArray:
        """`DirectionCode` of each row, by the kinds of memory and by the devices."""
        source = on_host(self.source_kind, self.source_device)
        destination = on_host(self.destination_kind, self.destination_device)
        same = self.source_device == self.destination_device
        inside = np.where(same, np.int8(DirectionCode.D2D), np.int8(DirectionCode.P2P))
        chosen = np.select(
            [~self.moves, source & destination, source, destination],
            [DirectionCode.NONE, DirectionCode.H2H, DirectionCode.H2D, DirectionCode.D2H],
            inside,
        )
        return chosen.astype(np.int8)

    @cached_property
    def host_memory(self) -> CodeArray:
        """`MemoryKind` of the host's end; UNKNOWN where no end is in the host.

        From host to host it is the slower kind: pageable where either end is.
        """
        h2h, code = DirectionCode.H2H, self.direction
        both = np.minimum(self.source_kind, self.destination_kind)
        chosen = np.select(
            [code == DirectionCode.H2D, code == DirectionCode.D2H, code == h2h],
            [self.source_kind, self.destination_kind, both],
            MemoryKind.UNKNOWN,
        )
        return chosen.astype(np.int8)


def impossible(operations: Operations) -> str | None:
    """Return what cannot be of operations in memory, times apart, as words; None if all is well."""
    names = {"name": (0, len(operations.names) - 1)}
    for column, (low, high) in (RANGES | names).items():
        values = getattr(operations, column)
        if values.size and not (low <= values.min() and values.max() <= high):
            return f"the column {column!r} of operations holds what is not from {low} to {high}"
    return None


def possible_rows(operations: Operations) -> BoolArray:
    """Return which operations in memory can be, times apart; see `impossible`."""
    possible = np.ones(len(operations), np.bool_)
    names = {"name": (0, len(operations.names) - 1)}
    for column, (low, high) in (RANGES | names).items():
        values = getattr(operations, column)
        if values.size:
            possible &= (low <= values) & (values <= high)
    return possible


def _distinct(values: IntArray) -> list[int]:
    """Return which values there are; sorting or hashing all takes longer than a look at them."""
    if not values.size or values.max() == (first := values.min()):
        found = values[:1]
    elif int(values.max()) - int(first) < values.size:
        found = np.flatnonzero(np.bincount(values - first)) + first
    else:
        found = np.unique(values)
    distinct: list[int] = found.tolist()
    return distinct


#: Every column, in the order of the fields.
COLUMNS = Operations.columns()
#: Between which numbers the values of each column lie, both included.
RANGES: dict[str, Range] = {
    **dict.fromkeys(COLUMNS, TIMES),
    # those that cannot be are left out, see `lanescope.trace.time_checks`
    **dict.fromkeys((name for name in COLUMNS if name.endswith("_ns")), ANY),
    **dict.fromkeys(("source_device", "destination_device", "device", "thread"), NUMBERS),
    **dict.fromkeys(("source_kind", "destination_kind"), (0, max(MemoryKind))),
    "what": (0, max(OperationCode)),
    "bytes": BYTES,
    "pid": PIDS,
    "asynchronous": TRUTH,
}


class _Piece(Operations):
    """Consecutive rows of operations; their columns come into memory when they are asked for."""

    def __init__(self, whole: Operations, part: slice) -> None:
        self.__dict__.update(names=whole.names, _whole=whole, _part=part)

    def __getattr__(self, name: str) -> Any:
        if name not in COLUMNS:
            raise AttributeError(name)
        whole = getattr(self.__dict__["_whole"], name)
        column = whole if whole.size == 0 else whole[self.__dict__["_part"]]
        self.__dict__[name] = column
        return column
