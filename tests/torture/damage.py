"""Damages files by chance: values of other types, missing ones, bytes cut off or turned."""

from __future__ import annotations

import contextlib
import copy
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: What stands where something else was.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, -1, -7, 10**6, 2**31, 2**53, 2**63, 10**30),
    *(0.0, -0.5, 1.5, 1e-12, 1e-320, 1e308, float("nan"), float("inf")),
    *("", "x", "0", "g7", "h9", "[/b]", "[bold", "a\x00b", "\ud800", "ü" * 3000, "../../x"),
    *([], [None], [1, 2], ["x"], [[[]]], {}, {"x": 1}),
]
#: Stands for a field that is not there.
GONE = object()
_UNITS = ("_ns", "_us", "_seconds", "_gbs", "_bytes")


def damage(path: Path, rng: random.Random, others: list[Path]) -> str:
    """Change a file and return how; `others` may take its place."""
    kind = rng.random()
    if kind < 0.15:
        return _bytes(path, rng)
    if kind < 0.2:
        other = rng.choice(others)
        path.write_bytes(other.read_bytes())
        return f"{other.name} in its place"
    if path.suffix == ".json":
        return _json(path, rng)
    if path.suffix == ".parquet":
        return _table(path, rng)
    if path.suffix == ".sqlite":
        return _database(path, rng)
    if path.suffix in (".toml", ".in", ".xml"):
        return _lines(path, rng)
    return _spool(path, rng)


