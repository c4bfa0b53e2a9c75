"""What is said of watches that were killed: they did not finish, and parts may be damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
