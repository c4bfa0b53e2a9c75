"""Copies of a process by its trace, and by its calls where that is missing: each counts once."""

import dataclasses

import numpy as np
import pytest

from lanescope.machine import Machine
from lanescope.trace import store
from lanescope.trace.codes import MemoryKind, OperationCode
from lanescope.trace.spool_records import (
    CALLS,
    CUT_SHORT,
    OPERATIONS,
    RecordKind,
    count_record,
    text_record,
)
from lanescope.trace.store import read_spools
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import CALL_TIMES, Counters, Operations, Process, Timeline
from lanescope.trace.trace_stream import Coverage, Coverages

START = 1_795_000_000 * 10**9
MS = 1_000_000
PID, THREAD = 7, 70
EACH_NS = 100_000
SIZE = 1 << 20


def copies(numbers, *, thread=THREAD, calls=True, waits_ns=20_000, pid=PID):
    """Copies to the GPU, of which the call of number n begins at n times 100 µs.

    The call lasts 10 µs, and the GPU begins so long after its beginning.
    """
    numbers = np.asarray(numbers)
    called = START + numbers * EACH_NS
    return Operations.of(
        pid=np.full(numbers.size, pid),
        what=np.full(numbers.size, OperationCode.COPY),
        start_ns=called + waits_ns,
        end_ns=called + waits_ns + 30_000,
        bytes=np.full(numbers.size, SIZE),
        source_kind=np.full(numbers.size, MemoryKind.PINNED),
        destination_kind=np.full(numbers.size, MemoryKind.DEVICE),
        source_device=np.full(numbers.size, -1),
        thread=np.full(numbers.size, thread if calls else -1),
        call_start_ns=called if calls else np.zeros(numbers.size, np.int64),
        call_end_ns=called + 10_000 if calls else np.zeros(numbers.size, np.int64),
    )


def called(numbers, thread=THREAD):
    """The same as calls tell them: within those of the runtime that a trace tells."""
    found = copies(numbers, thread=thread)
    inner = found.call_start_ns + 1000
    return dataclasses.replace(
        found, start_ns=inner, end_ns=inner, call_start_ns=inner, call_end_ns=inner + 5000
    )


