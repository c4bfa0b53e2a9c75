"""What is said of watches that were killed: they did not finish, and parts may be damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.trace import store
from lanescope.trace.store import read_watch
from tests.cli.command_lines import run
from tests.torture.stored import killed_watch


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    return killed_watch(tmp_path / "killed")


def test_a_watch_that_was_killed_did_not_finish(killed: Path) -> None:
    done = run(["show", str(killed)])
    assert done.code == 0
    assert done.stdout.startswith("This run did not finish: ")
    told = json.loads(run(["report", str(killed), "--json"]).stdout)
    assert told["state"] == "running"


def damaged_first_line(content: bytes) -> bytes:
    return b"\0" * 8 + content[8:]


def bytes_between(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(range(1, 201)) + content[middle:]


def bytes_missing(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + content[middle + 3 :]


def late_time(content: bytes) -> bytes:
    year = 366 * 86_400 * 10**9 - 10**9
    last = int.from_bytes(content[-16:-8], "little") + year
    return content[:-16] + last.to_bytes(8, "little") + content[-8:]


def own_time(content: bytes) -> bytes:
    at = content.index(b"\n") + 1 + 16 * 50
    return content[:at] + (2**63 + 5).to_bytes(8, "little") + content[at + 8 :]


def notes_of(folder: Path) -> tuple[str, float]:
    told = json.loads(run(["report", str(folder), "--json"]).stdout)
    return " ".join(told["notes"]), told["seconds"]


@pytest.mark.parametrize("damage", [damaged_first_line, bytes_between, bytes_missing, own_time])
def test_damaged_counters_of_a_killed_watch_are_named_and_the_rest_is_shown(
    killed: Path, damage: Callable[[bytes], bytes]
) -> None:
    _, lasted = notes_of(killed)
    spool = killed / "spool/pm.g0.bin"
    spool.write_bytes(damage(spool.read_bytes()))
    done = run(["show", str(killed)])
    assert done.code == 0
    assert "4 MiB" in done.stdout  # of copies, by the trace
    notes, seconds = notes_of(killed)
    assert "left out" in notes
    assert 0 < seconds <= lasted


def test_a_record_from_the_future_does_not_lengthen_a_killed_watch(killed: Path) -> None:
    _, lasted = notes_of(killed)
    spool = killed / "spool/pm.g0.bin"
    spool.write_bytes(late_time(spool.read_bytes()))
    notes, seconds = notes_of(killed)
    assert "One record was left out" in notes
    assert seconds == pytest.approx(lasted, rel=0.1)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_damaged_trace_of_a_killed_watch_is_named_and_the_rest_is_shown(
    killed: Path, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    monkeypatch.setattr(store, "MOST_BYTES_IN_MEMORY", 0 if streamed else 1 << 30)
    path = next((killed / "spool").glob("trace.*.bin"))
    whole, before = path.read_bytes(), read_watch(killed).timeline
    path.write_bytes(whole + b"\x01" * 4000)
    timeline = read_watch(killed).timeline
    assert timeline.damage == (
        f"{path.name} is damaged: 4,000 bytes at its end are no records; they are left out.",
    )
    assert len(timeline.operations) == len(before.operations)
    path.write_bytes(b"\0" + whole[1:])
    timeline = read_watch(killed).timeline
    assert f"{path.name} is left out: " in timeline.damage[0]
    assert len(timeline.counters[0])
