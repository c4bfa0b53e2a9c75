"""What copies were passed, and what managed memory did, traced without a GPU."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.trace.columns import read_columns, write_columns
from lanescope.trace.side_tables import ManagedKind
from lanescope.trace.timeline import DirectionCode, Timeline
from lanescope.trace.trace_spool import Trace
from tests.native.programs import program
from tests.patience import PATIENCE_S
from tests.watching.injected import WAITING, environment, needs_injection, read_one

BEGIN = (
    WAITING
    + """
import ctypes, mmap, os, sys, threading
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p
cupti = ctypes.CDLL(os.environ["LANESCOPE_CUPTI"])
inject = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
assert inject.InitializeInjection() == 1
def copy(source, size, destination=1 << 40, result=0):
    cupti.mock_copy_of(c_void_p(destination), c_void_p(source), c_size_t(size), result)
def back(destination, size, asynchronous=0, stream=0):
    cupti.mock_copy_back(c_void_p(destination), c_void_p(1 << 40), c_size_t(size), asynchronous,
                         c_void_p(stream))
def wait(stream=0, all=0):
    cupti.mock_wait(c_void_p(stream), all)
buffer = ctypes.create_string_buffer(b"a" * 1000, 1 << 20)
at = ctypes.addressof(buffer)
"""
)

Run = Callable[..., Trace]

pytestmark = needs_injection


@pytest.fixture(scope="session")
def cupti() -> Path:
    return program("mock_cupti")


@pytest.fixture
def run(cupti: Path, tmp_path: Path) -> Run:
    def run_program(text: str, kinds: str, **variables: str) -> Trace:
        done = subprocess.run(
            [sys.executable, "-c", BEGIN + text],
            env=environment(cupti, tmp_path, {"LANESCOPE_TRACE_KINDS": kinds, **variables}),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return read_one(tmp_path)

    return run_program


@pytest.fixture
def pinned() -> str:
    """Return a program's beginning: a megabyte that the driver says is pinned."""
    return f"""
driver = ctypes.CDLL({str(program("mock_cuda"))!r})
held = mmap.mmap(-1, 1 << 20)
pinned = ctypes.addressof(ctypes.c_char.from_buffer(held))
driver.mock_pinned(c_uint64(pinned), c_uint64(1 << 20), 1)
"""


def test_a_copy_of_the_runtime_and_the_driver_is_told_once(run: Run) -> None:
    trace = run("copy(at, 100); copy(at + 8, 50, 77)", "copy,address")
    told = trace.host_copies
    assert trace.notes == ()
    assert told.bytes.tolist() == [100, 50]
    assert told.destination.tolist() == [1 << 40, 77]
    assert (told.source[1] - told.source[0]) == 8
    assert told.correlation.tolist() == trace.operations.correlation.tolist()
    assert told.hashed.tolist() == [0, 0]


def test_nothing_is_told_without_being_asked(run: Run) -> None:
    trace = run("copy(at, 100)", "copy,call")
    assert (len(trace.host_copies), len(trace.operations)) == (0, 1)


def test_a_call_that_failed_is_not_read(run: Run) -> None:
    trace = run("copy(16, 100, result=1); copy(at, 10)", "copy,hash")
    assert trace.host_copies.bytes.tolist() == [10]


def test_hashes_tell_whether_content_changed(run: Run) -> None:
    trace = run(
        """
copy(at, 1000); copy(at, 1000)
buffer[999] = b"b"; copy(at, 1000)
buffer[999] = b"a"; copy(at, 1000)
copy(at, 999)
other = ctypes.create_string_buffer(b"a" * 1000, 1000); copy(ctypes.addressof(other), 1000)
""",
        "copy,hash",
    )
    first, same, changed, back, shorter, elsewhere = trace.host_copies.hash.tolist()
    assert first == same == back == elsewhere
    assert len({first, changed, shorter}) == 3
    assert trace.host_copies.hashed.tolist() == [1] * 6


