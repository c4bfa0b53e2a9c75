"""A watch without an end, by a source that makes its records up."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import types
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from lanescope._core import native
from lanescope.errors import InputError
from lanescope.machine import Gpu, Link, Machine, NumaNode, PcieLink
from lanescope.machine.files import dumps_machine
from lanescope.store.folder import RunFolder, State
from lanescope.trace import segments
from lanescope.trace.counter_spool import RECORD, counter_header
from lanescope.trace.link_error_log import LinkErrors
from lanescope.trace.segments import prune, read_last, recover, segments_in, write_segment
from lanescope.trace.store import read_watch
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Counters, Timeline
from lanescope.trace.watch_folder import WatchManifest
from lanescope.watching import continuous, segment_writer
from lanescope.watching.continuous import ContinuousWatch, address_of, metrics_of, serving
from lanescope.watching.segment_writer import LiveFindings, SegmentWriter
from lanescope.watching.session import NotStoredError, Watch, watch
from lanescope.watching.sources import Availability, SourceReport, WatchSource
from tests.patience import PATIENCE_S, until

MS = 1_000_000
MACHINE = Machine(
    "node", nodes=(NumaNode(0, ((0,),)),), gpus=tuple(Gpu(i, "GPU", node=0) for i in range(8))
)


class Simulated:
    """Appends some bytes to each GPU and 500 from it every ms, for some seconds.

    The first `lasting` GPUs go on after that.
    """

    name = "pm"

    def __init__(
        self,
        folder: Path,
        gpus: int = 2,
        seconds: float = 1e9,
        received: int = 1000,
        lasting: int = 0,
    ) -> None:
        self._folder, self._gpus, self._seconds = folder, gpus, seconds
        self._received, self._lasting = received, lasting
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def available(self, machine: Machine, *, thorough: bool = False) -> Availability:
        return Availability(True)

    def prepare(self) -> None:
        pass

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> SourceReport:
        self._ended.set()
        self._thread.join()
        return SourceReport()

    def environment(self) -> Mapping[str, str]:
        return {}

    def _run(self) -> None:
        files = [(self._folder / f"pm.g{gpu}.bin").open("ab", 0) for gpu in range(self._gpus)]
        begun = end_ns = native.watch_time_ns()
        for gpu, file in enumerate(files):
            file.write(counter_header("pm", gpu, MS).encode())
            file.write(np.array((end_ns, 2**32 - 1, 2**32 - 1), RECORD).tobytes())
        while not self._ended.wait(0.01):
            going = files[: self._lasting] if end_ns > begun + self._seconds * 1e9 else files
            records = np.zeros((native.watch_time_ns() - end_ns) // MS, RECORD)
            records["end_ns"] = end_ns + MS * np.arange(1, records.size + 1)
            records["rx_bytes"], records["tx_bytes"] = self._received, 500
            end_ns += MS * records.size
            for file in going:
                file.write(records.tobytes())
        for file in files:
            file.close()


def watch_of(folder: Path, make: Callable[[Path], WatchSource]) -> ContinuousWatch:
    def sources(machine: Machine, spool: Path) -> Sequence[WatchSource]:
        return [make(spool)]

    return ContinuousWatch(
        folder, 3600 * 10**9, 1 << 30, lambda: MACHINE, sources, "lanescope watch"
    )


def run_for(wanted: ContinuousWatch, writer: SegmentWriter, enough: Callable[[], bool]) -> int:
    """Keep until something holds; return the number of restarts."""
    restarts: list[int] = []

    def stop() -> None:
        try:
            until(enough)
        finally:  # else it would go on for ever
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    thread.start()
    try:
        assert wanted.run(writer, lambda: restarts.append(1)) == signal.SIGTERM
    finally:
        thread.join()
        signal.signal(signal.SIGTERM, before)
    return len(restarts)


def quick(folder: Path, most_bytes: int = 1 << 30) -> SegmentWriter:
    (folder / segments.SEGMENTS).mkdir(parents=True, exist_ok=True)
    return SegmentWriter(folder, 3600 * 10**9, most_bytes, look_seconds=0.05, segment_seconds=0.3)


def test_all_that_was_counted_is_continuous_without_gaps(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    writer = quick(folder)
    run_for(watch_of(folder, Simulated), writer, lambda: len(segments_in(folder)) >= 3)
    assert not (folder / segments.SESSION).exists()
    timeline = read_last(folder)
    assert [(c.source, c.gpu) for c in timeline.counters] == [("pm", 0), ("pm", 1)]
    for counters in timeline.counters:
        assert not counters.known[0]
        assert counters.known[1:].all()
        assert set(np.diff(counters.end_ns).tolist()) == {MS}
        assert set(counters.rx_bytes[1:].tolist()) == {1000}
    totals = writer.totals["pm", 0, "pcie"]
    assert totals.received_bytes == 1000 * (len(timeline.counters[0]) - 1)
    assert read_watch(folder).manifest.state is State.COMPLETE
    assert read_watch(folder, 10**9 // 2).timeline.seconds == pytest.approx(0.5, abs=0.01)


def test_it_goes_on_in_the_same_folder_and_in_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    for _ in range(2):
        begun = len(segments_in(folder))
        wanted = watch_of(folder, Simulated)
        run_for(wanted, quick(folder), lambda n=begun: len(segments_in(folder)) > n)  # type: ignore[misc]
    (first, _) = read_last(folder).counters
    assert 2 <= np.count_nonzero(~first.known) <= 3  # the beginning, and the pause
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(InputError, match="holds files"):
        watch_of(tmp_path / "mine", Simulated).writer()


def test_silent_sources_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "SILENT_SECONDS", 0.4)
    monkeypatch.setattr(continuous, "_PAUSE_SECONDS", 0.01)
    made: list[Path] = []

    def make(spool: Path) -> WatchSource:
        made.append(spool)
        return Simulated(spool, seconds=0.2 if len(made) == 1 else 1e9)

    folder = tmp_path / "watch"
    writer = quick(folder)
    enough = lambda: len(made) == 2 and len(segments_in(folder)) >= 3  # noqa: E731
    assert run_for(watch_of(folder, make), writer, enough) == 1
    (first, _) = read_last(folder).counters
    assert np.count_nonzero(~first.known) >= 2
    assert int(np.diff(first.end_ns).max()) > 300 * MS  # of which nothing is known


VICTIM = """
import sys
sys.path.insert(0, ".")
from pathlib import Path
from tests.watching.test_continuous import Simulated, watch_of, quick
folder = Path(sys.argv[1])
watch_of(folder, Simulated).run(quick(folder), lambda: None)
"""


def test_after_a_kill_the_spools_are_read_too(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    with subprocess.Popen([sys.executable, "-c", VICTIM, str(folder)]) as victim:
        until(lambda: len(segments_in(folder)) >= 2)
        time.sleep(0.1)
        victim.kill()
    newest = segments_in(folder)[-1].end_ns
    assert read_watch(folder).manifest.state is State.RUNNING
    (counters, _) = read_last(folder).counters
    assert int(counters.end_ns[-1]) > newest
    assert counters.known[1:].all()
    assert set(np.diff(counters.end_ns).tolist()) == {MS}


def test_what_a_killed_watch_had_counted_is_stored_when_the_next_begins(tmp_path: Path) -> None:
    """Its segments take a minute each: none is written before the kill."""
    folder = tmp_path / "watch"
    text = VICTIM.replace("quick(folder)", "watch_of(folder, Simulated).writer()")
    with subprocess.Popen([sys.executable, "-c", text, str(folder)]) as victim:
        until(lambda: bool(counted(folder)))
        time.sleep(0.3)
        victim.kill()
    assert not segments_in(folder)
    before = counted(folder)
    run_for(watch_of(folder, Simulated), quick(folder), lambda: len(segments_in(folder)) >= 3)
    after = counted(folder)
    assert before.keys() == after.keys()
    for key, counters in before.items():
        ends = after[key].end_ns
        assert np.isin(counters.end_ns, ends).all()
        assert after[key].known[np.isin(ends, counters.end_ns[1:])].all()
        assert np.count_nonzero(~after[key].known) == 2  # the beginnings of both


def test_the_part_of_a_segment_whose_writer_was_killed_goes(tmp_path: Path) -> None:
    """Each would take room that nothing counts, for ever."""
    folder = tmp_path / "watch"
    (folder / segments.SEGMENTS).mkdir(parents=True)
    write_segment(folder, [piece(0, 1001)])
    before = sorted((folder / segments.SEGMENTS).iterdir())
    (folder / segments.SEGMENTS / ".0123456789abcdef.part").write_bytes(b"PAR1")
    quick(folder).recover()
    assert sorted((folder / segments.SEGMENTS).iterdir()) == before


def test_a_segment_and_what_came_after_it_are_stored_once(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    with subprocess.Popen([sys.executable, "-c", VICTIM, str(folder)]) as victim:
        until(lambda: len(segments_in(folder)) >= 2)
        time.sleep(0.2)
        victim.kill()
    before = counted(folder)
    recovered = recover(folder)
    shutil.rmtree(folder / segments.SESSION)
    after = counted(folder)
    assert recovered > 2 * 100
    for key, counters in before.items():
        assert after[key].end_ns.tolist() == counters.end_ns.tolist()
        assert after[key].known.tolist() == counters.known.tolist()
        assert after[key].rx_bytes.tolist() == counters.rx_bytes.tolist()
    assert recover(folder) == 0


def test_a_damaged_segment_costs_nothing_that_came_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    with subprocess.Popen([sys.executable, "-c", VICTIM, str(folder)]) as victim:
        until(lambda: len(segments_in(folder)) >= 1)
        time.sleep(0.2)
        victim.kill()
    newest = segments_in(folder)[-1]
    last = counted(folder)["g0"].end_ns[-1]
    newest.path.write_bytes(b"PAR1")
    assert recover(folder) > 0
    (recovered,) = [one for one in segments_in(folder) if one.end_ns > newest.end_ns]
    assert recovered.end_ns >= last


def test_older_segments_make_room_for_what_a_killed_watch_had_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "watch"
    with subprocess.Popen([sys.executable, "-c", VICTIM, str(folder)]) as victim:
        until(lambda: len(segments_in(folder)) >= 3)
        time.sleep(0.2)
        victim.kill()
    stored, before = segments_in(folder), counted(folder)
    real, calls = segments.write_segment, []

    def full_at_first(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(segments, "write_segment", full_at_first)
    quick(folder).recover()
    assert len(calls) == 2
    assert len(segments_in(folder)) < len(stored) + 1
    assert counted(folder)["g0"].end_ns[-1] == before["g0"].end_ns[-1]


def test_a_damaged_spool_does_not_keep_a_watch_from_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    spool = folder / segments.SESSION / "spool"
    spool.mkdir(parents=True)
    (folder / segments.SEGMENTS).mkdir()
    (spool / "pm.g0.bin").write_bytes(os.urandom(1 << 16))
    (spool / "pm.g1.bin").write_bytes(counter_header("pm", 1, MS).encode()[:9])
    assert recover(folder) == 0
    run_for(watch_of(folder, Simulated), quick(folder), lambda: len(segments_in(folder)) >= 1)


def killed_in(folder: Path, change: Callable[[bytearray], object] = lambda content: None) -> Path:
    """Return a folder with a killed session of two GPUs, of which one spool was changed."""
    spool = folder / segments.SESSION / "spool"
    spool.mkdir(parents=True)
    (folder / segments.SEGMENTS).mkdir()
    records = np.zeros(5000, RECORD)
    records["end_ns"] = native.watch_time_ns() - MS * np.arange(5000)[::-1]
    records["rx_bytes"] = 1000
    for gpu in (0, 1):
        content = bytearray(counter_header("pm", gpu, MS).encode() + records.tobytes())
        if gpu == 0:
            change(content)
        (spool / f"pm.g{gpu}.bin").write_bytes(content)
    manifest = WatchManifest(
        "w", (), "2026-01-01T00:00:00+00:00", "1", MACHINE, int(records["end_ns"][0])
    )
    RunFolder(folder, "watch").update(manifest)
    (folder / "machine.toml").write_text(dumps_machine(MACHINE))
    return folder


def put_time(content: bytearray, record: int, time_ns: int) -> None:
    at = content.index(b"\n") + 1 + RECORD.itemsize * record
    content[at : at + 8] = time_ns.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("change", "left_out"),
    [
        (lambda content: put_time(content, 2500, 2**63 + 5), 1),
        (lambda content: put_time(content, 2500, 2**62 + 5), 1),
        (lambda content: put_time(content, 4999, time.time_ns() + 365 * 86_400 * 10**9), 1),
        (lambda content: content.__setitem__(slice(-5000, -4998), b""), 313),
        (lambda content: content.__setitem__(slice(-3205, -3005), bytes(range(1, 201))), 13),
    ],
    ids=["own", "large", "a year ahead", "bytes missing", "random bytes"],
)
def test_damaged_records_of_a_killed_watch_are_left_out_and_named(
    tmp_path: Path, change: Callable[[bytearray], object], left_out: int
) -> None:
    run = read_watch(killed_in(tmp_path / "watch", change))
    assert [(one.gpu, len(one)) for one in run.timeline.counters] == [
        (0, pytest.approx(5000 - left_out, abs=2)),
        (1, 5000),
    ]
    assert run.timeline.seconds == pytest.approx(5, abs=0.1)
    (note,) = run.timeline.damage
    assert re.search(r"^pm\.g0\.bin is damaged: \d+ records have times that cannot be", note)


def test_a_spool_of_a_killed_watch_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    run = read_watch(killed_in(tmp_path, lambda content: put_time(content, -1, 0)))
    assert [one.gpu for one in run.timeline.counters] == [1]
    assert "pm.g0.bin is left out" in run.timeline.damage[0]


def test_a_segment_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = killed_in(tmp_path)
    assert not read_watch(folder).timeline.damage
    (begin, end) = (one.end_ns[[0, -1]].tolist()[0] for one in read_last(folder).counters)
    (folder / segments.SEGMENTS / f"{begin - 5}-{end}.parquet").write_bytes(b"PAR1")
    timeline = read_last(folder)
    assert [len(one) for one in timeline.counters] == [5000, 5000]
    assert ".parquet is left out" in timeline.damage[0]


def test_both_parts_of_a_killed_watch_become_one_segment(tmp_path: Path) -> None:
    spool = tmp_path / segments.SESSION / "spool"
    spool.mkdir(parents=True)
    (tmp_path / segments.SEGMENTS).mkdir()
    records = np.zeros(100, RECORD)
    records["end_ns"] = 1_795_000_000_000 * MS + 20 * MS * np.arange(100)
    records["rx_bytes"] = records["tx_bytes"] = 7
    for half, column in (("-rx", "rx_bytes"), ("-tx", "tx_bytes")):
        header = counter_header(f"throughput{half}", 0, 20 * MS, [column])
        (spool / f"throughput{half}.g0.bin").write_bytes(header.encode() + records.tobytes())
    assert recover(tmp_path) == 99
    (one,) = read_last(tmp_path).counters
    assert (one.source, len(one)) == ("throughput", 100)
    assert set(one.rx_bytes[1:].tolist()) == set(one.tx_bytes[1:].tolist()) == {7}


def counted(folder: Path) -> dict[str, Counters]:
    """Return what is stored and waits to be, by GPU; nothing where there is nothing yet."""
    try:
        return {f"g{one.gpu}": one for one in read_last(folder).counters}
    except InputError:
        return {}


def test_what_waits_for_its_segment_is_on_the_disk_too(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    wanted = watch_of(folder, Simulated)
    writer = wanted.writer()  # a segment a minute
    run_for(wanted, writer, lambda: writer.waiting_bytes >= 2 * 4096)
    assert writer.waiting_bytes == 0
    assert writer.stored_bytes > 0
    assert f"lanescope_stored_bytes {writer.stored_bytes}\n" in metrics_of(writer)


def test_a_narrow_link_is_found_while_it_is_watched(tmp_path: Path) -> None:
    narrow = PcieLink(1, 4, 1, 8)
    machine = dataclasses.replace(MACHINE, links=(Link.of_pcie("h0", "g0", narrow.at_best()),))
    folder = tmp_path / "watch"
    (folder / segments.SEGMENTS).mkdir(parents=True)
    findings = LiveFindings(lambda _: {"g0": narrow})
    writer = SegmentWriter(
        folder, 3600 * 10**9, 1 << 30, look_seconds=0.05, segment_seconds=0.3, findings=findings
    )
    half_gbs = lambda spool: Simulated(spool, received=500_000)  # noqa: E731
    wanted = dataclasses.replace(watch_of(folder, half_gbs), machine=lambda: machine)
    run_for(wanted, writer, lambda: "pcie_lanes" in metrics_of(writer))
    text = metrics_of(writer)
    assert 'lanescope_finding_active{gpu="0",kind="trained-down"} ' in text
    assert 'lanescope_finding_active{gpu="1",kind="lost-samples"} 0\n' in text
    assert 'lanescope_pcie_lanes{above="h0",below="g0",state="now"} 4\n' in text
    assert 'lanescope_pcie_lanes{above="h0",below="g0",state="best"} 8\n' in text


def piece(begin_ms: int, count: int) -> Counters:
    known = np.ones(count, np.bool_)
    known[0] = False
    column = np.full(count, 7, np.int64)
    ends = (1_795_000_000_000 + begin_ms + np.arange(count)) * MS
    return Counters("pm", 0, MS, ends, column, column, known)


def test_the_oldest_go_by_age_and_by_size(tmp_path: Path) -> None:
    (tmp_path / segments.SEGMENTS).mkdir()
    for begin in range(0, 10_000, 1000):
        write_segment(tmp_path, [piece(begin, 1001)])
    prune(tmp_path, 4 * 10**9, 1 << 30)
    assert [s.begin_ns // MS % 10**5 for s in segments_in(tmp_path)] == list(
        range(5000, 10_000, 1000)
    )
    size = segments_in(tmp_path)[0].path.stat().st_size
    left = prune(tmp_path, 4 * 10**9, 3 * size + 100)
    assert left <= 3 * size + 100
    assert len(segments_in(tmp_path)) in (2, 3)
    assert prune(tmp_path, 0, 0) > 0  # the newest stays
    assert len(segments_in(tmp_path)) == 1


def test_too_much_is_refused_before_all_of_it_is_read_and_what_fits_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / segments.SEGMENTS).mkdir()
    for begin in range(-10_000_000, -9_990_000, 1000):
        write_segment(tmp_path, [piece(begin, 1001)])
    real, read = segments.read_counter_file, []

    def noted(path: Path, inner: int) -> tuple[Counters, ...]:
        read.append(path)
        return real(path, inner)

    monkeypatch.setattr(segments, "read_counter_file", noted)
    monkeypatch.setattr(segments, "MOST_RECORDS", 3500)
    with pytest.raises(InputError, match=r"more than 3,500 records.*; --last 3s can be read"):
        read_last(tmp_path)
    assert len(read) == 4
    assert len(read_last(tmp_path, 3 * 10**9).counters[0]) == 3001


def test_what_is_stored_is_read_up_to_a_time(tmp_path: Path) -> None:
    (tmp_path / segments.SEGMENTS).mkdir()
    begin = -10_000_000
    for number in range(10):
        write_segment(tmp_path, [piece(begin + 1000 * number, 1001)])
    first = segments_in(tmp_path)[0].begin_ns
    until = first + 4_500 * MS
    found = read_last(tmp_path, 2 * 10**9, until)
    assert (found.start_ns, found.end_ns) == (until - 2 * 10**9, until)
    (one,) = found.counters
    assert (int(one.end_ns[0]), int(one.end_ns[-1])) == (until - 2001 * MS, until)
    whole = read_last(tmp_path, 3600 * 10**9, first + 10**18)
    assert len(whole.counters[0]) == len(read_last(tmp_path).counters[0])
    assert read_last(tmp_path, 10**9, segments_in(tmp_path)[3].end_ns + 1).seconds == 1
    with pytest.raises(
        InputError, match=r"nothing is stored of before .*; the oldest record is of"
    ):
        read_last(tmp_path, 10**9, first)
    with pytest.raises(InputError, match=r"nothing is stored of before"):  # within a record
        read_last(tmp_path, 10**9, first + MS // 2)


def test_up_to_a_time_at_which_nothing_was_counted_is_up_to_the_record_before(
    tmp_path: Path,
) -> None:
    """What has been counted since, and is in no segment yet, is not of that time."""
    folder = killed_in(tmp_path)
    with pytest.raises(InputError, match=r"nothing is stored of before .*; the oldest record"):
        read_last(folder, 10**9, 10**9)
    write_segment(folder, [piece(-10_000_000, 1001)])
    end = segments_in(folder)[0].end_ns
    found = read_last(folder, 10**9, end + 3600 * 10**9)
    assert (found.end_ns, [len(one) for one in found.counters]) == (end, [1001])
    assert len(read_last(folder, 10**9).counters) == 2


def test_segments_and_what_becomes_one_take_no_more_than_they_may(tmp_path: Path) -> None:
    """A segment a minute would be larger: they are made earlier, and the oldest go."""
    folder, most = tmp_path / "watch", 96 << 10
    (folder / segments.SEGMENTS).mkdir(parents=True)
    writer = SegmentWriter(folder, 3600 * 10**9, most, look_seconds=0.05)
    begun: set[int] = set()
    taken: list[int] = []

    def enough() -> bool:
        begun.update(one.begin_ns for one in segments_in(folder))
        taken.append(writer.stored_bytes + writer.waiting_bytes)
        return len(begun) >= 8 and len(segments_in(folder)) < len(begun)

    run_for(watch_of(folder, lambda spool: Simulated(spool, gpus=8)), writer, enough)
    assert max(taken) <= most + (64 << 10)  # what came since the last look


def test_spools_that_cannot_be_given_back_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "release", lambda path, end: False)
    made: list[Path] = []

    def make(spool: Path) -> WatchSource:
        made.append(spool)
        return Simulated(spool, gpus=8)

    folder = tmp_path / "watch"
    writer = quick(folder, 512 << 10)
    # while sources begin, SIGTERM would leave one that nobody ends
    enough = lambda: len(made) >= 3 and writer.waiting_bytes > 0  # noqa: E731
    assert run_for(watch_of(folder, make), writer, enough) == 0
    assert "does not give back" in (writer.problem or "")


def test_the_oldest_segments_make_room_on_a_disk_that_others_fill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, free = tmp_path / "watch", [1 << 40]
    monkeypatch.setattr(segment_writer, "_free_bytes", lambda place: free[0])
    writer = quick(folder)
    counts: list[int] = []

    def enough() -> bool:
        counts.append(len(segments_in(folder)))
        if counts[-1] >= 4:
            free[0] = 1 << 20
        return max(counts) >= 4 and counts[-1] == 1

    run_for(watch_of(folder, Simulated), writer, enough)
    assert writer.lost_records == 0
    assert "is nearly full" in (writer.problem or "")


def test_a_session_that_a_full_disk_ends_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuous, "_PAUSE_SECONDS", 0.01)
    failures = iter([28, 122])

    def full_at_first(request: Watch) -> object:
        if (number := next(failures, None)) is None:
            return watch(request)
        cause = InputError("cannot write to it: it is full; name another folder")
        cause.__cause__ = OSError(number, "it is full")
        raise NotStoredError("what was watched is kept", 2) from cause

    monkeypatch.setattr(continuous, "watch", full_at_first)
    folder = tmp_path / "watch"
    writer = quick(folder)
    wanted = watch_of(folder, Simulated)
    assert run_for(wanted, writer, lambda: len(segments_in(folder)) >= 2) == 2
    assert "it is full" in (writer.problem or "")


def stored_days_ahead(folder: Path, days: int) -> int:
    """Store a segment of a clock that was ahead, and four of the last seconds; return now, ms."""
    (folder / segments.SEGMENTS).mkdir()
    now_ms = time.time_ns() // MS - 1_795_000_000_000
    write_segment(folder, [piece(now_ms + days * 86_400_000, 1001)])
    for begin in range(now_ms - 4000, now_ms, 1000):
        write_segment(folder, [piece(begin, 1001)])
        prune(folder, 86_400 * 10**9, 1 << 30)
    return now_ms


@pytest.mark.parametrize("days", [1, 400])
def test_a_clock_that_is_set_back_costs_no_segment(tmp_path: Path, days: int) -> None:
    stored_days_ahead(tmp_path, days)
    assert len(segments_in(tmp_path)) == 5
    timeline = read_last(tmp_path, 600 * 10**9)
    assert timeline.seconds == pytest.approx(4, abs=0.01)
    assert timeline.damage == (
        "One segment is left out: the clock was set back since, and its time is still to come.",
    )
    assert prune(tmp_path, 86_400 * 10**9, 1) > 0  # the newest stays
    (newest,) = segments_in(tmp_path)
    assert newest.end_ns < time.time_ns() + 10**9


def test_a_clock_that_was_behind_costs_no_segment(tmp_path: Path) -> None:
    """Before its time is known, a machine may believe that it is 1970."""
    (tmp_path / segments.SEGMENTS).mkdir()
    now_ms = time.time_ns() // MS - 1_795_000_000_000
    write_segment(tmp_path, [piece(now_ms - 3000, 1001)])
    write_segment(tmp_path, [piece(-1_795_000_000_000 + 1000, 1001)])
    prune(tmp_path, 86_400 * 10**9, 1 << 30)
    write_segment(tmp_path, [piece(now_ms - 1000, 1001)])
    prune(tmp_path, 86_400 * 10**9, 1 << 30)
    assert [len(read_last(tmp_path).counters[0]), len(segments_in(tmp_path))] == [2002, 2]


def test_segments_of_a_clock_that_was_set_meanwhile_are_read_in_order(tmp_path: Path) -> None:
    """The GPU's records of the second segment lie within those of the first."""
    (tmp_path / segments.SEGMENTS).mkdir()
    other = dataclasses.replace(piece(-2000, 1001), gpu=1)
    write_segment(tmp_path, [piece(-3000, 1501)])
    write_segment(tmp_path, [piece(-2500, 501), other])
    write_segment(tmp_path, [piece(-1800, 1001)])
    own = read_last(tmp_path).counters[0]
    assert (np.diff(own.end_ns) > 0).all()
    assert len(own) == 1501 + 700


