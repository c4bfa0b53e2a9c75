import json
import os
from pathlib import Path

import pytest

from lanescope._core import native
from lanescope.errors import NotMeasuredError
from lanescope.watching.sources import injection, trace
from lanescope.watching.sources.trace import TraceSource
from tests.trace.test_trace_spool import text


@pytest.fixture(autouse=True)
def machine_with_a_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("driver", "inject.so", "libcupti.so.13"):
        (tmp_path / name).touch()
    monkeypatch.setattr(injection, "_DRIVERS", (tmp_path / "driver",))
    monkeypatch.setattr(trace, "injection_library", lambda: tmp_path / "inject.so")


def source(folder: Path, **variables: str) -> TraceSource:
    named = {"LANESCOPE_CUPTI": str(folder / "libcupti.so.13"), **variables}
    return TraceSource(folder, environment=named)


def test_a_program_is_told_where_everything_is(tmp_path: Path) -> None:
    available = source(tmp_path)
    assert available.available().ok
    available.start()
    assert available.environment() == {
        "NVTX_INJECTION64_PATH": str(tmp_path / "inject.so"),
        "CUDA_INJECTION64_PATH": str(tmp_path / "inject.so"),
        "LANESCOPE_CUPTI": str(tmp_path / "libcupti.so.13"),
        "LANESCOPE_TRACE_FOLDER": str(tmp_path),
        "LANESCOPE_TRACE_KINDS": "copy,memset,call,range",
        "LANESCOPE_TRACE_FLUSH_MS": "100",
        "LANESCOPE_TRACE_CLOCK": str(native.watch_clock_ahead_ns()),
    }


def test_another_profiler_is_left_its_place(tmp_path: Path) -> None:
    taken = source(tmp_path, CUDA_INJECTION64_PATH="/opt/nsys/libToolsInjection64.so")
    with pytest.raises(NotMeasuredError, match="Another profiler") as caught:
        taken.start()
    assert "libToolsInjection64.so" in caught.value.reason
    assert "Unset CUDA_INJECTION64_PATH" in (caught.value.remedy or "")


def test_without_cupti_it_says_what_to_install(tmp_path: Path) -> None:
    missing = source(tmp_path, LANESCOPE_CUPTI="/nowhere").available()
    assert not missing.ok
    assert missing.reason == "LANESCOPE_CUPTI names /nowhere, which is no file."
    assert "pip install nvidia-cuda-cupti" in (missing.remedy or "")
    assert source(tmp_path, LANESCOPE_CUPTI="/nowhere").environment() == {}


def test_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "_DRIVERS", ())
    assert source(tmp_path).available().reason == "There is no NVIDIA driver."


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'tea' cannot be traced"):
        TraceSource(tmp_path, kinds=("copy", "tea"))


def test_a_program_without_cuda_is_told(tmp_path: Path) -> None:
    report = source(tmp_path).stop()
    assert "none has used CUDA" in (report.reason or "")


def test_a_program_that_takes_other_rights_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "other-rights"
    program.touch()
    source = TraceSource(tmp_path, environment={"PATH": str(tmp_path)}, program=(program.name,))
    owner = os.stat(program)
    for other in (False, True):
        monkeypatch.setattr(os, "getuid", lambda other=other: owner.st_uid + other)
        monkeypatch.setattr(os, "getgid", lambda other=other: owner.st_gid + other)
        for mode, right in ((0o755, False), (0o4755, True), (0o2755, True)):
            program.chmod(mode)
            told = source.stop().reason or ""
            assert ("takes the rights of another user" in told) == (right and other)


def test_what_a_process_could_not_trace_is_told(tmp_path: Path) -> None:
    header = b'{"source": "trace", "version": 1, "pid": 5, "command": ["a"], "start_ns": 1}\n'
    (tmp_path / "trace.4.bin").write_bytes(header)
    assert source(tmp_path).stop().reason is None
    note = b"\x06\0\0\0\x18\0\0\0\0\0\0\0\x07\0\0\0nothing\0"
    (tmp_path / "trace.5.bin").write_bytes(header + note)
    assert source(tmp_path).stop().reason == "nothing (1 of 2 processes.)"


def spool(folder: Path, pid: int, *notes: str) -> None:
    header = {"source": "trace", "version": 1, "pid": pid, "command": ["a"], "start_ns": 5}
    records = b"".join(text(6, 0, note) for note in notes)
    (folder / f"trace.{pid}.bin").write_bytes(json.dumps(header).encode() + b"\n" + records)


def test_each_note_is_told_once_with_the_processes_it_concerns(tmp_path: Path) -> None:
    spool(tmp_path, 10)
    spool(tmp_path, 11, "Rare.")
    for pid in range(12, 15):
        spool(tmp_path, pid, "Often.")
    told = source(tmp_path).stop().reason
    assert told == "Often. (3 of 5 processes.) Rare. (1 of 5 processes.)"


def test_the_note_of_the_only_process_is_told_as_it_is(tmp_path: Path) -> None:
    spool(tmp_path, 10, "Once.", "Twice.")
    assert source(tmp_path).stop().reason == "Once. Twice."


def test_of_very_many_notes_the_most_frequent_are_told(tmp_path: Path) -> None:
    spool(tmp_path, 10, *(f"Note {number}." for number in range(8)))
    told = source(tmp_path).stop().reason or ""
    assert told.count("Note") == 5
    assert told.endswith("And 3 more notes.")
