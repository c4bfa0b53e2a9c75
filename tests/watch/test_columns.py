import dataclasses

import numpy as np
import pytest

from lanescope.watch.columns import COUNTERS, PROBE, read_columns, write_columns
from lanescope.watch.operations import COLUMNS, Operations
from lanescope.watch.probe import Probe
from lanescope.watch.timeline import Counters, Process, Timeline

NOW = 1_795_281_229_914_609_055


def series(source="pm", gpu=0, count=5, **more):
    known = np.arange(count) > 0
    numbers = np.arange(count, dtype=np.int64)
    return Counters(
        source, gpu, 10_000, NOW + numbers * 10_000, numbers * 512, numbers, known, **more
    )


def probe(gpu=0, chunk_bytes=204_800, period_ns=0, cpu_seconds=None):
    begin, direction = NOW + np.arange(6) * 50_000, np.arange(6) % 2
    copy = direction * 1000 + 4000
    return Probe(gpu, chunk_bytes, period_ns, begin, copy, copy + 1, direction, cpu_seconds)


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b


@pytest.mark.parametrize(
    "timeline",
    [
        Timeline(NOW, NOW + 5),
        Timeline(
            NOW,
            NOW + 100_000,
            (series(lost_samples=3, cpu_seconds=0.25), series("counters", 1, 1), series(count=0)),
            Operations.of(
                ("", "kernel"),
                pid=[1, 2],
                what=[0, 2],
                start_ns=[NOW, NOW + 1],
                end_ns=[NOW + 5, NOW + 7],
                bytes=[4096, 0],
                asynchronous=[True, False],
                name=[0, 1],
            ),
            (Process(1, "./a 'b c'", NOW, None, False, 7),),
            (probe(cpu_seconds=0.5), probe(gpu=1, chunk_bytes=4, period_ns=7)),
        ),
    ],
)
def test_a_timeline_comes_back_as_it_was(tmp_path, timeline):
    write_columns(tmp_path, timeline)
    back = read_columns(tmp_path, timeline.start_ns, timeline.end_ns)
    assert back.processes == timeline.processes
    assert back.operations.names == timeline.operations.names
    assert all(same(getattr(back.operations, c), getattr(timeline.operations, c)) for c in COLUMNS)
    assert len(back.counters) == len(timeline.counters)
    for a, b in zip(back.counters, timeline.counters, strict=True):
        for field in dataclasses.fields(Counters):
            assert same(getattr(a, field.name), getattr(b, field.name)), field.name
    assert len(back.probes) == len(timeline.probes)
    for one, other in zip(back.probes, timeline.probes, strict=True):
        for field in dataclasses.fields(Probe):
            assert same(getattr(one, field.name), getattr(other, field.name)), field.name
    assert (tmp_path / PROBE).exists() is bool(timeline.probes)


def test_idle_counters_take_next_to_no_room(tmp_path):
    count = 1_000_000
    quiet = dataclasses.replace(series(count=count), rx_bytes=np.zeros(count, np.int64))
    idle = dataclasses.replace(quiet, tx_bytes=np.zeros(count, np.int64))
    write_columns(tmp_path, Timeline(NOW, NOW + 1, (idle,)))
    assert (tmp_path / COUNTERS).stat().st_size < count / 4