def test_of_data_that_changes_in_part_it_is_known_how_much_is_the_same(run: Run) -> None:
    trace = run(
        """
import random
size, other = 100_000, 1 << 41
data = random.Random(1).randbytes(size)
buffer[:size] = data
copy(at, size)                                      # nothing was sent before
copy(at, size)
buffer[5000] = bytes([data[5000] ^ 1]); copy(at, size)
buffer[99_999] = bytes([data[99_999] ^ 1]); copy(at, size)
copy(at, size, other)                               # to another place, of the same size
buffer[:size] = random.Random(2).randbytes(size); copy(at, size)
copy(at, size, other)                               # what was sent last is the same here, too
copy(at, 65_535); copy(at, 65_535)                  # too little to be looked at
ctypes.memset(at, 0, 90_112); copy(at, size); copy(at, size)
buffer[99_999] = bytes([buffer[99_999][0] ^ 1]); copy(at, size)
ctypes.memset(at, 7, 90_112); copy(at, size)        # another word
ctypes.memset(at, 0, size); copy(at, size); copy(at, size)
""",
        "copy,hash",
    )
    whole, part = 100_000, 4096
    last = whole % part  # of the last part
    rest = 2 * part + last  # 22 parts of zeros say nothing
    assert trace.host_copies.same_bytes.tolist() == [
        *(0, whole, whole - part, 24 * part, whole, 0, whole),
        *(0, 0, rest, whole, whole * 2 * part // rest, rest, 0, 0),
    ]


def test_contents_of_copies_back_are_known_once_they_are_there(run: Run) -> None:
    driver = program("mock_cuda")
    trace = run(
        f"""
driver = ctypes.CDLL({str(driver)!r})
copy(at, 1000)                       # 0: sent
back(at, 1000)                       # 1: a call that waits
back(at, 1000, 1, 5)                 # 2: pageable, so that the call waits, too
driver.mock_pinned(c_uint64(at), c_uint64(1 << 20), 1)
back(at, 1000, 1, 5); wait(5)        # 3, and again once it is there
back(at, 1000, 1, 5); wait(6)        # 4: another stream was waited for
wait(all=1)                          # 4 again
back(at, 1000, 1, 5)                 # 5: nobody waits
""",
        "copy,content",
    )
    found = trace.host_copies
    assert found.hashed.tolist() == [1, 1, 1, 0, 1, 0, 1, 0]
    assert found.correlation[3] == found.correlation[4]
    assert found.correlation[5] == found.correlation[6]
    known = found.hash[found.hashed == 1]
    assert len(set(known.tolist())) == 1


@pytest.mark.parametrize("gone", ["driver.mock_pinned(c_uint64(0), c_uint64(0), 1)", ""])
def test_what_came_back_to_memory_that_is_gone_is_not_read(
    run: Run, pinned: str, gone: str
) -> None:
    # the driver knows of it no more, or does still: another thread may free it meanwhile
    trace = run(
        pinned
        + f"""
back(pinned, 100_000, 1, 5)
assert ctypes.CDLL(None).munmap(c_void_p(pinned + 65536), c_size_t(4096)) == 0
{gone}
wait(5)
""",
        "copy,content",
    )
    assert trace.host_copies.hashed.tolist() == [0]


def test_what_came_back_is_hashed_as_what_is_sent(run: Run, pinned: str) -> None:
    sizes = [0, 1, 63, 64, 65, 65535, 65536, 65537, 200_003]
    trace = run(
        pinned
        + f"""
held[:] = bytes(i * 7 % 251 for i in range(1 << 20))
for size in {sizes}:
    copy(pinned + 3, size)
    back(pinned + 3, size, 1, 5)
    wait(5)
""",
        "copy,content",
    )
    found = trace.host_copies
    assert found.hashed.tolist() == [1, 0, 1] * len(sizes)
    assert found.hash[::3].tolist() == found.hash[2::3].tolist()
    assert len(set(found.hash[::3].tolist())) == len(sizes)


def test_memory_that_is_used_again_before_a_wait_says_nothing(run: Run, pinned: str) -> None:
    # the program waited for an event, say, and may have changed what came
    trace = run(
        pinned
        + """
back(pinned, 1000, 1, 5)        # 0: into this memory something else comes
back(pinned + 999, 1000, 1, 5)  # 1: sent, which may be before it has come
copy(pinned + 1998, 1000)       # 2: maybe not what was there when it was sent
copy(pinned + 1998, 1000)       # 3: nothing is under way any more
back(pinned + 5000, 1000, 1, 5)
copy(pinned + 4000, 1000); copy(pinned + 6000, 1000)  # beside it
wait(5)
""",
        "copy,content",
    )
    assert trace.host_copies.hashed.tolist() == [0, 0, 0, 1, 0, 1, 1, 1]


WAITED, NOT_WAITED = [0, 1], [0]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # a wait for all of a context, or for its default stream, says nothing of another one's
        ("back(pinned, 9, 1, 5); cupti.mock_context(2); wait(all=1)", NOT_WAITED),
        ("back(pinned, 9, 1, 0); cupti.mock_context(2); wait(0)", NOT_WAITED),
        ("back(pinned, 9, 1, 5); cupti.mock_context(2); wait(5)", WAITED),
        # the default stream is another one in programs that have one for each thread
        ("cupti.mock_per_thread(1); back(pinned, 9, 1, 0); wait(0)", WAITED),
        ("cupti.mock_per_thread(1); back(pinned, 9, 1, 0); wait(2)", WAITED),
        ("cupti.mock_per_thread(1); back(pinned, 9, 1, 0); wait(1)", NOT_WAITED),
        ("back(pinned, 9, 1, 0); cupti.mock_per_thread(1); wait(0)", NOT_WAITED),
        ("back(pinned, 9, 1, 0); wait(1)", WAITED),
        ("back(pinned, 9, 1, 5); cupti.mock_wait_for_device()", WAITED),
        ("copy(pinned, 9); cupti.mock_wait_for_device()", [1]),
        # a stream that is made later may get the handle
        ("back(pinned, 9, 1, 5); cupti.mock_destroy(c_void_p(5)); wait(5)", NOT_WAITED),
    ],
)
def test_copies_back_are_those_of_the_stream_that_was_waited_for(
    run: Run, pinned: str, calls: str, expected: list[int]
) -> None:
    trace = run(pinned + calls, "copy,content")
    assert trace.host_copies.hashed.tolist() == expected


