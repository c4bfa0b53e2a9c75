import dataclasses
import sys
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.report.perfetto_tracks import lanes
from lanescope.report.watch_files import write_perfetto
from lanescope.trace.run import WatchManifest, WatchRun
from lanescope.trace.timeline import Process, Ranges
from tests.trace.timelines import MS, US, copies, even_counters, timeline

NOW = 1_795_281_229_914_609_055


def run(told, notes=()):
    manifest = WatchManifest("lanescope watch", ("./app", "a b"), "", "0", Machine("m"), 0)
    return WatchRun(dataclasses.replace(manifest, notes=tuple(notes)), told)


def test_nvlink_has_counters_of_its_own(tmp_path):
    pcie = even_counters(20.0)
    nvlink = dataclasses.replace(pcie, link="nvlink")
    write_perfetto(tmp_path / "t", run(timeline(counters=(pcie, nvlink))))
    names = {track.name for track in Read(tmp_path / "t").tracks.values()}
    assert {"g0 to GPU, wire (GB/s), pm", "g0 from GPU, wire (GB/s), pm"} <= names
    assert {"g0 NVLink rx (GB/s), pm", "g0 NVLink tx (GB/s), pm"} <= names
    assert {"g0 not known, pm", "g0 not known, pm of NVLink"} & names == set()


class Read:
    """A trace read back by the package's own classes."""

    def __init__(self, path):
        trace_pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
        self.packets = trace_pb2.Trace.FromString(path.read_bytes()).packet
        interned = [p.interned_data for p in self.packets]
        self.texts = {n.iid: n.name for data in interned for n in data.event_names}
        self.values = {
            n.iid: n.str.decode() for data in interned for n in data.debug_annotation_string_values
        }
        self.labels = {n.iid: n.name for data in interned for n in data.debug_annotation_names}
        found = [p.track_descriptor for p in self.packets if p.HasField("track_descriptor")]
        self.tracks = {track.uuid: track for track in found}

    def events(self, kind):
        return [
            (p.timestamp, p.track_event)
            for p in self.packets
            if p.HasField("track_event") and p.track_event.type == kind
        ]

    def slices(self):
        """Start, end, track and event of each; slices of one track must not overlap."""
        found, open_at = [], {}
        for p in self.packets:
            event = p.track_event
            if p.HasField("track_event") and event.type == event.TYPE_SLICE_BEGIN:
                assert event.track_uuid not in open_at
                open_at[event.track_uuid] = (p.timestamp, event)
            elif p.HasField("track_event") and event.type == event.TYPE_SLICE_END:
                start, begun = open_at.pop(event.track_uuid)
                found.append((start, p.timestamp, self.tracks[event.track_uuid], begun))
        assert not open_at
        return found

    def annotations(self, event):
        told = {}
        for one in event.debug_annotations:
            value = getattr(one, one.WhichOneof("value"))
            by_number = one.WhichOneof("value") == "string_value_iid"
            told[self.labels[one.name_iid]] = self.values[value] if by_number else value
        return told

    def series(self):
        found = defaultdict(list)
        for at, event in self.events(4):
            found[self.tracks[event.track_uuid].name].append((at, event.double_counter_value))
        return found

    def about(self):
        ((_, event),) = self.events(3)
        return {one.name: one.string_value for one in event.debug_annotations}


@pytest.fixture
def written(tmp_path):
    pytest.importorskip("perfetto.trace_builder")

    def write(told, notes=(), **options):
        path = tmp_path / "trace.pftrace"
        write_perfetto(path, run(told, notes), **options)
        return Read(path)

    return write