def _bytes(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    how = rng.choice(("cut", "empty", "turned", "noise", "more", "gone", "folder"))
    if how == "gone":
        path.unlink()
        return how
    if how == "folder":
        path.unlink()
        path.mkdir()
        return how
    if how == "cut":
        del content[rng.randrange(len(content) + 1) :]
    elif how == "empty":
        content.clear()
    elif how == "turned" and content:
        for _ in range(rng.choice((1, 1, 3, 30))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == "noise":
        content = bytearray(rng.randbytes(rng.randrange(1, 200)))
    elif how == "more":
        at = rng.randrange(len(content) + 1)
        content[at:at] = rng.randbytes(rng.randrange(1, 9))
    path.write_bytes(content)
    return how


def _json(path: Path, rng: random.Random) -> str:
    try:
        whole = json.loads(path.read_text())
    except ValueError:
        return _bytes(path, rng)
    told = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        whole, how = changed(whole, rng)
        told.append(how)
    path.write_text(json.dumps(whole))
    return "; ".join(told)


def changed(whole: Any, rng: random.Random) -> tuple[Any, str]:
    """Return JSON with one value changed, and how."""
    whole = copy.deepcopy(whole)
    places: list[tuple[Any, Any]] = []
    if isinstance(whole, dict | list):
        _collect(whole, places)
    if not places or rng.random() < 0.02:
        value = rng.choice(VALUES)
        return value, f"all is {value!r:.40}"
    # a file of a hundred alike entries is damaged elsewhere, too
    depth = rng.random()
    parent, key = places[int(len(places) * depth**3)]
    how = rng.choice(("value", "value", "value", "gone", "twice", "renamed", "like another"))
    if how == "gone":
        del parent[key]
    elif how == "twice" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    elif how == "renamed" and isinstance(parent, dict):
        new = next((key.replace(u, rng.choice(_UNITS)) for u in _UNITS if u in key), f"{key}s")
        parent[new] = parent.pop(key)
    elif how == "like another":
        other, there = rng.choice(places)
        parent[key] = copy.deepcopy(other[there])
    else:
        value = parent[key] = copy.deepcopy(rng.choice(VALUES))
        how = f"{value!r:.40}"
    return whole, f"{key!r}: {how}"


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        places.append((value, key))
    for key in keys:
        if isinstance(value[key], dict | list):
            _collect(value[key], places)


#: One of each kind that a field of JSON, and that a column, may hold by mistake.
_ODD = (GONE, None, True, 0, -1, 1e308, "", "x", [], {}, [None])
_ODD_IN_COLUMNS = (GONE, None, True, 0, -1, 2**62, 1e308, float("nan"), "", "x", [])


def places_of(path: Path) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return each place of a file that somebody may write to, and what to put there.

    Of alike entries of a list the first that has a field; of tables each column, all of it and
    its first row.
    """
    if path.suffix == ".json":
        return [(place, _ODD) for place in _shapes(json.loads(path.read_text()))]
    if path.suffix == ".parquet":
        names = pq.read_schema(path).names
        return [((name, rows), _ODD_IN_COLUMNS) for name in names for rows in (1, None)]
    return []


def put(path: Path, place: tuple[Any, ...], value: Any) -> str:
    """Put a value into a place of a file, see `places_of`; return what was done."""
    if path.suffix == ".json":
        path.write_text(json.dumps(_replaced(json.loads(path.read_text()), place, value)))
    else:
        _put_column(path, *place, value)
    return f"{place}: {'gone' if value is GONE else repr(value)}"


def _shapes(whole: Any) -> list[tuple[Any, ...]]:
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def walk(value: Any, shape: tuple[Any, ...], place: tuple[Any, ...]) -> None:
        if place:
            found.setdefault(shape, place)
        if isinstance(value, dict | list):
            for key in value if isinstance(value, dict) else range(len(value)):
                walk(value[key], (*shape, key if isinstance(value, dict) else "*"), (*place, key))

    walk(whole, (), ())
    return list(found.values())


def _replaced(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    parent = whole
    for key in place[:-1]:
        parent = parent[key]
    if value is GONE:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return whole


def _put_column(path: Path, name: str, rows: int | None, value: Any) -> None:
    table = pq.read_table(path)
    at = table.column_names.index(name)
    if value is GONE:
        table = table.remove_column(at)
    else:
        values = table.column(name).to_pylist()
        values[:rows] = [value] * len(values[:rows])
        column = _array(values, table.schema.field(name).type, random.Random(0))
        table = table.set_column(at, name, column)
    with contextlib.suppress(pa.ArrowException, ValueError):  # a type that no Parquet file has
        pq.write_table(table, path)


def _table(path: Path, rng: random.Random) -> str:
    try:
        table = pq.read_table(path)
    except (OSError, ValueError, pa.ArrowException):
        return _bytes(path, rng)
    names = table.column_names
    if not names:
        return _bytes(path, rng)
    how = rng.choice(
        ("value", "value", "value", "type", "gone", "renamed", "rows", "said", "twice")
    )
    name = rng.choice(names)
    at = names.index(name)
    if how == "value" and table.num_rows:
        values = table.column(name).to_pylist()
        row, value = rng.randrange(len(values)), rng.choice(VALUES)
        for one in range(len(values)) if rng.random() < 0.3 else (row,):
            values[one] = value
        how = f"row {row} {value!r:.40}"
        table = table.set_column(at, name, _array(values, table.schema.field(name).type, rng))
    elif how == "type":
        kind = rng.choice(
            (pa.string(), pa.float64(), pa.int32(), pa.bool_(), pa.null(), pa.binary())
        )
        values = table.column(name).to_pylist()
        table = table.set_column(at, name, _array([str(v) for v in values], kind, rng))
        how = str(kind)
    elif how == "gone":
        table = table.remove_column(at)
    elif how == "renamed":
        table = table.rename_columns([f"{n}s" if n == name else n for n in names])
    elif how == "rows":
        begin = rng.randrange(table.num_rows + 1)
        part = table.slice(begin, rng.randrange(1, 9))
        table = rng.choice((part, pa.concat_tables([table, part]), pa.concat_tables([part, table])))
    elif how == "twice":
        table = table.append_column(name, table.column(name))
    else:
        metadata = dict(table.schema.metadata or {})
        for key in [k for k in metadata if k != b"ARROW:schema"]:
            told, how = changed(json.loads(metadata[key]), rng)
            metadata[key] = json.dumps(told).encode()
        table = table.replace_schema_metadata(metadata if rng.random() < 0.9 else None)
    before = path.read_bytes()
    try:
        pq.write_table(table, path)
    except (pa.ArrowException, ValueError):  # a type that no Parquet file has
        path.write_bytes(before)
        return _bytes(path, rng)
    return f"{name}: {how}"


def _array(values: list[Any], kind: pa.DataType, rng: random.Random) -> pa.Array:
    """Return values as a column of a type, or of whatever type takes them."""
    for how in (kind, None, pa.string()):
        try:
            return pa.array([str(v) for v in values] if how == pa.string() else values, how)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError, TypeError, ValueError):
            continue
    return pa.nulls(len(values))


def _database(path: Path, rng: random.Random) -> str:
    with sqlite3.connect(path) as database:
        tables = [n for (n,) in database.execute("SELECT name FROM sqlite_master WHERE sql > ''")]
        table = rng.choice(tables)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column = rng.choice(columns)
        how = rng.choice(("value", "value", "value", "value", "gone", "dropped", "rows"))
        try:
            if how == "gone":
                database.execute(f"DROP TABLE {table}")
            elif how == "dropped":
                database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            elif how == "rows":
                database.execute(f"DELETE FROM {table} WHERE rowid % 2 = {rng.randrange(2)}")
            else:
                plain = [v for v in VALUES if not isinstance(v, list | dict)]
                value = rng.choice([*plain, -(2**62), 2**62, b"\xff\x00"])
                where = f" WHERE rowid % 3 = {rng.randrange(3)}" if rng.random() < 0.7 else ""
                database.execute(f"UPDATE {table} SET {column} = ?{where}", (value,))
                how = f"{value!r:.40}{where}"
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            how = f"nothing ({error})"
    database.close()
    return f"{table}.{column}: {how}"


def _lines(path: Path, rng: random.Random) -> str:
    lines = path.read_text().splitlines()
    used = [i for i, line in enumerate(lines) if line.strip() and not line.startswith(("#", "-"))]
    at = rng.choice(used)
    how = rng.choice(("value", "value", "value", "gone", "twice", "moved", "key", "digit"))
    if how == "gone":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "moved":
        lines.insert(rng.choice(used), lines.pop(at))
    elif how == "key":
        lines[at] = lines[at].replace("=", "s =", 1)
    elif how == "digit":
        digits = [i for i, letter in enumerate(lines[at]) if letter.isdigit()]
        if digits:
            place = rng.choice(digits)
            lines[at] = lines[at][:place] + rng.choice("0123456789-.e ") + lines[at][place + 1 :]
    else:
        key, equals, _ = lines[at].partition("=")
        value = json.dumps(rng.choice(VALUES), ensure_ascii=rng.random() < 0.5)
        lines[at] = f"{key}{equals} {value}" if equals else f"[{value}]"
    path.write_text("\n".join(lines) + "\n", errors="replace")
    return f"line {at + 1}: {how}: {lines[min(at, len(lines) - 1)]:.60}"


def _spool(path: Path, rng: random.Random) -> str:
    """Damage the line of JSON at the begin of a spool, or its records."""
    head, newline, body = path.read_bytes().partition(b"\n")
    if rng.random() < 0.5 or not newline:
        content = bytearray(body)
        for _ in range(rng.choice((1, 5, 200)) if content else 0):
            content[rng.randrange(len(content))] = rng.choice((0, 1, 127, 128, 255))
        path.write_bytes(head + newline + content)
        return "records"
    told, how = changed(json.loads(head), rng)
    path.write_bytes(json.dumps(told).encode() + newline + body)
    return how
