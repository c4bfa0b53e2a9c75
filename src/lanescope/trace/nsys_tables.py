"""Tables of an SQLite export of Nsight Systems, and the copies, memsets and kernels in them.

The layout is NVIDIA's "SQLite Schema Reference": a table is there only when it has rows, and
columns were added over the years. What is missing is told, in a sentence, or filled in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lanescope.codec.files import open_file
from lanescope.errors import InputError
from lanescope.trace.codes import (
    BYTES,
    HOST_DEVICE,
    UNKNOWN_THREAD,
    BoolArray,
    IntArray,
    MemoryKind,
    OperationCode,
)
from lanescope.trace.operations import Operations

_MAGIC = b"SQLite format 3\0"
#: Steps of SQLite's machine that a query may take, and so many more for each byte of the file: no
#: row takes as many.
_STEPS, _STEPS_A_BYTE, _STEPS_AT_ONCE = 10_000_000, 20, 100_000
#: Bytes of a text: names of kernels are some thousand.
_LONGEST_VALUE = 16 << 20
#: So many texts are asked for at a time.
_TEXTS = 500
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
_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
COPIES, MEMSETS, KERNELS = f"{_ACTIVITY}MEMCPY", f"{_ACTIVITY}MEMSET", f"{_ACTIVITY}KERNEL"
CALLS = f"{_ACTIVITY}RUNTIME"
GPUS = "TARGET_INFO_GPU"
_NEEDED = ("start", "end")
_COMMON = {"deviceId": 0, "contextId": 0, "streamId": 0, "correlationId": 0, "globalPid": 0}
_KERNEL_NAMES = ("demangledName", "shortName")
#: A global number of a thread: those of its process and of the thread are its lowest bits.
_PART, _MASK = 24, (1 << 24) - 1
Columns = dict[str, IntArray]


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database, of whatever kind; False if it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, InputError):
        return False


def _require_whole(path: Path) -> None:
    """Refuse an export that another program has changed: part of it is in a log next to it."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise InputError(
            f"part of {path} is in {log.name}: close the program that has it open, or write it "
            f"back by sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )


class Tables:
    """An export, opened to read; use with ``with``.

    Raises
    ------
    InputError
        From any method, if the file is damaged or lacks what cannot be done without.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _require_whole(path)
        try:
            uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
            self._database = sqlite3.connect(uri, uri=True)
            self._most_steps = _STEPS + _STEPS_A_BYTE * path.stat().st_size
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path} cannot be read: {error}; name another file") from error
        self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        # versions up to 2022.4 store bytes of another format as a text of the environment
        self._database.text_factory = lambda content: content.decode("utf-8", "replace")
        # the schema may be a stranger's: none of its functions, views and virtual tables is run
        self.rows("PRAGMA trusted_schema = OFF")
        kinds = self.rows("SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_master")
        self.names = frozenset(str(name) for name, stored in kinds if stored)
        self._others = frozenset(str(name) for name, stored in kinds if not stored)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def rows(self, query: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        left = self._most_steps // _STEPS_AT_ONCE

        def too_long() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        self._database.set_progress_handler(too_long, _STEPS_AT_ONCE)
        try:
            return self._database.execute(query, tuple(values)).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:  # names may be any bytes
            raise InputError(
                f"{self.path} is damaged or cut short ({error}); export it again with "
                "'nsys export --type sqlite'"
            ) from error

    def _has(self, table: str) -> bool:
        """Whether a table is there; raises `InputError` for a view, which may be without end."""
        if table in self._others:
            raise InputError(
                f"{self.path}: {table} is no stored table, as in each export of nsys; export it "
                "again with 'nsys export --type sqlite'"
            )
        return table in self.names

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; none for a table that is not there."""
        if not self._has(table):
            return frozenset()
        return frozenset(row[1] for row in self.rows(f"PRAGMA table_info({table})"))

    def whole(
        self,
        table: str,
        needed: Iterable[str],
        more: Mapping[str, int],
        stated: Collection[str] = (),
    ) -> dict[str, IntArray] | None:
        """Return columns of whole numbers, or None for a table that is not there.

        Parameters
        ----------
        needed
            Columns that cannot be done without.
        more
            Other columns, with what stands for a missing column or value.
        stated
            Needed columns of which each row must have a value; in others 0 stands for none.
        """
        if not self._has(table):
            return None
        there = self.columns(table)
        if missing := [name for name in needed if name not in there]:
            raise InputError(
                f"{self.path}: the table {table} has no column {', '.join(missing)}; export the "
                "report again with nsys 2021 or newer"
            )
        wanted = {**dict.fromkeys(needed, 0), **more}
        terms = [
            _term(name, other, stated) if name in there else str(other)
            for name, other in wanted.items()
        ]
        found = self.rows(f"SELECT {', '.join(terms)} FROM {table}")
        numbers = np.array(found) if found else np.empty((0, len(wanted)), np.int64)
        if numbers.dtype != np.int64:  # fractions, texts, or no value
            raise InputError(
                f"{self.path}: the table {table} holds something else than whole numbers; "
                "export it again with 'nsys export --type sqlite'"
            )
        return {name: numbers[:, i] for i, name in enumerate(wanted)}

    def first(self, table: str, *columns: str) -> dict[str, Any]:
        """Return the first row's values of those columns that are there."""
        return next(iter(self.records(table, *columns)), {})

    def records(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Return all rows of a small table, with those columns that are there."""
        there = [name for name in columns if name in self.columns(table)]
        if not there:
            return []
        found = self.rows(f"SELECT {', '.join(there)} FROM {table}")
        return [dict(zip(there, row, strict=True)) for row in found]

    def texts(self, identities: Iterable[int]) -> dict[int, str]:
        """Return the texts with these numbers, as far as they are there."""
        if not {"id", "value"} <= self.columns("StringIds"):
            return {}
        wanted, found = sorted(set(identities)), {}
        for begin in range(0, len(wanted), _TEXTS):
            some = wanted[begin : begin + _TEXTS]
            marks = ", ".join("?" * len(some))
            query = f"SELECT id, value FROM StringIds WHERE id IN ({marks})"
            found.update({int(number): str(text) for number, text in self.rows(query, some)})
        return found


def _term(column: str, other: int, stated: Collection[str]) -> str:
    return f'"{column}"' if column in stated else f'COALESCE("{column}", {other})'


def copy_columns(tables: Tables, found: dict[str, IntArray]) -> dict[str, IntArray]:
    """Return a table of copies with kinds and devices as operations have them.

    Parameters
    ----------
    found
        Its columns; -1 in `srcKind` and `dstKind`, -2 in the ends' devices is unknown.
    """
    directions = _names(tables, "ENUM_CUDA_MEMCPY_OPER", _COPY_PREFIX, _COPY_KINDS)
    kinds = _names(tables, "ENUM_CUDA_MEM_KIND", _MEMORY_PREFIX, _MEMORY_KINDS)
    codes, which = np.unique(found["copyKind"], return_inverse=True)
    names = [directions.get(code, "UNKNOWN") for code in codes.tolist()]
    migrated = np.array([name.startswith(_MIGRATION) for name in names], bool)[which]
    columns = {key: column for key, column in found.items() if key not in _OWN}
    columns["what"] = np.where(migrated, int(OperationCode.MIGRATION), int(OperationCode.COPY))
    columns["text"] = np.zeros(which.size, np.int64)
    for end, kind, device, place in (
        ("source", "srcKind", "srcDeviceId", 0),
        ("destination", "dstKind", "dstDeviceId", -1),
    ):
        letters = np.array([_letter(name, place) for name in names], "U1")[which]
        memory = _memory(found[kind], letters, kinds)
        columns[f"{end}_kind"] = memory
        host = (letters == "H") | ((letters == "?") & np.isin(memory, _HOST_KINDS))
        there = np.where(found[device] >= 0, found[device], found["deviceId"])
        columns[f"{end}_device"] = np.where(host, HOST_DEVICE, there)
    return columns


def _letter(direction: str, place: int) -> str:
    """Return H, D, A or P for the source (place 0) or destination (-1) of a kind of copy."""
    ends = direction.removeprefix(_MIGRATION).split("TO")
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


def read_operations(tables: Tables, epoch_ns: int, notes: list[str]) -> Operations:
    """Return what the GPUs did; sentences on what is missing are added to `notes`.

    Parameters
    ----------
    epoch_ns
        When the capture began, nanoseconds since 1970: times in the tables are from then.

    Raises
    ------
    InputError
        If there is no table of operations, or one lacks what cannot be done without.
    """
    if not tables.names & {COPIES, MEMSETS, KERNELS}:
        if CALLS in tables.names:
            raise InputError(
                f"{tables.path} has calls of CUDA, and nothing that a GPU did: the program used "
                "none, or nsys could not trace it, of which the diagnostics in its window tell more"
            )
        raise InputError(
            f"{tables.path} is no export of nsys with CUDA operations: it has no table {COPIES}, "
            f"{MEMSETS} or {KERNELS}; capture with 'nsys profile --trace=cuda' and export with "
            "'nsys export --type sqlite'"
        )
    copies = tables.whole(
        COPIES,
        (*_NEEDED, "bytes", "copyKind"),
        {**_COMMON, "srcKind": -1, "dstKind": -1, "srcDeviceId": -2, "dstDeviceId": -2},
        (*_NEEDED, "bytes"),
    )
    if copies is None:
        notes.append(f"The capture has no copies: it has no table {COPIES}.")
    memsets = tables.whole(MEMSETS, (*_NEEDED, "bytes"), _COMMON, (*_NEEDED, "bytes"))
    kernels = tables.whole(
        KERNELS, _NEEDED, {**_COMMON, **dict.fromkeys(_KERNEL_NAMES, 0)}, _NEEDED
    )
    for table, found in ((COPIES, copies), (MEMSETS, memsets)):
        _require_sizes(tables, table, found)
    parts = [_part(part, OperationCode.MEMSET) for part in (memsets,) if part is not None]
    parts += [copy_columns(tables, copies)] if copies is not None else []
    parts += [_part(part, OperationCode.KERNEL) for part in (kernels,) if part is not None]
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    order = np.argsort(columns["start"], kind="stable")
    return _joined(tables, {k: v[order] for k, v in columns.items()}, epoch_ns, notes)


def _require_sizes(tables: Tables, table: str, found: Columns | None) -> None:
    """Refuse a table of operations whose bytes cannot be."""
    least, most = BYTES
    if found is None or not (wrong := (found["bytes"] < least) | (found["bytes"] > most)).any():
        return
    raise InputError(
        f"{tables.path}: the table {table} has an operation of {found['bytes'][wrong][0]} bytes, "
        "which none has; export it again with 'nsys export --type sqlite'"
    )


def _part(found: Columns, what: OperationCode) -> Columns:
    rows = found["start"].size
    name = np.zeros(rows, np.int64)
    for column in reversed(_KERNEL_NAMES):
        if column in found:
            name = np.where(found[column] > 0, found[column], name)
    constant = {
        "what": int(what),
        "source_kind": MemoryKind.UNKNOWN,
        "destination_kind": MemoryKind.UNKNOWN,
        "source_device": HOST_DEVICE,
        "destination_device": HOST_DEVICE,
    }
    constants = {key: np.full(rows, value, np.int64) for key, value in constant.items()}
    constants |= {key: found[key] for key in (*_NEEDED, *_COMMON)}
    return {**constants, "bytes": found.get("bytes", np.zeros(rows, np.int64)), "text": name}


def _joined(tables: Tables, rows: Columns, epoch_ns: int, notes: list[str]) -> Operations:
    calls = tables.whole(
        CALLS, (*_NEEDED, "correlationId"), {"globalTid": 0, "nameId": 0}
    ) or dict.fromkeys((*_NEEDED, "correlationId", "globalTid", "nameId"), np.empty(0, np.int64))
    pid = _pids(rows, calls)
    known, place = _matches(pid, rows["correlationId"], calls)

    def of_call(column: IntArray, missing: int) -> IntArray:
        found = np.full(pid.size, missing, np.int64)
        found[known] = column[place]
        return found

    text = np.where(rows["text"] > 0, rows["text"], of_call(calls["nameId"], 0))
    names, codes = _named(tables, text)
    call_names, call_codes = _named(tables, of_call(calls["nameId"], 0))
    waits = np.array([_waits(name) for name in call_names], bool)
    if not known.all():
        notes.append(
            f"{np.count_nonzero(~known):,} of {known.size:,} operations have no call in the "
            f"table {CALLS}: their threads are not known, and they are taken for asynchronous."
        )
    return Operations.of(
        names,
        pid=pid,
        what=rows["what"],
        start_ns=rows["start"] + epoch_ns,
        end_ns=rows["end"] + epoch_ns,
        bytes=rows["bytes"],
        source_kind=rows["source_kind"],
        destination_kind=rows["destination_kind"],
        asynchronous=~waits[call_codes],
        **_devices(tables, rows, pid),
        context=rows["contextId"],
        stream=rows["streamId"],
        thread=of_call(np.bitwise_and(calls["globalTid"], _MASK), UNKNOWN_THREAD),
        correlation=rows["correlationId"],
        name=codes,
        call_start_ns=of_call(calls["start"] + epoch_ns, 0),
        call_end_ns=of_call(calls["end"] + epoch_ns, 0),
    )


def _pids(rows: Columns, calls: Columns) -> IntArray:
    """Return each operation's process; exports that do not tell are of one, as its calls say."""
    pid = rows["globalPid"] >> _PART & _MASK
    callers = np.unique(calls["globalTid"] >> _PART & _MASK)
    only = callers[callers > 0]
    return np.where(pid == 0, only[0], pid) if only.size == 1 else pid


def _matches(pid: IntArray, correlation: IntArray, calls: Columns) -> tuple[BoolArray, IntArray]:
    """Return which operations have a call, and the row of the first call of each of those."""
    key = _key(calls["globalTid"] >> _PART & _MASK, calls["correlationId"])
    order = np.lexsort((calls["start"], key))
    wanted, there = _key(pid, correlation), key[order]
    at = np.searchsorted(there, wanted)
    known = (at < there.size) & (correlation > 0)
    known[known] = there[at[known]] == wanted[known]
    return known, order[at[known]]


def _key(pid: IntArray, correlation: IntArray) -> IntArray:
    return (pid << 32) + correlation


def _named(tables: Tables, text: IntArray) -> tuple[tuple[str, ...], IntArray]:
    identities, which = np.unique(text, return_inverse=True)
    texts = tables.texts(identities.tolist())
    names = tuple(dict.fromkeys(("", *texts.values())))
    numbers = {name: number for number, name in enumerate(names)}
    codes = [numbers[texts.get(i, "")] for i in identities.tolist()]
    return names, np.array(codes, np.int64)[which]


def _waits(name: str) -> bool:
    """Whether a call waits for what it moves; a graph's launch, and what is unknown, do not."""
    moves = name.startswith(("cudaMemcpy", "cuMemcpy", "cudaMemset", "cuMemset"))
    return moves and "Async" not in name


def _devices(tables: Tables, rows: Columns, pid: IntArray) -> dict[str, IntArray]:
    """Return columns of devices with the machine's numbers instead of the process's own."""
    columns = {
        "device": rows["deviceId"],
        "source_device": rows["source_device"],
        "destination_device": rows["destination_device"],
    }
    renumbered = {name: column.copy() for name, column in columns.items()}
    for process, own, number in _numbers(tables):
        of_process = True if process is None else pid == process
        for name, column in columns.items():
            renumbered[name][of_process & (column == own)] = number
    return renumbered


def _numbers(tables: Tables) -> Iterator[tuple[int | None, int, int]]:
    """Yield process, its number of a GPU, and the machine's.

    Versions before 2025 do not tell what a process may use: there the order of all GPUs for CUDA
    stands for it.
    """
    wanted = ("gpuId", "cudaId", "pid")
    devices = tables.records("TARGET_INFO_CUDA_DEVICE", *wanted)
    for one in devices:
        if all(one.get(key) is not None for key in wanted):
            yield one["pid"], one["cudaId"], one["gpuId"]
    if devices:
        return
    for one in tables.records(GPUS, "id", "cuDevice", "computeMajor"):
        if is_cuda_gpu(one) and one.get("id") is not None and one.get("cuDevice") is not None:
            yield None, one["cuDevice"], one["id"]


def is_cuda_gpu(row: Mapping[str, Any]) -> bool:
    """Whether a row is of a GPU that runs CUDA; Windows lists other adapters, too."""
    return row.get("computeMajor") != 0
