"""Tables of an SQLite export of Nsight Systems, which differ between its versions.

The layout is NVIDIA's "SQLite Schema Reference": a table is there only when it has rows, and
columns were added over the years. What is missing is told, in a sentence, or filled in.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from lanescope.codec.files import open_file
from lanescope.errors import InputError
from lanescope.trace.codes import IntArray

_MAGIC = b"SQLite format 3\0"
#: Steps of SQLite's machine that a query may take, and so many more for each byte of the file: no
#: row takes as many.
_STEPS, _STEPS_A_BYTE, _STEPS_AT_ONCE = 10_000_000, 20, 100_000
#: Bytes of a text: names of kernels are some thousand.
_LONGEST_VALUE = 16 << 20
#: So many texts are asked for at a time.
_TEXTS = 500


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database, of whatever kind; False if it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, InputError):
        return False


class Tables:
    """An export, opened to read; use with ``with``.

    Raises
    ------
    InputError
        From any method, if the file is damaged or lacks what cannot be done without.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
