"""Background threads of a command: the driver's start, and modules that are needed later."""

from __future__ import annotations

import contextlib
import sys
import threading

import pytest

from lanescope._core import native
from lanescope.cli import own_process
from lanescope.cli.app import app
from lanescope.cli.own_process import load_what_shows_a_run, start_driver
from lanescope.errors import LanescopeError


@pytest.fixture
def callers(monkeypatch):
    """Names of the threads that call CUDA, which finds no GPU."""
    names = []

    def devices():
        names.append(threading.current_thread().name)
        return []

    monkeypatch.setattr(native, "cuda_devices", devices)
    return names


def ended(name):
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


@pytest.mark.parametrize("verb", [("bench",), ("check", "--list")])
def test_the_driver_starts_while_modules_load(callers, monkeypatch, tmp_path, verb):
    monkeypatch.setenv("LANESCOPE_RUNS", str(tmp_path))
    with contextlib.suppress(LanescopeError, SystemExit):
        app([*verb], standalone_mode=False)
    ended("lanescope-driver")
    assert "lanescope-driver" in callers


def test_a_described_machine_needs_no_driver(callers, capsys):
    app(["check", "--machine", "h200-x2", "--list"], standalone_mode=False)
    assert callers == []


def test_a_failure_in_the_background_is_reported_by_the_caller(monkeypatch, capsys):
    def devices():
        raise native.NativeError("cudaGetDeviceCount")

    monkeypatch.setattr(native, "cuda_devices", devices)
    monkeypatch.setattr(own_process, "SHOWS_A_RUN", ("lanescope.no_such_module",))
    for thread in (start_driver(), load_what_shows_a_run()):
        thread.join()
    assert capsys.readouterr().err == ""


def test_no_thread_more_costs_time_alone(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert load_what_shows_a_run() is None


def test_what_shows_a_run_is_there():
    load_what_shows_a_run().join()
    assert set(own_process.SHOWS_A_RUN) <= set(sys.modules)