def numbers_of(operations):
    return ((operations.call_start_ns[:] - START) // EACH_NS).tolist()


def coverage(*traced, complete=True, cut_short=False):
    found = Coverage(PID, START)
    for one in traced:
        found.add(one)
    end = START + 10**9 if complete else None
    found.end(Process(PID, "x", START, end, complete=complete), cut_short=cut_short)
    return found


def missing(found, *calls):
    numbers = [number for one in calls for number in numbers_of(found.only_missing(one))]
    found.end(Process(PID, "x", START, START + 10**9, timed_by=CALL_TIMES))
    return numbers, found.result()


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("calls", [True, False])
def test_no_copy_of_a_whole_trace_counts_again(complete, calls):
    found = coverage(copies(range(500), calls=calls), complete=complete)
    numbers, process = missing(found, called(range(500)))
    assert numbers == []
    assert (process.traced_until_ns, process.calls_after) == (None, False)


@pytest.mark.parametrize(
    ("complete", "cut_short"), [(True, True), (False, False)], ids=["taken over", "killed"]
)
def test_what_came_after_the_last_traced_copy_is_of_the_calls(complete, cut_short):
    found = coverage(copies(range(100)), copies(range(100, 300)), complete=complete)
    found.cut_short = cut_short
    numbers, process = missing(found, called(range(250)), called(range(250, 500)))
    assert numbers == list(range(300, 500))
    assert process.traced_until_ns == START + 300 * EACH_NS + 1000
    assert process.calls_after
    assert process.timed_by == "gpu"


def test_copies_that_were_lost_at_the_edge_are_found_one_by_one():
    """The profiler that takes over gets what was not written: some are older than the last one."""
    traced = [number for number in range(300) if number not in (270, 281, 298)]
    numbers, _ = missing(coverage(copies(traced), cut_short=True), called(range(320)))
    assert numbers == [270, 281, 298, *range(300, 320)]


def test_long_queues_of_the_gpu_hide_no_call():
    """The last traced copy ran half a second after its call; the calls went on meanwhile."""
    found = coverage(copies(range(100), waits_ns=500 * MS), cut_short=True)
    assert missing(found, called(range(200)))[0] == list(range(100, 200))


def test_threads_are_compared_each_with_its_own_calls():
    other = THREAD + 1
    found = coverage(copies(range(200)), copies(range(150), thread=other), cut_short=True)
    numbers, _ = missing(found, called(range(210)), called(range(160), thread=other))
    assert numbers == [*range(200, 210), *range(150, 160)]


def test_a_profiler_that_let_go_again_leaves_a_trace_that_claims_to_be_whole():
    numbers, process = missing(coverage(copies(range(100))), called(range(200)))
    assert numbers[-1] == 199
    assert numbers == list(range(numbers[0], 200))
    assert 100 <= numbers[0] <= 112  # 1 ms after the last one
    assert process.calls_after


def test_without_calls_in_the_trace_only_what_is_surely_later_counts():
    found = coverage(copies(range(100), calls=False), cut_short=True)
    numbers, _ = missing(found, called(range(200)))
    assert numbers == list(range(numbers[0], 200))
    assert 100 <= numbers[0] <= 112


def test_where_nothing_was_traced_all_copies_are_of_the_calls():
    numbers, process = missing(coverage(cut_short=True), called(range(200)))
    assert numbers == list(range(200))
    assert process.timed_by == CALL_TIMES
    assert (process.traced_until_ns, process.calls_after) == (START, True)
    numbers, process = missing(coverage(), called(range(200)))  # a spool of ranges alone
    assert numbers == list(range(200))
    assert process.traced_until_ns is None


def test_without_calls_it_is_known_since_when_the_trace_is_missing():
    process = coverage(copies(range(100)), cut_short=True).result()
    assert process.traced_until_ns == START + 99 * EACH_NS + 20_000
    assert not process.calls_after


def test_calls_go_to_the_trace_that_began_with_them():
    """A process that becomes another program has its number still."""
    found = Coverages()
    for begin in (START, START + 10**9):
        one = found.of_trace(PID, begin)
        one.end(Process(PID, f"{begin}", begin))
    assert found.of_calls(PID, START + 9 * 10**8).start_ns == START + 10**9
    assert found.of_calls(PID + 1, START).process is None


# ---- Spools, in memory and piece by piece ----


def write_spool(path, operations, *, header="", flags=None):
    rows = np.zeros(len(operations), OPERATIONS)
    rows["head"]["kind"], rows["head"]["size"] = RecordKind.OPERATION, OPERATIONS.itemsize
    for name in ("start_ns", "end_ns", "bytes", "what", "source_kind", "destination_kind"):
        rows[name] = getattr(operations, name)
    rows["source_device"] = -1
    rows["correlation"] = np.arange(1, len(operations) + 1)
    calls = np.zeros(len(operations), CALLS)
    calls["head"]["kind"], calls["head"]["size"] = RecordKind.CALL, CALLS.itemsize
    calls["start_ns"], calls["end_ns"] = operations.call_start_ns, operations.call_end_ns
    calls["thread"], calls["correlation"] = operations.thread, rows["correlation"]
    line = f'{{"source": "trace", "version": 1, "pid": {PID}, "command": ["x"]{header}'
    end = b"" if flags is None else count_record(RecordKind.END, START + 10**9, len(rows), flags)
    line += f', "start_ns": {START}}}\n'
    name = text_record(RecordKind.STRING, 1, "cuMemcpyHtoD")
    path.write_bytes(line.encode() + name + calls.tobytes() + rows.tobytes() + end)


@pytest.mark.parametrize("in_memory", [True, False])
def test_spools_of_both_are_one_process(tmp_path, monkeypatch, in_memory):
    if not in_memory:
        monkeypatch.setattr(store, "MOST_BYTES_IN_MEMORY", 0)
    write_spool(tmp_path / f"trace.{PID}.bin", copies(range(300)), flags=CUT_SHORT)
    of_calls = ', "timed_by": "calls"'
    path = tmp_path / f"trace.{PID}.1.calls.bin"
    write_spool(path, called(range(500)), header=of_calls, flags=0)
    found = read_spools(tmp_path, Machine("m"), START, START + 10**9)
    (process,) = found.processes
    assert process.calls_after
    assert len(found.operations) == 500
    assert sorted(set(numbers_of(found.operations))) == list(range(500))
    assert numbers_of(found.timed_operations) == list(range(300))
    assert np.all(np.diff(found.operations.start_ns) >= 0)


# ---- What is said of it ----


def counted(gaps=()):
    """A copy of 1 MiB each 100 µs for 60 ms, and nothing else but what a packet needs."""
    ends = START + np.arange(601) * EACH_NS
    wire = np.full(ends.size, round(SIZE * (1 + 12 / 256)))
    sent = np.full(ends.size, round(SIZE / 16) + 92)
    known = np.arange(ends.size) > 0
    return Counters("pm", 0, EACH_NS, ends, wire, sent, known, own=np.zeros(ends.size, bool))


def summary(operations, process):
    end = START + 600 * EACH_NS
    return summarise(Timeline(START, end, (counted(),), operations, (process,)))


def test_the_span_is_said_and_its_copies_explain_what_was_counted():
    process = Process(PID, "x", START, START + 600 * EACH_NS)
    process = dataclasses.replace(process, traced_until_ns=START + 300 * EACH_NS, calls_after=True)
    both = Operations.concat([copies(range(300)), called(range(300, 600))])
    found = summary(both, process)
    (note,) = [note for note in found.notes if "CUPTI's trace" in note]
    assert note.startswith(
        f"CUPTI's trace of process {PID} is missing from second 0.03 to 0.06: its copies there are "
        "those that it called for"
    )
    assert found.directions[0].unattributed_bytes == 0
    assert found.directions[0].untraced_bytes is None
    assert found.by_call_times


def test_what_nothing_tells_of_does_not_count_as_unexplained():
    process = Process(PID, "x", START, START + 600 * EACH_NS)
    whole = summary(copies(range(300)), process)
    assert whole.directions[0].unattributed_bytes == pytest.approx(300 * SIZE, rel=0.01)
    cut = dataclasses.replace(process, traced_until_ns=START + 300 * EACH_NS)
    found = summary(copies(range(300)), cut)
    assert found.directions[0].unattributed_bytes == 0
    assert found.directions[0].untraced_bytes == pytest.approx(300 * SIZE, rel=0.01)
    text = " ".join(found.notes)
    assert "is missing from second 0.03 to 0.06: nothing tells what it copied there" in text
    assert "were counted meanwhile that no copy explains" in text


def test_what_is_unexplained_elsewhere_stays_so():
    process = Process(PID, "x", START, START + 400 * EACH_NS, traced_until_ns=START + 200 * EACH_NS)
    found = summary(copies(range(200)), process)  # and 200 behind its end, which are nobody's
    assert found.directions[0].untraced_bytes == pytest.approx(200 * SIZE, rel=0.01)
    assert found.directions[0].unattributed_bytes == pytest.approx(200 * SIZE, rel=0.02)


def test_spans_of_several_processes_are_joined():
    def cut(pid, begin, end):
        return Process(pid, "x", START, end, traced_until_ns=begin)

    processes = (cut(1, 50, 70), cut(2, 10, 20), cut(3, 60, 90), cut(4, 95, None))
    assert Timeline(0, 100, processes=processes).untraced_spans_ns.tolist() == [
        10,
        20,
        50,
        90,
        95,
        100,
    ]
