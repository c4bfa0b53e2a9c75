"""Footers of Parquet files, whole and damaged."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lanescope.codec.parquet import column_values, read_rows, write_groups
from lanescope.errors import InputError

TABLE = pa.table({"name": ["a", None, "c"] * 40, "many": [[1, 2, 3], [], [4]] * 40})


_READ = """
import pathlib, random, sys
from lanescope.codec.parquet import read_rows
from lanescope.errors import InputError
import pyarrow as pa, pyarrow.parquet as pq

path, rng = pathlib.Path(sys.argv[1]), random.Random(5)
pq.write_table(pa.table({f"c{i}": ["a", "b"] * 4 for i in range(30)}), path)
whole = path.read_bytes()
begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
for _ in range(800):
    changed = bytearray(whole)
    for _ in range(rng.randrange(1, 3)):
        changed[rng.randrange(begin, len(whole) - 8)] ^= 1 << rng.randrange(8)
    path.write_bytes(changed)
    try:
        read_rows(path)
    except InputError:
        pass
"""


@pytest.fixture
def written() -> bytes:
    file = io.BytesIO()
    pq.write_table(TABLE, file, row_group_size=50)
    return file.getvalue()


def test_values_are_counted_as_pyarrow_counts_them(written: bytes):
    told = pq.ParquetFile(io.BytesIO(written)).metadata
    groups = [told.row_group(i) for i in range(told.num_row_groups)]
    assert len(groups) == 3
    by_pyarrow = [sum(g.column(at).num_values for g in groups) for at in range(told.num_columns)]
    assert column_values(io.BytesIO(written)) == by_pyarrow


def test_damaged_footers_never_end_the_process(tmp_path: Path):
    """Of so many, pyarrow's own count of a chunk's values ended it at about eight."""
    done = subprocess.run([sys.executable, "-c", _READ, tmp_path / "x.parquet"], check=False)
    assert done.returncode == 0


def test_any_damage_is_one_error(written: bytes, tmp_path: Path):
    rng = random.Random(7)
    for _ in range(300):
        changed = bytearray(written)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        try:
            values = column_values(io.BytesIO(bytes(changed)))
        except ValueError:
            continue
        assert all(isinstance(value, int) for value in values)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"\xff" * 64, b"\0\0\0\x80PAR1"])
def test_what_is_no_parquet_is_refused(content: bytes, tmp_path: Path):
    with pytest.raises(ValueError, match="footer"):
        column_values(io.BytesIO(content))
    path = tmp_path / "x.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no Parquet file"):
        read_rows(path)


@pytest.mark.parametrize("groups", [0, 1, 2, 9])
def test_groups_that_are_encoded_at_once_are_those_of_one_writer(groups: int):
    numbers = random.Random(7)
    columns = [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.bool_())]
    schema = pa.schema(columns, metadata={b"told": b"1"})
    tables = [
        pa.table(
            {
                "a": [numbers.randrange(1 << 40) for _ in range(2000 + 17 * group)],
                "b": [None if i % 50 == 0 else i % 7 < 3 for i in range(2000 + 17 * group)],
            },
            schema,
        )
        for group in range(groups)
    ]
    options = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": ["b"]}
    by_one, several = io.BytesIO(), io.BytesIO()
    with pq.ParquetWriter(by_one, schema, **options) as writer:
        for table in tables:
            writer.write_table(table)
    write_groups(several, schema, iter(tables), **options)
    assert pq.read_metadata(several).num_row_groups == groups
    found = pq.read_table(several, page_checksum_verification=True)
    assert found.equals(pq.read_table(by_one), check_metadata=True)
    if not groups or not pq.read_metadata(by_one).row_group(0).column(0).file_offset:
        assert several.getvalue() == by_one.getvalue()
