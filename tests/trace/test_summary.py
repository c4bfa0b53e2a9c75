from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from lanescope.machine import machine_named
from lanescope.studies.watch_report import summary_json
from lanescope.trace.limits import Ceilings
from lanescope.trace.summarise import summarise
from lanescope.trace.timeline import Timeline
from tests.trace import captures
from tests.trace.probes import probe_of
from tests.trace.timelines import MS, PAGEABLE, copies, even_counters, timeline

MIB = 1 << 20
MACHINE = machine_named("h200-x2")


def test_counters_are_told_and_what_no_copy_explains_is_named() -> None:
    # 20 GB/s counted, half of it traced
    seen = timeline(copies(1000, 10 * MB), counters=(even_counters(20.0),))
    down, up = summarise(seen, MACHINE).directions
    assert (down.label, down.told) == ("g0.h2d", "counters")
    assert down.counter_bytes == pytest.approx(20e9, rel=1e-3)
    assert down.traced_bytes == pytest.approx(10e9)
    assert down.unattributed_bytes == pytest.approx(10e9, rel=0.01)
    assert up.counter_bytes == 0.0
    assert up.unattributed_bytes == 0.0
    assert "no traced copy explains" in summarise(seen, MACHINE).notes[0]


MB = 1_000_000


def test_what_a_probe_moved_needs_no_explanation() -> None:
    rounds = 25_000  # of 204.8 KB each way in 40 us, without a pause
    probe = probe_of(np.full(rounds, 15_000), np.full(rounds, 5_000))
    seen = dataclasses.replace(timeline(counters=(even_counters(5.12, 5.12),)), probes=(probe,))
    down, up = summarise(seen, MACHINE).directions
    assert down.counter_bytes == pytest.approx(5.12e9, rel=1e-3)
    assert (down.unattributed_bytes, up.unattributed_bytes) == (0.0, 0.0)
    without = summarise(dataclasses.replace(seen, probes=()), MACHINE).directions
    assert without[0].unattributed_bytes == pytest.approx(5.12e9, rel=1e-3)


def test_shares_are_of_the_link_or_of_what_was_measured() -> None:
    seen = timeline(copies(1000, 10 * MB))
    down, _ = summarise(seen, MACHINE).directions
    assert down.limit.source == "payload limit of PCIe 5.0 x16"
    assert down.share_of_limit == pytest.approx(10 / 58.4, rel=1e-2)
    measured = Ceilings({(0, "h2d"): 50.0}, "measured by bench")
    down, up = summarise(seen, MACHINE, measured).directions
    assert (down.share_of_limit, down.limit.source) == (pytest.approx(0.2), "measured by bench")
    assert up.limit.source == "payload limit of PCIe 5.0 x16"


def test_a_trace_alone_tells_rates_too() -> None:
    down, _ = summarise(timeline(copies(1000, 10 * MB))).directions
    assert (down.told, down.counter_bytes, down.unattributed_bytes) == ("trace", None, None)
    assert down.rates is not None
    assert down.rates.payload_bytes == pytest.approx(10e9)
    assert down.share_of_limit is None
    assert down.limit.source == "the link of g0 is not known"


def test_counters_alone_tell_nothing_of_copies() -> None:
    seen = Timeline(0, 1_000_000_000, (even_counters(20.0),))
    summary = summarise(seen)
    assert summary.directions[0].traced_bytes is None
    assert summary.directions[0].unattributed_bytes is None
    assert summary.notes == ("No process was traced, so that nothing tells who moved the bytes.",)


def test_nothing_watched_is_no_direction() -> None:
    summary = summarise(Timeline(0, 1))
    assert (summary.directions, summary.copies, summary.shares) == ((), (), ())


def test_copies_are_grouped_and_attributed() -> None:
    seen = timeline(
        copies(10, 8 * MIB), copies(30, MIB, down=False, host=PAGEABLE, pid=8, stream=7, thread=3)
    )
    summary = summarise(seen)
    assert [(g.count, g.direction, g.memory) for g in summary.copies] == [
        (10, "h2d", "pinned"),
        (30, "d2h", "pageable"),
    ]
    assert summary.most_frequent(1)[0].count == 30
    assert [(s.name, s.total_bytes) for s in summary.shares_by("process")] == [
        ("7 python train.py", 80 * MIB),
        ("8", 30 * MIB),
    ]
    assert [s.name for s in summary.shares_by("path")] == ["h2d pinned", "d2h pageable"]
    assert [(s.name, s.count) for s in summary.shares_by("thread")] == [("process 8, thread 3", 30)]
    assert summary.shares_by("stream")[0].share == pytest.approx(80 / 110)


def test_losses_and_costs_are_told() -> None:
    summary = summarise(timeline(counters=(even_counters(1.0),)))
    assert (summary.losses.samples, summary.losses.unknown_seconds) == (3, pytest.approx(0))
    assert [(c.source, c.cpu_seconds) for c in summary.costs] == [("pm of g0", 0.25)]


def test_json_holds_plain_values() -> None:
    seen = timeline(copies(1000, 10 * MB), counters=(even_counters(20.0),))
    told = json.loads(json.dumps(summary_json(summarise(seen, MACHINE))))
    assert told["version"] == 1
    assert told["ways"][0]["rates"]["windows"][0]["p50_gbs"] == pytest.approx(20, rel=0.01)


@pytest.mark.parametrize(("name", "direction"), [("copies-4mib-h2d", 0), ("copies-4mib-d2h", 1)])
def test_a_real_watch_attributes_all_it_counted(name: str, direction: int) -> None:
    counted, traced = captures.counters(name), captures.operations(name)
    start, end = captures.span(counted)
    seen = Timeline(start, end, (counted,), traced)
    found = summarise(seen, MACHINE).directions
    assert [w.unattributed_bytes for w in found] == [0.0, 0.0]
    assert found[direction].traced_bytes == pytest.approx(201 * MIB)
    assert end - start > MS


def test_of_very_many_groups_the_heaviest_and_the_most_frequent_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lanescope.trace.attribution.MOST_GROUPS", 1)
    seen = timeline(copies(2, 8 * MIB), copies(3, MIB), copies(9, 512))
    assert [(g.count, g.bytes) for g in summarise(seen).copies] == [(2, 8 * MIB), (9, 512)]