def test_copies_are_slices_of_their_stream_with_bytes_rate_and_kinds(written):
    trace = written(timeline(copies(2, 1 << 20, start_ns=NOW)))
    first, second = trace.slices()
    assert first[:2] == (NOW, NOW + MS // 2)
    assert trace.texts[first[3].name_iid] == "copy h2d"
    assert first[2].name == second[2].name == "g0, context 0, stream 13"
    assert trace.tracks[first[2].parent_uuid].process.pid == 7
    assert trace.tracks[first[2].parent_uuid].process.process_name == "python train.py"
    told = trace.annotations(first[3])
    assert told.pop("GB/s") == pytest.approx((1 << 20) / 0.0005 / 1e9)
    assert told == {
        "bytes": 1 << 20,
        "from": "pinned",
        "to": "device",
        "asynchronous": True,
        "correlation": 0,
    }


def test_times_are_of_the_real_time_clock(written):
    trace = written(timeline(copies(1, 4)))
    snapshots = [p.clock_snapshot for p in trace.packets if p.HasField("clock_snapshot")]
    assert [s.primary_trace_clock for s in snapshots] == [1]
    assert {c.timestamp for c in snapshots[0].clocks} == {0}
    assert [
        p.trace_packet_defaults.timestamp_clock_id
        for p in trace.packets
        if p.HasField("trace_packet_defaults")
    ] == [1]


def test_calls_are_slices_of_their_thread_joined_to_what_they_caused(written):
    called = copies(2, 64, thread=70, call_start_ns=5 * US, call_end_ns=9 * US, start_ns=10 * US)
    trace = written(timeline(called))
    calls = [s for s in trace.slices() if s[2].HasField("thread")]
    ((start, end, track, event),) = calls  # one call for both, as of a graph
    assert (start, end, track.thread.tid) == (5 * US, 9 * US, 70)
    flows = [tuple(s[3].flow_ids) for s in trace.slices()]
    assert set(flows) == {tuple(event.flow_ids)}


def test_what_overlaps_in_a_stream_gets_lines_of_its_own(written):
    trace = written(timeline(copies(6, 64, every_ns=MS, lasts_ns=3 * MS)))
    slices = trace.slices()  # asserts that none overlap
    assert len(slices) == 6
    assert len({s[2].uuid for s in slices}) == 3
    assert len({s[2].name for s in slices}) == 1


def test_kernels_have_their_names_and_processes_need_no_record(written):
    kernel = dataclasses.replace(
        copies(1, 0, what=2, name=1, pid=9), names=("", "void add<float>(float*)")
    )
    trace = written(timeline(kernel))
    ((_, _, track, event),) = trace.slices()
    assert trace.texts[event.name_iid] == "void add<float>(float*)"
    assert set(trace.annotations(event)) == {"correlation"}
    assert trace.tracks[track.parent_uuid].process.process_name == "process 9"


def test_counters_are_wire_rates_of_each_direction(written):
    trace = written(timeline(counters=(even_counters(20.0, seconds=0.01),)))
    series = trace.series()
    assert set(series) == {"g0 to GPU, wire (GB/s), pm", "g0 from GPU, wire (GB/s), pm"}
    steady = [value for _, value in series["g0 to GPU, wire (GB/s), pm"]]
    assert max(steady) == pytest.approx(20.0 * 1.046875, rel=1e-3)
    assert steady[-1] == 0.0


def test_fewer_points_are_means_and_peaks_and_the_trace_says_so(written):
    told = even_counters(1.0, seconds=0.1)
    rng = np.random.default_rng(3)
    told = dataclasses.replace(told, rx_bytes=rng.integers(0, 1000, len(told)))
    trace = written(timeline(counters=(told,)), notes=["A note."], most_points=50)
    series = trace.series()
    assert len(series["g0 to GPU, wire (GB/s), pm"]) <= 52
    peak = max(value for _, value in series["g0 to GPU, wire peak (GB/s), pm"])
    assert peak == pytest.approx(told.rx_bytes[1:].max() / 10_000)
    about = trace.about()
    assert "the mean of each 201 records" in about["g0 pm"]
    assert (about["program"], about["note 1"]) == ("./app 'a b'", "A note.")


def test_unknown_time_is_a_slice(written):
    told = even_counters(1.0, seconds=0.001)
    known = told.known.copy()
    known[50:60] = False
    trace = written(timeline(counters=(dataclasses.replace(told, known=known),)))
    ((start, end, track, _),) = trace.slices()
    assert (start, end) == (490 * US, 590 * US)
    assert "not measured" in track.description


def test_a_process_that_moved_nothing_has_a_track(written):
    told = dataclasses.replace(timeline(), processes=(Process(5, "./idle", 0),))
    assert [t.process.pid for t in written(told).tracks.values() if t.HasField("process")] == [5]


def test_without_the_package_one_sentence_tells_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(InputError, match=r"pip install 'perfetto>=0\.16'"):
        write_perfetto(tmp_path / "trace", run(timeline()))
    assert not list(tmp_path.iterdir())


def test_ranges_are_slices_beside_the_streams(tmp_path):
    pytest.importorskip("perfetto.trace_builder")
    told = dataclasses.replace(
        timeline(copies(1, 8, thread=9)),
        ranges=Ranges.of(
            ("step", "load"),
            pid=[7, 7, 7],
            thread=[9, 9, 9],
            start_ns=[10, 20, 5],
            end_ns=[90, 30, 0],
            pushed=[True, True, False],
            name=[0, 1, 0],
        ),
    )
    write_perfetto(tmp_path / "trace", run(told))
    read = Read(tmp_path / "trace")
    found = {
        (begin, end, track.name, read.texts[event.name_iid])
        for begin, end, track, event in read.slices()
    }
    assert (10, 90, "NVTX ranges of thread 9", "step") in found
    assert (20, 30, "NVTX ranges of thread 9", "load") in found
    assert (5, told.end_ns, "NVTX ranges of the process", "step") in found


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=60))
def test_lanes_are_the_lowest_that_are_free(rows):
    rows.sort(key=lambda row: row[0])
    start = np.array([begin for begin, _ in rows], np.int64)
    end = start + np.array([lasts for _, lasts in rows], np.int64)
    free, expected = [], []
    for begin, until in zip(start.tolist(), end.tolist(), strict=True):
        lane = next((n for n, at in enumerate(free) if at <= begin), len(free))
        free[lane : lane + 1] = [until]
        expected.append(lane)
    assert lanes(start, end).tolist() == expected


def test_lanes_of_very_many_at_the_same_time():
    count = 200_000  # as many steps each would take hours
    start = np.arange(count)
    assert lanes(start, start + count).tolist() == start.tolist()
