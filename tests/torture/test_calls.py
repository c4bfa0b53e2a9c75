"""Wrong calls from Python: each is one sentence, and none of them is taken."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lanescope
from lanescope.errors import LanescopeError
from tests.torture import python_calls

#: Calls in one process, which may die of one.
_BATCH = 500


def test_wrong_calls_are_one_sentence(
    tmp_path: Path, rng: random.Random, trials: Callable[[int, int], int]
) -> None:
    left, wrong = trials(250, 5000), []
    while left > 0:
        folder = tmp_path / str(left)
        folder.mkdir()
        count = min(left, _BATCH)
        wrong += _batch(folder, rng.randrange(1 << 32), count)
        left -= count
    assert not wrong, "\n".join(wrong)


def _batch(folder: Path, seed: int, count: int) -> list[str]:
    """Make calls in a process of their own; return what is wrong, each with its call."""
    ran = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", python_calls.__name__, str(seed), str(count)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "LANESCOPE_RUNS": "runs"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    wrong = [f"{one['wrong']}\n  {one['call']}" for one in found]
    if ran.returncode:
        last = (folder / "last").read_text() if (folder / "last").exists() else "nothing"
        wrong.append(f"the process ended with {ran.returncode} in {last}\n{ran.stderr[-3000:]}")
    return wrong


def test_everything_public_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new function or class has a call here that is right, and what may stand in it."""
    public = {name for name in lanescope.__all__ if callable(getattr(lanescope, name))}
    errors = {n for n in public if _is(getattr(lanescope, n), LanescopeError)}
    enums = {n for n in public if hasattr(getattr(lanescope, n), "__members__")}
    monkeypatch.setattr(python_calls.channel, "require_gpus", lambda *gpus: None)
    for name in ("current_stream", "new_array"):  # which `calls` replaces
        monkeypatch.setattr(python_calls.channel, name, getattr(python_calls.channel, name))
    for name in ("copy_to_gpu", "copy_to_host", "current_stream", "new_host_array"):
        monkeypatch.setattr(python_calls.arrays, name, getattr(python_calls.arrays, name))
    known = python_calls.calls()
    assert public - errors - enums <= known.keys()
    for name, (target, given) in known.items():
        for argument in python_calls.inspect.signature(target).parameters:
            assert python_calls.right_at(name, argument) is not None
        for argument, value in given.items():
            assert python_calls.right_at(name, argument)(value), (name, argument)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, type) and issubclass(value, kind)
