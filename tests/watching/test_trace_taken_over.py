"""Programs that are traced and lose their trace, with a driver and a libcupti for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope._core import native
from lanescope.machine import Machine
from lanescope.trace.store import read_spools
from lanescope.trace.timeline import CALL_TIMES, GPU_CLOCK, Timeline
from lanescope.watching.requests import SourceRequest, sources_of_program
from lanescope.watching.sources import injection
from lanescope.watching.sources.calls import CallsSource
from lanescope.watching.sources.trace import TraceSource
from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.watching.injected import WAITING, needs_injection
from tests.watching.recording import BEGIN, needs_calls

pytestmark = [needs_injection, needs_calls]

# Copies whose calls go through the driver for tests, and which the libcupti for tests has traced.
COPYING = """
cupti = ctypes.CDLL(os.environ["LANESCOPE_CUPTI"])
inject = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
assert inject.InitializeInjection() == 1
SIZE_OF_EACH = 4096
call = ctypes.CFUNCTYPE(None)(lambda: to_gpu(SIZE_OF_EACH))
def copies(count):
    for _ in range(count):
        cupti.mock_copy_around(call, U64(SIZE_OF_EACH))
"""

Watched = Callable[..., Timeline]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Run a program that is traced and whose calls are recorded; return all that is known of it."""
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    cupti = program("mock_cupti")
    monkeypatch.setenv("LANESCOPE_CUPTI", str(cupti))

    def run(text: str, code: int = 0, **variables: str) -> Timeline:
        begin = native.watch_time_ns()
        sources = sources_of_program(SourceRequest(trace=True), tmp_path)
        assert [source.name for source in sources] == ["calls", "trace"]
        environment = {**os.environ, "MOCK_CUDA": str(program("mock_cuda")), **variables}
        for source in sources:
            source.start()
            environment |= source.environment()
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + WAITING + COPYING + text],
            env={**environment, "LANESCOPE_TRACE_FLUSH_MS": "10"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (code, "")
        for source in sources:
            source.stop()
        return read_spools(tmp_path, Machine("m"), begin, native.watch_time_ns())

    return run


def test_a_program_that_is_left_alone_has_each_copy_once_by_the_gpu(watched: Watched) -> None:
    found = watched("copies(50)")
    assert found.operations.bytes.tolist() == [4096] * 50
    (process,) = found.processes
    assert (process.timed_by, process.traced_until_ns) == (GPU_CLOCK, None)
    assert len(found.timed_operations) == 50
    assert not found.has_call_times


@pytest.mark.parametrize("lets_go", ["", "\ncupti.cuptiUnsubscribe(None)"])
def test_what_a_profiler_takes_is_there_by_its_calls(watched: Watched, lets_go: str) -> None:
    text = "copies(30)\nwritten()\nassert cupti.mock_profile() == 0\ntime.sleep(.01)\ncopies(20)"
    found = watched(text + lets_go)
    assert found.operations.bytes.tolist() == [4096] * 50
    (process,) = found.processes
    assert process.calls_after
    assert len(found.timed_operations) == 30
    assert process.traced_until_ns == int(found.operations.call_start_ns[30])


def test_where_a_profiler_was_there_before_all_are_by_their_calls(watched: Watched) -> None:
    found = watched("copies(50)", MOCK_CUPTI_FAIL="cuptiSubscribe:39")
    assert found.operations.bytes.tolist() == [4096] * 50
    (process,) = found.processes
    assert process.timed_by == CALL_TIMES
    assert process.traced_until_ns == process.start_ns
    assert len(found.timed_operations) == 0


def test_what_a_killed_program_had_not_written_is_there_by_its_calls(watched: Watched) -> None:
    found = watched(
        "copies(30)\nwritten()\ncupti.mock_profile()\ncopies(20)\nos.kill(os.getpid(), 9)", -9
    )
    assert found.operations.bytes.tolist() == [4096] * 50
    (process,) = found.processes
    assert process.calls_after
    assert not process.complete


def test_a_trace_that_cannot_begin_leaves_the_calls(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under nsys, which has its own library loaded into programs."""
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so")
    calls, traced = sources_of_program(SourceRequest(trace=True), tmp_path)
    assert not traced.available(Machine("m")).ok
    assert calls.available(Machine("m")).ok


def test_calls_that_stand_in_for_a_trace_are_missed_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    for fallback in (True, False):
        folder = tmp_path / f"{fallback}"
        folder.mkdir()
        source = CallsSource(folder, is_fallback=fallback)
        source.start()
        assert (source.stop().reason is None) is fallback


def test_notes_of_calls_are_not_those_of_the_trace(tmp_path: Path) -> None:
    (tmp_path / "trace.7.1.calls.bin").write_text("no spool")
    assert "No process of the program" in (TraceSource(tmp_path).stop().reason or "")
