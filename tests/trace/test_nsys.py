import sqlite3

import numpy as np
import pytest

from lanescope.errors import InputError
from lanescope.findings.trace import evaluate_watch
from lanescope.trace.codes import DirectionCode, MemoryKind, OperationCode
from lanescope.trace.nsys import read_nsys
from lanescope.trace.timeline import OpenRanges
from tests.trace.nsys_captures import (
    EPOCH,
    LAYOUTS,
    MS,
    PID,
    TABLES,
    TID,
    US,
    Layout,
    capture,
    capture_of,
    copy,
    thread,
)

MEMCPY, RUNTIME = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME"


@pytest.fixture
def run(tmp_path):
    return read_nsys(capture(tmp_path / "capture.sqlite"))


def test_operations_have_exact_times_in_their_order(run):
    operations = run.timeline.operations
    assert operations.what.tolist() == [
        OperationCode.MEMSET,
        OperationCode.COPY,
        OperationCode.KERNEL,
        OperationCode.COPY,
        0,
        3,
    ]
    assert operations.start_ns[1] == EPOCH + 10 * MS
    assert operations.end_ns[1] == EPOCH + 18 * MS
    assert (run.timeline.start_ns, run.timeline.end_ns) == (EPOCH, EPOCH + 100 * MS)
    assert run.timeline.counters == ()


def test_directions_and_kinds_of_memory(run):
    moved = run.timeline.operations.rows(run.timeline.operations.moves)
    assert [DirectionCode(d) for d in moved.direction] == [
        DirectionCode.H2D,
        DirectionCode.D2H,
        DirectionCode.P2P,
        DirectionCode.H2D,
    ]
    assert [MemoryKind(k) for k in moved.host_memory] == [
        MemoryKind.PINNED,
        MemoryKind.PAGEABLE,
        MemoryKind.UNKNOWN,
        MemoryKind.MANAGED,
    ]
    assert moved.bytes.tolist() == [400_000_000, 400_000_000, 1 << 20, 65536]


def test_gpus_are_those_of_the_machine_not_of_the_process(run):
    moved = run.timeline.operations.rows(run.timeline.operations.moves)
    assert moved.device.tolist() == [1, 1, 1, 1]
    assert moved.source_device.tolist() == [-1, 1, 1, -1]
    assert moved.destination_device.tolist() == [1, -1, 0, 1]
    gpu = run.manifest.machine.gpus[1]
    assert (gpu.index, gpu.name, gpu.compute_capability) == (1, "H200", (9, 0))


def test_calls_tell_threads_names_and_who_waited(run):
    called = run.timeline.operations.rows(np.array([1, 2, 3, 4]))
    assert [called.names[n] for n in called.name] == [
        "cudaMemcpyAsync_v3020",
        "void add<float>(float*)",
        "cudaMemcpy_v3020",
        "",
    ]
    assert called.thread.tolist() == [TID, TID, TID, -1]
    assert called.asynchronous.tolist() == [True, True, False, True]
    assert called.call_start_ns.tolist() == [EPOCH + 9 * MS, EPOCH + 19 * MS, EPOCH + 29 * MS, 0]
    assert called.call_end_ns[0] == EPOCH + 9 * MS + 5 * US


def test_the_manifest_tells_where_it_comes_from(run):
    manifest = run.manifest
    assert manifest.program == ("./app",)
    assert manifest.machine.name == "node17"
    assert manifest.started.startswith("2026-11-")
    assert "nsys 2024.6.2.225" in manifest.tool_version
    assert manifest.notes[0] == "Read from capture.sqlite: no counters, and so no wire bytes."
    assert "3 of 6 operations have no call" in manifest.notes[1]
    (process,) = run.timeline.processes
    assert (process.pid, process.command) == (PID, "./app")