def test_a_shift_that_cannot_be_is_none(tmp_path: Path) -> None:
    folder = killed_in(tmp_path)
    (folder / segments.SESSION / "spool" / segments.SHIFT).write_bytes(b"9" * 31)
    assert [len(one) for one in read_last(folder).counters] == [5000, 5000]


def test_what_waits_is_read_by_the_clock_that_was_set_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was 400 days ahead when the watch began, and was then set right."""
    right, ahead_ns = native.watch_time_ns, 400 * 86_400 * 10**9
    clock = types.SimpleNamespace(watch_time_ns=lambda: right() + ahead_ns)
    for module in (sys.modules[__name__], segment_writer, continuous):
        monkeypatch.setattr(module, "native", clock)
    folder = tmp_path / "watch"
    writer, seen = quick(folder), []

    def enough() -> bool:
        if len(segments_in(folder)) >= 3:
            seen.append(read_last(folder))
        return len(seen) > 3

    run_for(watch_of(folder, Simulated), writer, enough)
    for timeline in seen:
        assert abs(timeline.end_ns - time.time_ns()) < 60 * 10**9
        assert not timeline.damage
        assert timeline.seconds > 0.5


def dropped_in(text: str) -> int:
    (line,) = re.findall(r"^lanescope_dropped_records_total (\d+)$", text, re.MULTILINE)
    return int(line)


def test_a_full_disk_drops_records_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments cannot be written for a while; the next one says how many samples are missing."""
    real, writes = write_segment, []

    def full_for_a_while(*arguments: object) -> object:
        writes.append(writer.lost_records)
        if writer.lost_records <= 1000:
            raise OSError(28, "No space left on device")
        return real(*arguments)  # type: ignore[arg-type]

    folder = tmp_path / "watch"
    writer = quick(folder)
    monkeypatch.setattr(segment_writer, "write_segment", full_for_a_while)
    run_for(watch_of(folder, Simulated), writer, lambda: len(segments_in(folder)) >= 2)
    assert writer.lost_records > 1000
    assert "No space left" in (writer.problem or "")
    assert dropped_in(metrics_of(writer)) == writer.lost_records
    assert sum(one.lost_samples for one in read_last(folder).counters) == writer.lost_records
    assert writes[-1] == writer.lost_records  # what is stored later is not lost


