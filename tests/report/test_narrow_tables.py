"""A table on a terminal that is too narrow for it: nothing is cut, and each value has its title."""

import io
import re
import sys
from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text as RichText

from lanescope.cli.output import print_blocks
from lanescope.document.blocks import Code, Column, Group, Kind, Table, TableCell, Text
from lanescope.report.terminal import TableOrLines, in_ascii

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
                [61, "–", TableCell(52.3, below=("kernel 52.1",), mark="~"), 1.5e-3],
                [4000, "values-of-an-array.npy", TableCell(0.5), None],
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


class AsciiTerminal(io.TextIOWrapper):
    """A terminal that shows nothing but ASCII."""

    def isatty(self):
        return True


@pytest.mark.parametrize("width", [40, 60, 80])
def test_texts_in_ascii_are_laid_out_as_such(width, monkeypatch):
    rows = [[f"h0 → g{at}", TableCell(55.5, mark="±"), "64 KiB … 1 MiB × 8"] for at in range(3)]
    table = Table("h0 → g0 ± 2 µs", (Column("a → b"), Column("rate", Kind.GBS), Column("…")), [])
    words = Text(["from ", Code("h0 → g0"), " ± 2 µs … " * 9])
    monkeypatch.setattr("sys.stdout", AsciiTerminal(io.BytesIO(), encoding="ascii"))
    monkeypatch.setenv("COLUMNS", str(width))
    print_blocks([words, replace(table, groups=[Group(rows)])])
    sys.stdout.flush()
    shown = re.sub(r"\x1b\[[\d;]*m", "", sys.stdout.buffer.getvalue().decode("ascii"))
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= width
    assert shown.count("h0 -> g") == len(rows) + 2
    assert "?" not in shown


def test_what_is_marked_stays_marked_in_ascii():
    text = RichText.assemble("± ", ("h0 → g0", "cyan"), " …")
    made = in_ascii(text)
    assert made.plain == "+- h0 -> g0 ..."
    assert [made.plain[span.start : span.end] for span in made.spans] == ["h0 -> g0"]
