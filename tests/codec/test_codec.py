"""What is read from files: types, bounds, places of errors, versions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lanescope
from lanescope.codec.fields import FieldError, Moment, Positive, Signed, build
from lanescope.codec.files import fields_of, parse_json, read_json, read_text, require_version
from lanescope.codec.parquet import Holds, metadata_of, open_table, read_columns, read_rows
from lanescope.errors import InputError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    seconds: tuple[Positive, ...]
    shift: Signed = 0.0
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    started: Moment
    inner: tuple[Inner, ...] = ()
    size: int | None = None
    extra: dict[str, Inner] | None = None


WHOLE = {"name": "x", "started": "2026-11-21T10:00:00+00:00"}


def test_a_table_becomes_its_dataclass():
    table = WHOLE | {"inner": [{"seconds": [1, 2.5], "colour": "blue"}], "size": None}
    inner = Inner((1.0, 2.5), 0.0, Colour.BLUE)
    assert build(Outer, table) == Outer("x", WHOLE["started"], (inner,))
    assert build(Outer, table | {"inner": [inner]}).inner == (inner,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "field 'name' is 3, not a text"),
        ({"name": "\ud800"}, "which is no text"),
        ({"started": "now"}, "field 'started' is 'now'; it must be a time such as"),
        ({"size": True}, "field 'size' is True, not a whole number"),
        ({"size": -1}, "it must be zero or more"),
        ({"size": 10**400}, "a number of very many digits"),
        ({"colour": "red"}, "unknown field 'colour'"),
        ({"inner": {}}, "field 'inner' must be a list"),
        ({"inner": [3]}, "field 'inner[0]' is 3, not a table"),
        ({"inner": [{"seconds": [1, 0]}]}, "inner[0]: field 'seconds[1]' is 0.0; it must be above"),
        ({"inner": [{"seconds": [float("inf")]}]}, "not a finite number"),
        ({"inner": [{"seconds": [1e-320]}]}, "which no quantity is"),
        ({"inner": [{}]}, "inner[0]: field 'seconds' is missing"),
        ({"inner": [{"seconds": [], "colour": "green"}]}, "not one of red, blue"),
        ({"extra": {"a": {"seconds": 1}}}, "extra.a: field 'seconds' must be a list"),
        ({"name": ["x" * 10**6]}, "field 'name' is a list, not a text"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_named(change, words):
    with pytest.raises(FieldError) as caught:
        build(Outer, WHOLE | change)
    assert words in caught.value.in_full
    assert len(caught.value.in_full) < 200


def test_unknown_fields_pass_where_others_are_allowed():
    table = WHOLE | {"theirs": 1, "inner": [{"seconds": [1], "theirs": 2}]}
    assert build(Outer, table, others=True).inner == (Inner((1.0,)),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON, or is cut short: line 1, column 1"),
        ('{"a": 1, "a": 2}', "the field 'a' is there twice"),
        ('{"a": NaN}', "NaN is no number"),
        ("[" * 10**5, "beyond reason"),
        ('{"a": 1' + "0" * 5000 + "}", "beyond reason"),
    ],
    ids=["cut", "twice", "nan", "deep", "long"],
)
def test_json_that_cannot_be(text, words):
    with pytest.raises(InputError) as caught:
        parse_json(text, "x.json")
    assert str(caught.value).startswith("x.json")
    assert words in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    for path, words in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "bytes", "byte 2 is no UTF-8"),
        (tmp_path / "a\0b", "null"),
    ):
        with pytest.raises(InputError, match=words):
            read_text(path)
    with pytest.raises(InputError, match="cannot read"):
        read_json(tmp_path / "missing")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (9, "has version 9 of its schema, this lanescope reads 2 to 3; read it with a newer "),
        (1, "read it with an older lanescope, such as 0.7, which wrote it"),
        ("x", "the version of its schema is 'x', not a whole number"),
        (None, "is None"),
        (True, "is True"),
    ],
)
def test_versions(found, words):
    with pytest.raises(InputError) as caught, fields_of("x.json"):
        require_version(found, 3, "x.json", oldest=2, writer="0.7")
    assert words in str(caught.value)
    assert require_version(2, 3, "x.json", oldest=2) == 2


def test_the_same_lanescope_is_not_recommended_for_what_it_cannot_read():
    with pytest.raises(InputError, match=r"read it with a newer lanescope$"):
        require_version(9, 3, "x.json", writer=lanescope.__version__)


def test_tables_are_checked_by_column(tmp_path):
    path = tmp_path / "x.parquet"
    wanted = {"a": Holds.WHOLE, "b": Holds.NUMBER}
    pq.write_table(pa.table({"a": [1, 2], "b": [0.5, 1.5]}), path)
    assert read_columns(path, wanted)["b"].tolist() == [0.5, 1.5]
    for table, words in (
        (pa.table({"a": [1]}), "has no column 'b'"),
        (pa.table({"a": ["x"], "b": [1.0]}), "'a' is of type string, it must hold whole numbers"),
        (pa.table({"a": [1], "b": [float("nan")]}), "no finite number"),
        (pa.table({"a": [1, None], "b": [1.0, 2.0]}), "'a' lacks values"),
    ):
        pq.write_table(table, path)
        with pytest.raises(InputError, match=words) as caught:
            read_columns(path, wanted)
        assert str(path) in str(caught.value)
    with open_table(path) as file, pytest.raises(InputError, match="does not say its names"):
        metadata_of(file, path, "names", tuple[str, ...])
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="no Parquet file, or is damaged or cut short"):
        read_rows(path)


def test_a_turned_bit_is_seen(tmp_path):
    path = tmp_path / "x.parquet"
    values = np.random.default_rng(1).random(10_000)
    pq.write_table(pa.table({"a": values}), path, write_page_checksum=True, compression="none")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        read_columns(path, {"a": Holds.NUMBER})
