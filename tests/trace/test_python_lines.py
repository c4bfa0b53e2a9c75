"""Stacks of Python, and what their lines copied, from plain numbers."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from lanescope.document.blocks import Table, TableCell
from lanescope.errors import InputError
from lanescope.report.watch_files import write_csv
from lanescope.studies.watch_blocks import LINES, PAGE, TERMINAL, summary_sections
from lanescope.studies.watch_report import summary_json
from lanescope.trace.attribution import copies_by_line
from lanescope.trace.columns import PYTHON_LINES, read_columns, write_columns
from lanescope.trace.operations import Operations
from lanescope.trace.side_tables import Frame, NoLine, PythonLines, frames_of
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Timeline
from tests.trace.timelines import MS, PINNED, copies, timeline

TO = "l9\tapply\t/opt/site-packages/nets/module.py\np5\tload\t/home/me/job/train.py\n"
OWN = "p7\tstep\t/home/me/job/train.py\np20\t<module>\t/home/me/job/train.py\n"


def called(count: int, **columns: object) -> Operations:
    """Copies of 1 MiB with calls."""
    found = copies(count, 1 << 20, host=PINNED, **columns)  # type: ignore[arg-type]
    return Operations.of(
        **{
            name: getattr(found, name)
            for name in (
                "pid",
                "start_ns",
                "end_ns",
                "bytes",
                "source_kind",
                "destination_kind",
                "source_device",
                "destination_device",
                "device",
                "asynchronous",
                "stream",
            )
        },
        correlation=np.arange(count) + 1,
        call_start_ns=found.start_ns + 10,
        call_end_ns=found.start_ns + 20,
    )


def lines_of(operations: Operations, stack: list[int], *stacks: str) -> PythonLines:
    return PythonLines.of(
        stacks,
        1000,
        pid=operations.pid,
        start_ns=operations.call_start_ns,
        correlation=operations.correlation,
        stack=stack,
    )


def test_frames_are_read_and_what_is_none_is_left_out() -> None:
    first, second = frames_of(TO)
    assert first == Frame("/opt/site-packages/nets/module.py", 9, "apply", True)
    assert second.text == "job/train.py:5 load"
    assert frames_of("p-1\tf\tg\nx1\tf\tg\np1\tf\np1\tf\tg\th\n\n") == ()
    assert Frame("<string>", 3, "made", False).text == "<string>:3 made"


def test_copies_are_summed_by_the_programs_own_line() -> None:
    operations = called(6)
    lines = lines_of(operations, [0, 0, 1, NoLine.OVER_BUDGET, NoLine.NO_PYTHON, 0], TO, OWN)
    rows = copies_by_line(operations, lines)
    assert [(row.line and row.line.line, row.count) for row in rows] == [
        (5, 3),
        (7, 1),
        (None, 1),
        (None, 1),
    ]
    assert rows[0].innermost == frames_of(TO)[0]
    assert rows[0].caller is None
    assert rows[1].innermost is None
    assert rows[1].caller is not None
    assert rows[1].caller.line == 20
    assert rows[0].total_bytes == 3 << 20
    assert rows[0].seconds == pytest.approx(3 * MS / 2 * 1e-9)
    assert (rows[0].direction, rows[0].memory) == ("h2d", "pinned")
    assert sum(row.count for row in rows) == len(operations)


def test_a_number_of_a_process_that_comes_again_is_known_by_its_time() -> None:
    first = called(2)
    second = called(2, start_ns=100 * MS)  # the same pid and the same numbers
    lines = PythonLines.concat(
        [lines_of(first, [0, 0], TO), lines_of(second, [NoLine.NO_ROOM, 0], OWN)]
    )
    assert lines.stacks == (TO, OWN)
    assert lines.stack.tolist() == [0, 0, NoLine.NO_ROOM, 1]
    assert lines.spent_ns == 2000
    rows = copies_by_line(Operations.concat([first, second]), lines)
    assert sorted(((row.line and row.line.line) or 0, row.count) for row in rows) == [
        (0, 1),
        (5, 2),
        (7, 1),
    ]


def test_codes_of_spools_become_stacks_or_reasons() -> None:
    columns = {name: np.zeros(5) for name in ("pid", "start_ns", "correlation")}
    lines = PythonLines.by_codes({20: TO}, 7, stack=np.array([20, 1, 5, 9, 300]), **columns)
    unreadable, no_room = NoLine.UNREADABLE, NoLine.NO_ROOM
    assert lines.stack.tolist() == [0, NoLine.OVER_BUDGET, unreadable, unreadable, no_room]


def with_lines() -> Timeline:
    operations = called(4)
    found = timeline(operations)
    lines = lines_of(operations, [0, 1, 1, NoLine.OVER_BUDGET], TO, OWN)
    return Timeline(
        found.start_ns,
        found.end_ns,
        operations=operations,
        processes=found.processes,
        python_lines=lines,
    )


def test_the_summary_has_a_table_and_json_of_lines() -> None:
    summary = summarise(with_lines())
    for most in (TERMINAL, PAGE):
        blocks = summary_sections(summary, (), most)[0].blocks
        (table,) = [b for b in blocks if isinstance(b, Table) and b.title == LINES]
        rows = table.groups[0].rows
        assert len(rows) == 3
        assert isinstance(rows[0][0], TableCell)
        assert rows[0][0].value == "job/train.py:7 step"
        assert rows[0][1] == "job/train.py:20 <module>"
    stored = summary_json(summary)
    assert stored["python_lines"][0]["line"]["file"] == "/home/me/job/train.py"
    assert [row["count"] for row in stored["python_lines"]] == [2, 1, 1]
    assert stored["python_lines_seconds"] == pytest.approx(1e-6)
    notes = summary_sections(summary)[2].blocks[0]
    assert any("Reading Python's frames took 1" in str(item) for item in notes.items)


def test_a_watch_without_lines_says_nothing_of_them() -> None:
    summary = summarise(timeline(called(4)))
    assert summary.by_line == ()
    assert summary.line_seconds is None
    assert all(getattr(b, "title", "") != LINES for b in summary_sections(summary)[0].blocks)


def test_lines_are_stored_and_read_back(tmp_path) -> None:
    stored = with_lines()
    write_columns(tmp_path, stored)
    again = read_columns(tmp_path, stored.start_ns, stored.end_ns).python_lines
    assert again.stacks == stored.python_lines.stacks
    assert again.spent_ns == 1000
    assert again.stack.tolist() == stored.python_lines.stack.tolist()


def test_copies_in_csv_have_their_line(tmp_path) -> None:
    path, _ = write_csv(tmp_path, with_lines())
    with path.open() as file:
        found = [row["python_line"] for row in csv.DictReader(file)]
    load, step = "/home/me/job/train.py:5 load", "/home/me/job/train.py:7 step"
    assert found == [load, step, step, ""]
    path, _ = write_csv(tmp_path, timeline(called(2)))
    with path.open() as file:
        assert [row["python_line"] for row in csv.DictReader(file)] == ["", ""]


@pytest.mark.parametrize("stack", [3, -6])
def test_a_stack_that_is_none_is_refused(tmp_path, stack) -> None:
    stored = with_lines()
    wrong = lines_of(stored.operations, [stack] * 4, TO, OWN)
    write_columns(tmp_path, Timeline(stored.start_ns, stored.end_ns, python_lines=wrong))
    with pytest.raises(InputError, match=PYTHON_LINES):
        read_columns(tmp_path, stored.start_ns, stored.end_ns)
