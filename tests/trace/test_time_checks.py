"""What cannot be is left out and counted, and work does not grow with the time of a watch."""

import dataclasses
import json

import numpy as np
import pytest

from lanescope._core import native
from lanescope.machine import Machine, NumaNode
from lanescope.trace import columns, counter_spool, stored_columns, time_checks
from lanescope.trace.columns import write_columns
from lanescope.trace.counter_spool import RECORD, counter_header
from lanescope.trace.run import WatchManifest
from lanescope.trace.store import read_watch
from lanescope.trace.stored_columns import StoredColumn
from lanescope.trace.summarise import summarise
from lanescope.trace.time_checks import MARGIN_NS, TimeWindow, impossible_note
from lanescope.trace.timeline import (
    Counters,
    MemoryKind,
    OperationCode,
    Operations,
    Process,
    Timeline,
)
from lanescope.trace.watch_folder import WatchFolder
from lanescope.trace.windows import WindowSplitter

S = 10**9
DAY = 86_400 * S
START = 1_700_000_000 * S
MACHINE = Machine(name="one", nodes=(NumaNode(0, cores=((0,),)),))


def copies(starts, lasted_ns=S // 1000, **more):
    starts = np.asarray(starts)
    n = starts.size
    return Operations.of(
        pid=np.full(n, 5),
        what=np.full(n, OperationCode.COPY),
        start_ns=starts,
        end_ns=starts + lasted_ns,
        bytes=np.full(n, 1 << 20),
        source_kind=np.full(n, MemoryKind.PINNED),
        destination_kind=np.full(n, MemoryKind.DEVICE),
        source_device=np.full(n, -1),
        **more,
    )


def counted(ends, **more):
    n = len(ends)
    one = np.ones(n, np.int64)
    known = np.ones(n, np.bool_)
    return Counters("pm", 0, S, np.asarray(ends), 100 * one, 10 * one, known, **more)


def test_equal_windows_of_a_month_are_few_runs():
    seen = []
    splitter = WindowSplitter(10_000, 0, lambda *run: seen.append(run))
    ends = np.cumsum(np.tile([DAY // 4 + 1, 1_000_003], 60))
    splitter.add(0, ends, np.stack((ends, ends, np.diff(ends, prepend=0)), axis=1).astype(float))
    splitter.close()
    assert sum(numbers.size for numbers, _, _ in seen) < 5 * ends.size
    assert sum(int(times.sum()) for _, _, times in seen) == int(ends[-1]) // 10_000 + 1
    numbers = np.concatenate([numbers for numbers, _, _ in seen])
    assert np.all(np.diff(numbers) > 0)


def test_a_month_with_few_copies_is_summed_up():
    month = 30 * DAY
    operations = copies(START + np.arange(120) * (month // 120))
    told = summarise(Timeline(START, START + month, (), operations, (Process(5, "x", START),)))
    rates = next(direction for direction in told.directions if direction.direction == "h2d").rates
    assert rates.payload_bytes == 120 << 20
    finest = rates.windows[0]
    assert (finest.windows, finest.busy_windows) == (month // 10_000, 120 * 100)


#: The process of `copies`.
APP = Process(5, "x", START)
WRONG = {
    "before the watch": (START - MARGIN_NS - 1, 1),
    "after its end": (START + 10 * S + MARGIN_NS, 1),
    "an end before its begin": (START + S, -2),
    "before 1970": (-5, 1),
    "in the year 2200": (2**62 + 1, 1),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
def test_what_cannot_be_is_left_out_of_a_stored_watch(wrong, long, tmp_path, monkeypatch):
    at, lasted = WRONG[wrong]
    right = START + np.arange(1, 4) * S
    operations = Operations.concat([copies(right), copies([at], lasted)])
    folder = stored(tmp_path / "run", Timeline(START, START + 10 * S, (), operations, (APP,)))
    if long:
        monkeypatch.setattr(columns, "MOST_IN_MEMORY", 2)
    run = read_watch(folder)
    assert np.asarray(run.timeline.operations.start_ns[:]).tolist() == right.tolist()
    assert run.timeline.impossible == 1
    assert impossible_note(1) in summarise(run.timeline).notes
    assert impossible_note(1).startswith("One record was left out whose times cannot be")
    assert not list(folder.glob(".operations*"))


def manifest_of(timeline):
    at = "2026-01-01T00:00:00+00:00"
    return WatchManifest("w", (), at, "1", MACHINE, timeline.start_ns, timeline.end_ns)


def stored(folder, timeline):
    """Write a watch as lanescope did that looked at no times."""
    manifest = manifest_of(timeline)
    made = WatchFolder(folder, manifest)
    write_columns(folder, timeline)
    made.update(manifest)
    made.spool.joinpath("limits").unlink()
    made.spool.rmdir()
    return folder


def test_counters_that_went_back_are_read(tmp_path):
    ends = [1, 2, 3, 900, 4, 5, 6]  # of one the clock was wrong
    told = counted(START + np.array(ends) * S)
    folder = stored(tmp_path / "run", Timeline(START, START + 1000 * S, (told,)))
    run = read_watch(folder)
    (kept,) = run.timeline.counters
    assert ((kept.end_ns - START) // S).tolist() == [1, 2, 3, 4, 5, 6]
    assert kept.known.tolist() == [True, True, True, False, True, True]
    assert run.timeline.impossible == 1


def test_a_watch_that_ended_before_it_began_is_read(tmp_path):
    operations = copies([START + S])
    seen = Timeline(START, START - 3600 * S, (), operations, (APP,))
    folder = stored(tmp_path / "run", seen)
    run = read_watch(folder)
    assert run.timeline.end_ns == START + S + S // 1000
    assert any("The clock was set back" in note for note in run.manifest.notes)
    assert run.timeline.seconds > 0


def test_a_watch_of_years_is_refused(tmp_path):
    folder = stored(tmp_path / "run", Timeline(START, START + 500 * DAY))
    with pytest.raises(Exception, match="years from 'start_ns'"):
        read_watch(folder)


@pytest.mark.parametrize("from_spool", [False, True], ids=["columns", "spool"])
def test_long_counters_are_filtered_as_short_ones_are(from_spool, tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    ends = START + np.arange(3000) * S // 300
    wrong = random.random(ends.size) < 0.02
    wrong[[0, 99, 100, 2999]] = True  # also at edges of what is worked on at once
    ends[wrong] += random.choice([-400 * DAY, -5 * S, 5 * S, 400 * DAY], int(wrong.sum()))
    ends[wrong] = np.maximum(ends[wrong], 0)
    told = dataclasses.replace(counted(ends, own=random.random(ends.size) < 0.5), lost_samples=3)
    seen = Timeline(START, START + 10 * S, (told,))
    if from_spool:
        folder = WatchFolder(tmp_path / "run", manifest_of(seen)).folder
        records = np.zeros(ends.size, RECORD)
        records["end_ns"] = ends.astype(np.uint64) | (told.own.astype(np.uint64) << np.uint64(63))
        records["rx_bytes"], records["tx_bytes"] = told.rx_bytes, told.tx_bytes
        header = counter_header("pm", 0, S, own=True).encode()
        (folder / "spool" / "pm.g0.bin").write_bytes(header + records.tobytes())
    else:
        folder = stored(tmp_path / "run", seen)
    (short,) = read_watch(folder).timeline.counters
    for module in (columns, counter_spool):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(time_checks, "_TIMES", 100)
    monkeypatch.setattr(stored_columns, "MOST_ROWS", 70)
    monkeypatch.setattr(stored_columns, "MOST_AT_ONCE", 0)
    run = read_watch(folder)
    (long,) = run.timeline.counters
    assert isinstance(long.end_ns, StoredColumn)
    assert run.timeline.impossible == ends.size - len(short) > 0
    for name in ("end_ns", "rx_bytes", "tx_bytes", "known", "own"):
        assert np.array_equal(getattr(short, name), np.asarray(getattr(long, name))), name
    assert np.all(np.diff(short.end_ns) >= 0)


@pytest.mark.parametrize("own", [False, True], ids=["any time", "own times"])
@pytest.mark.parametrize("wrong", [[], [0, 700]], ids=["right", "wrong"])
def test_a_watch_ends_with_the_counters_that_are_stored(own, wrong, tmp_path, monkeypatch):
    ends = START + np.arange(3000) * S // 300
    ends[wrong] -= DAY
    made = WatchFolder(tmp_path / "run", manifest_of(Timeline(START, START + 10 * S)))
    records = np.zeros(ends.size, RECORD)
    records["end_ns"] = ends.astype(np.uint64) | np.uint64(own << 63)
    records["rx_bytes"] = np.arange(ends.size)
    records["tx_bytes"][::97] = records["rx_bytes"][::97] = 0xFFFFFFFF
    for gpu in (0, 1):
        header = counter_header("pm", gpu, S, own=own).encode()
        (made.spool / f"pm.g{gpu}.bin").write_bytes(header + records.tobytes())
    for module in (columns, counter_spool):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", 0)
    ended = made.finish(manifest_of(Timeline(START, START + 10 * S))).timeline
    stored = read_watch(made.folder).timeline
    assert ended.impossible == stored.impossible == 2 * len(wrong)
    for one, other in zip(ended.counters, stored.counters, strict=True):
        assert len(one) == len(other) == ends.size - len(wrong)
        assert isinstance(one.end_ns, np.ndarray)  # it is not decoded again
        assert isinstance(other.end_ns, StoredColumn)
        for field in dataclasses.fields(Counters):
            found, expected = getattr(one, field.name), getattr(other, field.name)
            assert np.array_equal(found, np.asarray(expected)), field.name
    assert not made.spool.exists()


def test_long_counters_that_are_right_stay_in_their_file(tmp_path, monkeypatch):
    folder = stored(tmp_path / "run", Timeline(START, START + 10 * S, (counted([START + S] * 9),)))
    monkeypatch.setattr(columns, "MOST_IN_MEMORY", 0)
    monkeypatch.setattr(time_checks, "SortedRows", None)
    assert len(read_watch(folder).timeline.counters[0]) == 9


def test_a_stored_watch_reports_what_was_left_out(tmp_path):
    folder = stored(tmp_path / "run", Timeline(START, START + 10 * S))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "impossible": 7}))
    assert read_watch(folder).timeline.impossible == 7


def test_a_call_that_cannot_be_is_not_known():
    rows = copies([START, START + S], call_start_ns=[START - 5, 7], call_end_ns=[START, 9])
    span = TimeWindow(START, START + 10 * S)
    assert span.operations(rows).call_start_ns.tolist() == [START - 5, 0]
    assert span.left_out == 0


HOUR = 3600 * S


@pytest.mark.parametrize("step", [HOUR, -HOUR, 400 * DAY, -400 * DAY, S, -S])
@pytest.mark.parametrize("age", [0, 20_000_000, S // 2])
def test_times_of_drivers_are_read_right_after_a_step(step, age):
    now = START
    for told in (now - age, now - age + step):  # of a clock that nobody sets; of the system's
        if told > now and told - step != now - age:
            continue
        assert native.testing.told_time(told, step, now) == now - age


def test_driver_times_stay_without_a_clock_step():
    assert native.testing.told_time(START, 900, START) == START
