"""Programs whose calls are recorded, with a driver for tests and no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lanescope.trace.trace_spool import Trace, read_trace_spool
from lanescope.trace.watch_folder import RINGS
from lanescope.watching.sources import SourceReport, injection
from lanescope.watching.sources.calls import CallsSource, calls_library
from tests.native.programs import program
from tests.patience import PATIENCE_S

needs_calls = pytest.mark.skipif(calls_library() is None, reason="needs an installed lanescope")

# What a test program begins with: the driver for tests says by addresses what is whose memory.
BEGIN = """
import ctypes, os, signal, sys, threading
cuda = ctypes.CDLL(os.environ["MOCK_CUDA"])
GPU0, GPU1 = 1 << 46, (1 << 46) + (1 << 40)
U64, P, SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
host = ctypes.create_string_buffer(1 << 20)
at = ctypes.addressof(host)
def found(name, version=12000, flags=0):
    function = P()
    cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), version, U64(flags), None)
    return ctypes.CFUNCTYPE(ctypes.c_int, U64, U64, SIZE, P)(function.value)
def to_gpu(size, gpu=GPU0, times=1):
    for _ in range(times):
        assert cuda.cuMemcpyHtoD_v2(U64(gpu), P(at), SIZE(size)) == 0
"""

Ended = tuple["subprocess.CompletedProcess[str]", SourceReport]
Run = Callable[..., Ended]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallsSource:
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path,))
    return CallsSource(tmp_path)


def environment_of(source: CallsSource) -> dict[str, str]:
    return {**os.environ, **source.environment(), "MOCK_CUDA": str(program("mock_cuda"))}


@contextmanager
def waiting(source: CallsSource, text: str) -> Iterator[Waiting]:
    """Run a program that prints a line and reads one, by turns, from its first line on."""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + text],
        env=environment_of(source),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield Waiting(process)


class Waiting:
    """A program that waits for a line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._read()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def go_on(self) -> None:
        """Let it run until it waits again."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        self._read()

    def end(self) -> None:
        """Let it run to its end."""
        self._process.communicate(b"\n\n", timeout=PATIENCE_S)


@pytest.fixture
def run(source: CallsSource, tmp_path: Path) -> Run:
    def run_program(text: str) -> Ended:
        source.start()
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + text],
            env=environment_of(source),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        report = source.stop()
        assert not (tmp_path / RINGS).exists()
        assert not done.stderr, done.stderr
        return done, report

    return run_program


def read_one(folder: Path) -> Trace:
    (path,) = folder.glob("trace.*.bin")
    return read_trace_spool(path)