def test_the_summary_is_that_of_any_watch(run, tmp_path):
    told = evaluate_watch(run, tmp_path)
    down = next(w for w in told.summary.directions if (w.gpu, w.direction) == (1, "h2d"))
    assert down.traced_bytes == 400_000_000 + 65536
    assert any(f.kind == "synchronous-copies" for f in told.findings)


def test_other_versions_lack_tables_and_columns(tmp_path):
    path = capture(
        tmp_path / "old.sqlite",
        without=tuple(set(TABLES) - {MEMCPY, RUNTIME}),
        without_columns={
            MEMCPY: ("globalPid", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId", "streamId")
        },
        **{
            MEMCPY: [copy(10 * MS, MS, 64, 1, (1, 2), 10), copy(20 * MS, MS, 64, 8, (2, 2), 11)],
            RUNTIME: [(9 * MS, 9 * MS + US, 0, (PID << 24) | TID, 10, 1, 0, None)],
        },
    )
    run = read_nsys(path)
    operations = run.timeline.operations
    assert operations.pid.tolist() == [PID, PID]
    assert operations.direction.tolist() == [DirectionCode.H2D, DirectionCode.D2D]
    assert operations.host_memory.tolist() == [MemoryKind.UNKNOWN] * 2
    assert (run.timeline.start_ns, run.timeline.end_ns) == (10 * MS, 21 * MS)
    assert run.timeline.processes[0].command == f"process {PID}"
    assert [gpu.index for gpu in run.manifest.machine.gpus] == [0]
    assert any("time of day is not known" in note for note in run.manifest.notes)
    assert evaluate_watch(run, tmp_path).summary.directions


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.version)
def test_an_export_of_each_version_says_the_same(layout: Layout, tmp_path):
    run = read_nsys(capture_of(tmp_path / "capture.sqlite", layout))
    timeline = run.timeline
    moved = timeline.operations.rows(timeline.operations.moves)
    down, up, peer = DirectionCode.H2D, DirectionCode.D2H, DirectionCode.P2P
    assert [DirectionCode(d) for d in moved.direction] == [down, up, peer, down]
    pinned, pageable, unknown = MemoryKind.PINNED, MemoryKind.PAGEABLE, MemoryKind.UNKNOWN
    kinds = [MemoryKind(k) for k in moved.host_memory]
    assert kinds == [pinned, pageable, unknown, MemoryKind.MANAGED]
    assert (timeline.start_ns, timeline.end_ns) == (EPOCH, EPOCH + 100 * MS)
    assert timeline.impossible == 0
    assert run.manifest.tool_version.endswith(f"nsys {layout.version}")
    assert run.manifest.machine.name == "node17"
    tells_gpus = "TARGET_INFO_GPU" not in layout.without
    assert set(moved.device.tolist()) == ({1} if tells_gpus else {0})
    names = [gpu.name for gpu in run.manifest.machine.gpus]
    assert names == (["H200", "H200"] if tells_gpus else ["unknown GPU"])


def test_the_first_versions_name_gpus_otherwise_and_no_version(tmp_path):
    path = capture(tmp_path / "old.sqlite", without=("TARGET_INFO_GPU", "META_DATA_EXPORT"))
    with sqlite3.connect(path) as database:
        columns = "vmId INTEGER, deviceId INTEGER, name TEXT, busLocation TEXT, isDiscrete INTEGER"
        database.execute(f"CREATE TABLE TARGET_INFO_GPU ({columns})")
        row = (0, 0, "A100-PCIE-40GB", "0000:99:00.0", 1)
        database.execute("INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?, ?)", row)
    database.close()
    manifest = read_nsys(path).manifest
    (gpu,) = manifest.machine.gpus
    assert (gpu.index, gpu.name, gpu.pci_address) == (0, "A100-PCIE-40GB", "0000:99:00.0")
    assert "nsys" not in manifest.tool_version


