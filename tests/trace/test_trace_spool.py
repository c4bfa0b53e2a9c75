import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.trace.timeline import DirectionCode, MemoryKind
from lanescope.trace.trace_spool import read_notes, read_trace_spool

HEADER = {"source": "trace", "version": 1, "pid": 12, "command": ["a b", "c"], "start_ns": 5}


def _read(path):
    trace = read_trace_spool(path)
    return trace.operations, trace.process


def header(**changed: object) -> bytes:
    return json.dumps(HEADER | changed).encode() + b"\n"


def operation(start: int, correlation: int, size: int = 8, name: int = 0, flags: int = 0) -> bytes:
    numbers = (0xFFFFFFFF, 0, 0, 1, 7, correlation, name, 1, 0, 0)
    times = (0, 0) if flags else (start, start + 10)
    return struct.pack("<HHI3QI4B10I", 1, flags, 80, *times, size, 0, 1, 2, 3, 1, *numbers)


def call(start: int, correlation: int, thread: int = 99, name: int = 0) -> bytes:
    return struct.pack("<HHI2Q4I", 3, 0, 40, start, start + 4, correlation, thread, name, 0)


def text(kind: int, identity: int, words: str) -> bytes:
    content = words.encode()
    padded = content + bytes(-len(content) % 8)
    return struct.pack("<HHIII", kind, 0, 16 + len(padded), identity, len(content)) + padded


def count(kind: int, at: int, records: int) -> bytes:
    return struct.pack("<HHIQQ", kind, 0, 24, at, records)


def write(folder: Path, content: bytes) -> Path:
    path = folder / "trace.12.bin"
    path.write_bytes(content)
    return path


def test_operations_are_ordered_and_joined_with_their_calls(tmp_path: Path) -> None:
    parts = [
        header(),
        text(2, 1, "cudaMemcpyAsync"),
        text(2, 2, "cuMemcpyHtoDAsync"),
        operation(300, 2),
        operation(100, 1, size=1),
        call(95, 1, name=2),  # the driver's call within the runtime's
        call(90, 1, name=1),
        operation(200, 3),
        count(5, 1000, 5),
    ]
    ops, process = _read(write(tmp_path, b"".join(parts)))
    assert ops.start_ns.tolist() == [100, 200, 300]
    assert ops.bytes.tolist() == [1, 8, 8]
    assert ops.thread.tolist() == [99, -1, -1]
    assert ops.call_start_ns.tolist() == [90, 0, 0]
    assert [ops.names[i] for i in ops.name.tolist()] == ["cudaMemcpyAsync", "", ""]
    assert set(ops.direction.tolist()) == {DirectionCode.H2D}
    assert set(ops.pid.tolist()) == {12}
    assert (process.pid, process.command, process.start_ns) == (12, "'a b' c", 5)
    assert (process.end_ns, process.complete, process.lost_records) == (1000, True, 0)


def test_losses_notes_and_unfinished_operations_are_told(tmp_path: Path) -> None:
    parts = [count(4, 1, 3), text(6, 0, "weg"), operation(1, 1, flags=1), count(4, 9, 4)]
    trace = read_trace_spool(write(tmp_path, header(visible_devices="1") + b"".join(parts)))
    assert trace.process.lost_records == 7
    assert trace.notes == ("weg",)
    assert read_notes(tmp_path / "trace.12.bin") == ("weg",)
    assert (trace.unfinished, len(trace.operations)) == (1, 0)
    assert trace.visible_devices == "1"


def test_an_empty_spool(tmp_path: Path) -> None:
    ops, process = _read(write(tmp_path, header()))
    assert len(ops) == 0
    assert not process.complete


def test_records_of_kinds_to_come_are_passed_over(tmp_path: Path) -> None:
    unknown = struct.pack("<HHIQ", 77, 0, 16, 0)
    ops, _ = _read(write(tmp_path, header() + unknown + operation(1, 1) + unknown))
    assert len(ops) == 1


def test_kinds_of_memory_of_a_newer_cuda_are_unknown(tmp_path: Path) -> None:
    new = bytearray(operation(1, 1))
    new[37] = 99  # where it came from
    ops, _ = _read(write(tmp_path, header() + bytes(new) + operation(2, 2)))
    assert ops.source_kind.tolist()[0] == MemoryKind.UNKNOWN
    assert ops.direction.tolist() == [DirectionCode.H2D, DirectionCode.H2D]  # the device says it


def test_a_damaged_number_of_a_name_takes_no_memory(tmp_path: Path) -> None:
    content = header() + text(2, 0xFFFFFFFF, "far") + operation(1, 1, name=0xFFFFFFFF)
    ops, _ = _read(write(tmp_path, content))
    assert ops.names[ops.name[0]] == "far"


def test_a_name_whose_record_is_missing_is_none(tmp_path: Path) -> None:
    ops, _ = _read(write(tmp_path, header() + operation(1, 1, name=5)))
    assert ops.name.tolist() == [0]


@given(st.lists(st.sampled_from("oscen"), max_size=60), st.integers(0, 90))
def test_a_cut_spool_holds_what_is_whole(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], cut: int
) -> None:
    made = {
        "o": operation(1, 0),
        "s": text(2, 1, "name"),
        "c": call(1, 1),
        "e": count(4, 1, 1),
        "n": text(6, 0, "note"),
    }
    parts = [made[kind] for kind in kinds]
    content = b"".join(parts)
    kept = content[: max(len(content) - cut, 0)]
    whole, length = [], 0
    for kind, part in zip(kinds, parts, strict=True):
        length += len(part)
        if length <= len(kept):
            whole.append(kind)
    trace = read_trace_spool(write(tmp_path_factory.mktemp("cut"), header() + kept))
    assert len(trace.operations) == whole.count("o")
    assert trace.process.lost_records == whole.count("e")
    assert len(trace.notes) == whole.count("n")


@given(st.binary(max_size=300))
def test_damage_is_no_traceback(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    read_trace_spool(write(tmp_path_factory.mktemp("junk"), header() + operation(1, 1) + junk))


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[]\n", b"\xff\n", header(version=2), b"{"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"trace\.12\.bin"):
        _read(write(tmp_path, content))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        _read(tmp_path / "none")


def test_long_runs_are_read_at_once(tmp_path: Path) -> None:
    content = header() + operation(1, 0) * 5000 + call(1, 1) * 5000 + operation(2, 0) * 17
    ops, _ = _read(write(tmp_path, content))
    assert np.array_equal(ops.start_ns, [1] * 5000 + [2] * 17)
