"""Long tables are printed without asking the terminal about each cell."""

from rich.console import Console

from lanescope.cli.output import print_blocks
from lanescope.document.blocks import ColumnOf, Table

ROWS = 200


def test_a_cell_does_not_ask_for_the_terminals_size(monkeypatch, capsys):
    asked = []
    size = Console.size.fget

    def counted(console):
        asked.append(console)
        return size(console)

    monkeypatch.setattr(Console, "size", property(counted))
    columns = [ColumnOf("number", lambda one: one), ColumnOf("twice", lambda one: 2 * one)]
    print_blocks([Table.of("Numbers", columns, range(ROWS))])
    assert len(capsys.readouterr().out.splitlines()) > ROWS
    assert len(asked) < ROWS