def test_calls_without_operations_are_no_missing_option(tmp_path):
    activities = tuple(t for t in TABLES if t.startswith("CUPTI") and t != RUNTIME)
    path = capture(tmp_path / "calls.sqlite", without=activities)
    with pytest.raises(InputError, match="nothing that a GPU did: the program used none, or"):
        read_nsys(path)


def test_an_export_numbers_kinds_as_its_own_tables_say(tmp_path):
    path = capture(
        tmp_path / "other.sqlite",
        ENUM_CUDA_MEMCPY_OPER=[(40, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host")],
        ENUM_CUDA_MEM_KIND=[(73, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned")],
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy(10 * MS, MS, 64, 40, (2, 73), 10)],
    )
    operations = read_nsys(path).timeline.operations
    copies = operations.rows(operations.is_copy)
    assert copies.direction.tolist() == [DirectionCode.D2H]
    assert copies.host_memory.tolist() == [MemoryKind.PINNED]


def test_a_capture_without_copies_says_so(tmp_path):
    run = read_nsys(capture(tmp_path / "kernels.sqlite", without=(MEMCPY,)))
    assert any(f"no table {MEMCPY}" in note for note in run.manifest.notes)
    assert len(run.timeline.operations) == 2


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
def test_an_operation_of_another_year_is_left_out(told, tmp_path):
    rows = [copy(10 * MS, MS, 64, 1, (2, 1), 10), copy(12 * MS, MS, 64, 1, (2, 1), 11)]
    rows.append(copy(10**18, MS, 64, 1, (2, 1), 12))
    without = () if told else ("ANALYSIS_DETAILS",)
    path = tmp_path / "far.sqlite"
    capture(path, without=without, **{MEMCPY: rows})
    timeline = read_nsys(path).timeline
    assert np.count_nonzero(timeline.operations.is_copy) == 2
    assert timeline.impossible == 1
    assert timeline.seconds < 60


@pytest.mark.parametrize(
    ("at", "begins", "ends"), [(-5 * MS, -5 * MS, 100 * MS), (99 * MS, 0, 107 * MS)]
)
def test_a_copy_at_an_edge_of_the_capture_lengthens_it_and_no_more(at, begins, ends, tmp_path):
    copies = [copy(at, 8 * MS, 400_000_000, 1, (1, 2), 10)]
    timeline = read_nsys(capture(tmp_path / "edge.sqlite", **{MEMCPY: copies})).timeline
    assert (timeline.start_ns, timeline.end_ns) == (EPOCH + begins, EPOCH + ends)


def test_empty_tables_are_a_capture_without_operations(tmp_path):
    activities = {t: [] for t in TABLES if t.startswith("CUPTI")}
    assert len(read_nsys(capture(tmp_path / "empty.sqlite", **activities)).timeline.operations) == 0


def without_size(path):
    """Take the sizes out of a capture's copies."""
    with sqlite3.connect(path) as database:
        database.execute(f"ALTER TABLE {MEMCPY} RENAME COLUMN bytes TO other")
        database.execute(f"ALTER TABLE {MEMCPY} ADD COLUMN bytes INTEGER")
    database.close()


def test_one_sentence_says_what_is_wrong(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("mine")
    nothing = capture(
        tmp_path / "cpu.sqlite", without=tuple(t for t in TABLES if t.startswith("CUPTI"))
    )
    bare = capture(tmp_path / "bare.sqlite", without_columns={MEMCPY: ("bytes", "copyKind")})
    odd = capture(
        tmp_path / "odd.sqlite",
        CUPTI_ACTIVITY_KIND_MEMCPY=[("soon", *copy(1, 1, 1, 1, (1, 2), 1)[1:])],
    )
    parts, negative, huge, unknown = (
        capture(tmp_path / f"{name}.sqlite", **{MEMCPY: [copy(1, 1, size, 1, (1, 2), 1)]})
        for name, size in (("parts", 1.5), ("negative", -5), ("huge", 2**63 - 1), ("unknown", 7))
    )
    without_size(unknown)
    whole = capture(tmp_path / "whole.sqlite").read_bytes()
    began = {"TARGET_INFO_SESSION_START_TIME": [(-(10**18), "", "")]}
    early = capture(tmp_path / "early.sqlite", **began)
    named = tmp_path / "named.sqlite"
    named.write_bytes(whole.replace(b"CREATE TABLE", b"CREATE TABL\xc1"))
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes(whole[: len(whole) // 3])
    for path, words in (
        (text, "nsys export --type sqlite REPORT"),
        (tmp_path / "none.sqlite", "is no SQLite export"),
        (named, "is damaged or cut short"),
        (early, "its time is before 1970"),
        (nothing, f"no table {MEMCPY}"),
        (bare, f"the table {MEMCPY} has no column bytes, copyKind"),
        (odd, "something else than whole numbers"),
        (parts, "MEMCPY holds something else than whole numbers"),
        (unknown, "MEMCPY holds something else than whole numbers"),
        (negative, "MEMCPY has an operation of -5 bytes, which none has"),
        (huge, f"MEMCPY has an operation of {2**63 - 1} bytes, which none has"),
        (cut, "damaged or cut short"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            read_nsys(path)
        assert "\n" not in str(caught.value)
        assert path.name in str(caught.value)


def test_a_gpu_of_an_absurd_number_is_read_as_any_other(tmp_path):
    copies = [copy(1, 1, 64, 1, (1, 2), 1, device=number) for number in (-(2**63), 1)]
    none = {table: [] for table in TABLES if table.startswith("CUPTI")}
    run = read_nsys(capture(tmp_path / "far.sqlite", **none | {MEMCPY: copies}))
    directions = evaluate_watch(run).summary.directions
    assert sum(one.traced_bytes or 0 for one in directions) == 128


def test_an_export_of_which_a_part_is_in_a_log_is_refused(tmp_path):
    path = capture(tmp_path / "capture.sqlite")
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"DELETE FROM {MEMCPY}")
    database.commit()
    with pytest.raises(
        InputError, match=r"part of .* is in capture\.sqlite-wal: close the program"
    ):
        read_nsys(path)
    database.close()  # which writes it back
    assert len(read_nsys(path).timeline.operations) < len(
        read_nsys(capture(tmp_path / "whole.sqlite")).timeline.operations
    )


def test_an_export_is_left_as_it_was(tmp_path):
    path = capture(tmp_path / "capture.sqlite")
    before = path.read_bytes()
    read_nsys(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["capture.sqlite"]


def test_nvtx_ranges_with_their_domains_and_registered_texts(tmp_path):
    path = capture(tmp_path / "capture.sqlite")
    columns = "start, end, eventType, text, globalTid, domainId, textId"
    rows = [
        (0, None, 75, "data", thread(PID, TID), 3, None),
        (8 * MS, 28 * MS, 59, "step", thread(PID, TID), 0, None),
        (9 * MS - US, 9 * MS + US, 59, None, thread(PID, TID), 3, 900),
        (1 * MS, None, 60, "epoch", thread(PID, 1), 0, None),
        (2 * MS, None, 34, "a mark", thread(PID, TID), 0, None),
    ]
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE NVTX_EVENTS ({columns})")
        database.execute("INSERT INTO StringIds VALUES (900, 'load')")
        for row in rows:
            database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.close()
    told = read_nsys(path).timeline
    assert sorted(told.ranges.names) == ["data:load", "epoch", "step"]
    opened = OpenRanges(told.ranges)
    names, code = opened.names, opened.codes(told.operations)
    in_range = dict(zip(told.operations.bytes.tolist(), code.tolist(), strict=True))
    assert names[in_range[65536]] == "epoch"
    copied = np.flatnonzero(told.operations.is_copy)[:2]
    assert [names[i] for i in code[copied].tolist()] == ["data:load", "epoch"]


def test_an_export_without_ranges(run):
    assert not len(run.timeline.ranges)
