"""Tables on a terminal, and what stands for them where it is narrow."""

import io
import re

import pytest
from rich.console import Console

from lanescope.cli.run_text import run_tables
from lanescope.studies.runs.rows import bandwidth_rows
from tests.report import factory


def printed(run, width):
    console = Console(file=io.StringIO(), width=width)
    for part in run_tables(run):
        console.print(part)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 109])
def test_a_narrow_terminal_keeps_paths_numbers_and_verdicts(width):
    run = factory.check_run(slow="g0", missing="g1")
    text = printed(run, width)
    assert re.search("path +GB/s", text) is None
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for row in bandwidth_rows(run.results):
        assert row.label in words
        assert row.verdict.reason in words
    assert "…" not in text


def test_a_wide_terminal_has_the_table():
    assert re.search("path +GB/s", printed(factory.check_run(), 120))