def test_copies_that_nobody_waits_for_keep_no_others_from_being_read(run: Run, pinned: str) -> None:
    trace = run(
        pinned
        + """
for i in range(100):
    back(pinned + 8 * i, 8, 1, 5)
back(pinned + 8000, 8, 1, 6)
wait(6)
""",
        "copy,content",
    )
    assert trace.host_copies.hashed.tolist() == [0] * 101 + [1]


def test_contents_are_read_within_a_budget_alone(run: Run) -> None:
    trace = run(
        """
large = mmap.mmap(-1, 1 << 30)  # one page of zeros, as often as there is memory
there = ctypes.addressof(ctypes.c_char.from_buffer(large))
copy(there, 1 << 30); copy(at, 1000)
""",
        "copy,content",
    )
    assert trace.host_copies.hashed.tolist() == [0, 1]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33")
def test_what_is_remembered_of_contents_is_not_on_the_programs_heap(run: Run) -> None:
    """Blocks above a program's arrays would keep the C library from giving pages back."""
    trace = run(
        """
libc = ctypes.CDLL(None)
class Info(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost").split()]
libc.mallinfo2.restype = Info
size = len(buffer)
copy(at, size)
before = libc.mallinfo2().uordblks
for number in range(400): copy(at, size, destination=(2 << 40) + number * size)
grown = libc.mallinfo2().uordblks - before
copy(at, 1 + grown)  # the bytes of the last copy tell it
""",
        "copy,hash",
    )
    *_, last = trace.host_copies.bytes.tolist()
    assert len(trace.host_copies) == 402
    assert last - 1 < 400 * (1 << 20) // 4096 * 8 / 4  # a quarter of what the hashes of parts take


def test_hashes_are_of_what_is_sent_alone(run: Run) -> None:
    trace = run("copy(at, 1000); back(at, 1000)", "copy,hash")
    assert trace.host_copies.hashed.tolist() == [1, 0]


def test_blocks_that_change_places_are_another_content(run: Run) -> None:
    trace = run(
        """
one = bytes(range(64)) + bytes(64) + bytes(8) + b"x" * 8
two = bytes(64) + bytes(range(64)) + b"x" * 8 + bytes(8)
for content in (one, two, bytes(144), bytes(143)):
    held = ctypes.create_string_buffer(content, len(content))
    copy(ctypes.addressof(held), len(content))
""",
        "copy,hash",
    )
    assert len(set(trace.host_copies.hash.tolist())) == 4