@pytest.mark.parametrize("lasting", [0, 1])
def test_what_samplers_cannot_write_is_counted_as_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: int
) -> None:
    """A full disk ends all spools or one: nothing of those is stored until they begin anew."""
    folder, made = tmp_path / "watch", [0]
    writer: SegmentWriter = quick(folder)

    def free(place: Path) -> int:
        return 1 << 20 if made[0] == 1 and writer.totals else 1 << 40

    def make(spool: Path) -> WatchSource:
        made[0] += 1
        return Simulated(spool, seconds=0.2 if made[0] == 1 else 1e9, lasting=lasting)

    def lost() -> list[int]:
        return [one.lost_samples for one in counted(folder).values()]

    monkeypatch.setattr(segment_writer, "SILENT_WHEN_FULL_SECONDS", 0.4)
    monkeypatch.setattr(continuous, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(segment_writer, "_free_bytes", free)
    monkeypatch.setattr(segment_writer, "prune", lambda *_: segments.stored_bytes(folder))
    enough = lambda: 0 < writer.lost_records == sum(lost())  # noqa: E731
    assert run_for(watch_of(folder, make), writer, enough) == 1
    both = read_last(folder).counters
    missing = [int(np.diff(one.end_ns).max()) // MS for one in both]
    assert min(missing[lasting:]) >= 400
    assert lost() == pytest.approx(missing, abs=1)
    assert dropped_in(metrics_of(writer)) == sum(lost())
    assert summarise(Timeline(0, 1, both)).losses.samples == writer.lost_records


def test_a_pause_that_is_no_full_disk_drops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "SILENT_SECONDS", 0.4)
    monkeypatch.setattr(continuous, "_PAUSE_SECONDS", 0.01)
    folder, made = tmp_path / "watch", [0]

    def make(spool: Path) -> WatchSource:
        made[0] += 1
        return Simulated(spool, seconds=0.2 if made[0] == 1 else 1e9)

    writer = quick(folder)
    run_for(watch_of(folder, make), writer, lambda: made[0] == 2 and writer.waiting_bytes > 0)
    assert dropped_in(metrics_of(writer)) == 0


def test_what_became_a_segment_is_given_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_bytes(os.urandom(1 << 20))
    if not segments.release(path, 1 << 20):
        pytest.skip("this file system does not give back parts of files")
    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks * 512 <= 16 << 10
    assert any(path.read_bytes()[:4096])


def test_metrics_are_served_on_loopback(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    writer = quick(folder)
    run_for(watch_of(folder, Simulated), writer, lambda: len(segments_in(folder)) >= 1)
    with serving(("127.0.0.1", 0), lambda: metrics_of(writer)) as port:
        address = f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        with pytest.raises(OSError, match="404"):
            urllib.request.urlopen(f"{address}/other", timeout=PATIENCE_S)
        with (
            pytest.raises(InputError, match="give another --metrics"),
            serving(("127.0.0.1", port), str),
        ):
            pass
    total = writer.totals["pm", 1, "pcie"].received_bytes
    line = f'lanescope_link_received_bytes_total{{gpu="1",link="pcie",source="pm"}} {total}\n'
    assert line in text
    assert "# TYPE lanescope_link_received_bytes_total counter" in text
    assert 'lanescope_link_payload_bytes_per_second{gpu="0",direction="h2d"}' in text


def test_metrics_are_served_by_ipv6() -> None:
    assert address_of("[::]:9469") == ("::", 9469)
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with serving(("::1", 0), lambda: "some 1\n") as port:
        address = f"http://{continuous.address_text('::1', port)}/metrics"
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            assert answer.read() == b"some 1\n"


def test_a_probe_that_asks_for_the_head_alone_is_answered() -> None:
    with serving(("127.0.0.1", 0), lambda: "some 1\n") as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", method="HEAD")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert (answer.status, answer.headers["Content-Length"]) == (200, "7")
            assert answer.read() == b""


def test_metrics_are_served_without_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(socket, "getfqdn", names.append)
    with serving(("0.0.0.0", 0), str) as port:
        socket.create_connection(("127.0.0.1", port)).close()
    assert names == []


def test_nothing_is_said_of_a_client_that_has_gone(capfd: pytest.CaptureFixture[str]) -> None:
    text = lambda: "some 1\n" * 1_000_000  # noqa: E731 - more than sockets hold
    with serving(("127.0.0.1", 0), text) as port:
        for request in (b"GET /metrics HTTP/1.0\r\n\r\n", b"GET /met"):
            client = socket.create_connection(("127.0.0.1", port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(request)
            client.close()  # by a reset
        names = lambda: [one.name for one in threading.enumerate()]  # noqa: E731
        until(lambda: not any("process_request" in name for name in names()))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
    assert capfd.readouterr().err == ""


def test_the_histogram_counts_seconds_by_share() -> None:
    writer = SegmentWriter(Path(), 1, 1)
    use = writer.use.setdefault((0, "h2d"), segment_writer.Use())
    for share in (0.0, 0.01, 0.6, 1.2):
        use.add(share)
    text = metrics_of(writer)
    for name in ("lanescope_link_use_distribution_ratio", "lanescope_link_use_seconds"):
        labels = 'gpu="0",direction="h2d"'
        assert f"# TYPE {name} histogram\n" in text
        for edge, count in (("0.01", 2), ("0.75", 3), ("+Inf", 4)):
            assert f'{name}_bucket{{{labels},le="{edge}"}} {count}\n' in text
        assert f"{name}_count{{{labels}}} 4\n" in text
    assert "# HELP lanescope_link_use_seconds The old name of" in text


def test_errors_of_links_are_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "watch"
    (folder / segments.SEGMENTS).mkdir(parents=True)
    counts = iter(range(1, 1000))
    writer = SegmentWriter(
        folder,
        3600 * 10**9,
        1 << 30,
        look_seconds=0.05,
        segment_seconds=0.2,
        read_errors=lambda machine: (LinkErrors(0, pcie_replays=next(counts)),),
    )
    run_for(watch_of(folder, Simulated), writer, lambda: len(segments_in(folder)) >= 2)
    (line,) = [line for line in metrics_of(writer).splitlines() if "link_errors_total{" in line]
    assert line.startswith('lanescope_link_errors_total{gpu="0",kind="pcie-replays"} ')
    assert int(line.split()[1]) >= 2


def test_errors_are_read_by_the_minute_however_often_segments_are_written(tmp_path: Path) -> None:
    """A finding lasts from one reading to the next: more of them would end it early."""
    folder = tmp_path / "watch"
    (folder / segments.SEGMENTS).mkdir(parents=True)
    reads: list[Machine] = []

    def read(machine: Machine) -> tuple[LinkErrors, ...]:
        reads.append(machine)
        return (LinkErrors(0, pcie_replays=1),)

    writer = SegmentWriter(
        folder, 3600 * 10**9, 64 << 10, look_seconds=0.05, segment_seconds=1e9, read_errors=read
    )
    eight = lambda spool: Simulated(spool, gpus=8)  # noqa: E731
    begun: set[Path] = set()

    def enough() -> bool:
        begun.update(one.path for one in segments_in(folder))
        return len(begun) >= 3

    run_for(watch_of(folder, eight), writer, enough)
    assert len(reads) < len(begun)


def test_metrics_are_on_loopback_unless_an_address_is_given() -> None:
    assert address_of("9469") == address_of(":9469") == ("127.0.0.1", 9469)
    assert address_of("0.0.0.0:80") == ("0.0.0.0", 80)
    for wrong in ("", "host", "1.2.3.4:0", ":70000"):
        with pytest.raises(InputError, match="is no address"):
            address_of(wrong)


def test_what_is_stored_stays_where_no_room_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    folder = tmp_path / "watch"
    (folder / segments.SEGMENTS).mkdir(parents=True)
    now_ms = time.time_ns() // MS - 1_795_000_000_000
    for begin in range(now_ms - 5000, now_ms, 1000):
        write_segment(folder, [piece(begin, 1001)])
    writer = quick(folder)
    monkeypatch.setattr(segment_writer, "write_segment", refused)
    run_for(watch_of(folder, Simulated), writer, lambda: writer.lost_records > 100)
    assert len(segments_in(folder)) == 5
