"""A table on a terminal that is too narrow for it: nothing is cut, and each value has its title."""

import io
import re

import pytest
from rich.console import Console

from lanescope.document.blocks import Cell, Column, Group, Kind, Table
from lanescope.report.terminal import TableOrLines

TABLE = Table(
    "What it is",
    (
        Column("streams", Kind.COUNT),
        Column("array"),
        Column("bandwidth", Kind.GBS),
        Column("time", Kind.SECONDS),
    ),
    [
        Group(
            [
                [61, "–", Cell(52.3, below=("kernel 52.1",), mark="~"), 1.5e-3],
                [4000, "values-of-an-array.npy", Cell(0.5), None],
            ]
        )
    ],
)
#: What has to be seen whole.
VALUES = ("61", "4000", "52.3~", "kernel 52.1", "0.5", "1.50 ms")


def drawn(width):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(TableOrLines(TABLE))
    return console.file.getvalue()


@pytest.mark.parametrize("width", range(24, 90))
def test_no_width_cuts_a_value(width):
    text = drawn(width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert all(value in words for value in VALUES)


def test_each_value_of_a_line_stands_behind_its_title():
    lines = [line.rstrip() for line in drawn(45).splitlines()]
    assert " ".join(lines) == (
        "What it is "
        "streams 61; array –; bandwidth 52.3~ (kernel 52.1); time 1.50 ms "
        "streams 4000; array values-of-an-array.npy; bandwidth 0.500"
    )


def test_a_table_that_fits_is_one():
    assert re.search(r"streams +array +bandwidth +time", drawn(89))