def test_memory_that_is_slow_to_read_is_not_hashed(run: Run) -> None:
    driver = program("mock_cuda")
    trace = run(
        f"""
driver = ctypes.CDLL({str(driver)!r})
portable, write_combined = 1, 4
copy(at, 1000)
for flags in (portable, portable | write_combined):
    driver.mock_pinned(c_uint64(at), c_uint64(1000), flags); copy(at, 1000)
""",
        "copy,hash",
    )
    assert trace.host_copies.hashed.tolist() == [1, 1, 0]


def test_a_process_tells_the_addresses_of_its_gpus(run: Run) -> None:
    trace = run(f"ctypes.CDLL({str(program('mock_cuda'))!r}); copy(at, 1000)", "copy")
    assert trace.gpus == {0: "0000:C1:00.0", 1: "0000:0A:00.0"}


def test_a_process_without_a_driver_tells_no_addresses(run: Run) -> None:
    assert run("copy(at, 1000)", "copy").gpus == {}


def test_nodes_of_pages_are_asked_and_can_be_left_out(run: Run, tmp_path: Path) -> None:
    text = """
fresh = mmap.mmap(-1, 1 << 20)  # never written to: it has no page
hole = ctypes.addressof(ctypes.c_char.from_buffer(fresh))
copy(at, 100); copy(hole, 100); copy(8, 100)
for _ in range(2000): copy(at, 1)
"""
    trace = run(text, "copy,address")
    nodes = trace.host_copies.node.tolist()
    assert nodes[0] in (-1, 0, 1, 2, 3)  # some containers forbid to ask
    assert nodes[1:3] == [-1, -1]
    assert set(nodes[3:]) == {nodes[0]}


def test_nodes_can_be_left_out(run: Run) -> None:
    trace = run("copy(at, 100)", "copy,address", LANESCOPE_TRACE_NODES="0")
    assert trace.host_copies.node.tolist() == [-1]


def test_where_cupti_refuses_copies_are_traced_all_the_same(run: Run) -> None:
    trace = run("copy(at, 100)", "copy,address", MOCK_CUPTI_FAIL="cuptiEnableCallback:1")
    assert trace.operations.bytes.tolist() == [100]
    assert "tracing of addresses failed" in trace.notes[0]


def test_many_calls_without_flushes_lose_nothing(run: Run) -> None:
    trace = run("for n in range(40_000): copy(at, 8)", "copy,address", LANESCOPE_TRACE_FLUSH_MS="0")
    assert len(trace.host_copies) == 40_000
    assert trace.process.lost_records == 0


def test_migrations_and_faults_of_managed_memory(run: Run, tmp_path: Path) -> None:
    trace = run(
        """
until(cupti.mock_migrations_enabled)
host, gpu = 0xFFFFFFFF, 3
for kind, value, source, target in (
    (1, 65536, host, gpu), (2, 4096, gpu, host), (4, 7, gpu, 0), (3, 12345, 0, 0)
):
    cupti.mock_managed(
        kind, c_uint64(value), c_uint64(1 << 33), c_uint(source), c_uint(target))
""",
        "copy,migration",
        LANESCOPE_TRACE_FLUSH_MS="20",
    )
    managed = trace.managed
    assert [ManagedKind(k) for k in managed.kind.tolist()] == [
        ManagedKind.TO_GPU,
        ManagedKind.FROM_GPU,
        ManagedKind.GPU_FAULT,
        ManagedKind.CPU_FAULT,
    ]
    assert managed.value.tolist() == [65536, 4096, 7, 1]
    assert managed.device.tolist() == [3, 3, 3, -1]
    assert managed.address.tolist() == [1 << 33] * 4
    moved = trace.operations
    assert moved.direction.tolist() == [DirectionCode.H2D, DirectionCode.D2H]
    span = int(managed.start_ns[0]), int(managed.start_ns[-1])
    told = Timeline(*span, managed=managed, host_copies=trace.host_copies)
    write_columns(tmp_path, told)
    again = read_columns(tmp_path, *span)
    assert again.managed.value.tolist() == [65536, 4096, 7, 1]
    assert not len(again.host_copies)
