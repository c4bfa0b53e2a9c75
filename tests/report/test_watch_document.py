from __future__ import annotations

import base64
import dataclasses
import json
import re
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lanescope.report import timeline_html
from lanescope.report.timeline_html import UNKNOWN_CODE, Pack, rate_series, rounded_codes
from lanescope.report.timeline_lanes import lanes_of
from lanescope.store.folder import State
from lanescope.trace.run import WatchRun
from lanescope.trace.timeline import Counters, Operations, Ranges, Timeline
from tests.report import watch_factory
from tests.report.conftest import Document
from tests.report.factory import NASTY
from tests.report.watch_factory import START
from tests.report.watch_factory import page as watch_page_html


def told(source: str) -> dict[str, Any]:
    """What the page's script is told, without the columns."""
    data = re.search(r'id="timeline-told">(.*?)</script>', source)
    assert data is not None
    found: dict[str, Any] = json.loads(data[1])
    return found


def columns(source: str) -> list[list[int]]:
    """The page's columns, as its script reads them."""
    data = re.search(r'id="timeline-columns">([A-Za-z0-9+/=]*)</script>', source)
    assert data is not None
    return unpacked(told(source)["columns"], zlib.decompress(base64.b64decode(data[1])))


def unpacked(described: list[dict[str, Any]], raw: bytes) -> list[list[int]]:
    found, at = [], 0
    for one in described:
        size = one["rows"] * one["width"]
        planes = np.frombuffer(raw[at : at + size], np.uint8).reshape(one["width"], one["rows"])
        at += size
        whole = [sum(int(b) << (8 * p) for p, b in enumerate(row)) for row in planes.T]
        if one["signed"]:
            whole = [-(v + 1) // 2 if v % 2 else v // 2 for v in whole]
        found.append(np.cumsum(whole).tolist() if one["growing"] else whole)
    assert at == len(raw)
    return found


RUNS = {
    "one GPU": watch_factory.watch_run,
    "two GPUs": watch_factory.two_gpu_watch,
    "nasty": watch_factory.nasty_run,
    "nothing": lambda: watch_factory.watch_run(Timeline(START, START)),
    "killed": lambda: watch_factory.watch_run(
        end_ns=None, exit_code=None, state=State.RUNNING, sources=()
    ),
}


@pytest.fixture(params=list(RUNS))
def any_watch(request: pytest.FixtureRequest) -> WatchRun:
    return RUNS[request.param]()


def test_pages_are_well_formed_and_load_nothing(any_watch: WatchRun):
    source = watch_page_html(any_watch)
    document = Document(source)
    tags = [tag for tag, _ in document.tags]
    assert tags.count("h1") == 1
    identifiers = [a["id"] for _, a in document.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    for _, attributes in document.tags:
        assert not {"src", "srcset", "action"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    assert "default-src &#x27;none&#x27;" in source
    assert "url(" not in source


def test_names_stay_text():
    source = watch_page_html(watch_factory.nasty_run())
    assert "<script>alert" not in source
    assert told(source)["operations"]["names"][1] == NASTY


def test_pages_tell_what_was_watched():
    document = Document(watch_page_html(watch_factory.watch_run(exit_code=139)))
    for words in (
        "Watch of ./matmul --size 3200",
        "2026-11-20 14:03:11 +01:00",
        "lasted 1.00 s",
        "exit code 139 (SIGSEGV)",
        "What moved",
        "not used: NVML has no byte counters here",
        "→ update the driver to 550 or newer",
        "10,000",
        "cut off, 7 records lost",
    ):
        assert words in document.text


def test_a_long_command_line_stands_below_the_heading():
    program = ("/opt/bin/train", *["--flag"] * 30)
    source = watch_page_html(watch_factory.watch_run(program=program))
    assert "<h1>Watch of train</h1>" in source
    assert f"<code>{' '.join(program)}</code>" in source


def test_a_watch_that_did_not_finish_says_so():
    assert "This run did not finish" in watch_page_html(RUNS["killed"]())


def test_a_watch_that_saw_nothing_says_so():
    source = watch_page_html(RUNS["nothing"]())
    assert "There is nothing to show: pm, trace saw nothing." in source
    assert "timeline-told" not in source


def test_the_page_holds_every_record_and_operation_to_the_nanosecond():
    run = watch_factory.watch_run()
    source = watch_page_html(run)
    data, found = told(source), columns(source)
    (series,) = data["series"]
    (counters,) = run.timeline.counters
    assert found[series["time"]] == (counters.end_ns - START).tolist()
    rx = np.array(found[series["rx"]])
    assert ((rx == UNKNOWN_CODE) == ~counters.known).all()
    operations, rows = run.timeline.operations, data["operations"]
    starts = np.array(found[rows["start"]])
    assert sorted(starts) == sorted(operations.start_ns - START)
    ends = starts + np.array(found[rows["duration"]])
    assert sorted(ends) == sorted(operations.end_ns - START)
    assert sum(found[rows["bytes"]]) == operations.bytes.sum()
    assert [lane["label"] for lane in data["lanes"]] == [
        "h2d, stream 7",
        "d2h, stream 14",
        "kernels, stream 7",
    ]


def test_columns_survive_the_pack():
    pack = Pack()
    given = [[0, 5, 2, 70_000, -3, 1 << 40], [], [7], [-1, -(1 << 52), 1 << 52]]
    for column in given:
        for growing in (False, True):
            pack.add(np.array(column, np.int64), growing=growing)
    raw = zlib.decompress(base64.b64decode(pack.base64()))
    found = unpacked(pack.columns, raw)
    assert found[0::2] == given
    assert found[1::2] == given


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 20_000])
def test_blocks_that_are_compressed_at_once_are_one_stream(size, monkeypatch):
    monkeypatch.setattr(timeline_html, "_BLOCK", 4096)
    content = np.random.default_rng(size).integers(0, 9, size).astype(np.uint8).tobytes()
    stream = timeline_html._compressed(content)
    found = zlib.decompressobj()
    assert found.decompress(stream) == content
    assert found.eof
    assert not found.unused_data


def test_rounded_numbers_are_near_and_in_order():
    exact = np.unique(np.geomspace(1, 1 << 50, 5000).astype(np.int64))
    codes = rounded_codes(exact)
    assert (np.diff(codes) >= 0).all()
    assert codes.max() < UNKNOWN_CODE
    exponent = np.maximum(codes // 1024 - 1, 0)
    back = (codes - exponent * 1024) * (1 << exponent)
    assert (np.abs(back - exact) <= exact * 0.0005).all()
    assert (back[exact < 2048] == exact[exact < 2048]).all()


@pytest.mark.native
@pytest.mark.parametrize("records", [1_000_000])
def test_a_million_records_fit_into_five_megabytes(records: int):
    timeline = Timeline(
        START,
        START + 100 * 10**9,
        (watch_factory.counters(records),),
        watch_factory.operations(100_000, 100.0),
    )
    begun = time.process_time()
    source = watch_page_html(watch_factory.watch_run(timeline))
    assert time.process_time() - begun < 20  # it takes half a second
    assert len(source) <= 5_000_000


def test_bins_keep_peaks_totals_and_what_is_unknown():
    counters = watch_factory.counters(10_000)
    (whole,) = rate_series((counters,), 10_000)
    assert whole.rx_peak is None
    (binned,) = rate_series((counters,), 2_000)
    assert 500 <= binned.end_ns.size <= 510
    assert binned.end_ns[-1] == counters.end_ns[-1]
    assert binned.rx_bytes.sum() == counters.rx_bytes[counters.known].sum()
    rates = counters.tx_bytes / np.maximum(counters.end_ns - counters.start_ns, 1) * 1e9
    assert binned.tx_peak is not None
    assert binned.tx_peak.max() == pytest.approx(rates[counters.known].max())
    unknown = np.diff(binned.end_ns, prepend=START)[~binned.known].sum()
    assert unknown == pytest.approx(101 * counters.interval_ns, rel=1e-3)


def test_records_without_length_are_unknown():
    zeros = np.zeros(3, np.int64)
    counters = Counters("pm", 0, 1000, START + zeros, zeros, zeros, np.ones(3, bool))
    (series,) = rate_series((counters,), 10)
    assert not series.known.any()


def test_short_operations_are_merged_and_long_ones_stay():
    operations = watch_factory.operations(20_000)
    lanes = lanes_of(operations, 2_000)
    assert len(lanes.operations) <= 2_000
    assert lanes.total == lanes.merged.sum() == 20_000
    assert lanes.operations.bytes.sum() == operations.bytes.sum()
    assert lanes.busy_ns.sum() == (operations.end_ns - operations.start_ns).sum()
    single = lanes.operations.rows(lanes.merged == 1)
    longest = np.sort(operations.end_ns - operations.start_ns)[-200:]
    assert np.isin(longest, single.end_ns - single.start_ns).all()
    assert sum(lane.count for lane in lanes.lanes) == len(lanes.operations)


def test_many_streams_share_a_lane():
    n = 100
    start = START + 1000 * np.arange(n)
    many = Operations.of(what=[2] * n, start_ns=start, end_ns=start + 500, stream=np.arange(n))
    (lane,) = lanes_of(many, 1000).lanes
    assert lane.label == "kernels, 100 streams"
    assert lane.count == n


def test_reduced_pages_say_so_and_where_the_rest_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timeline_html, "MOST_RECORDS", 1_000)
    monkeypatch.setattr(timeline_html, "MOST_OPERATIONS", 100)
    document = Document(watch_page_html(watch_factory.watch_run(folder=Path("/runs/7"))))
    assert "10,000 counter records are too many for a page" in document.text
    assert "/runs/7, counters.parquet" in document.text
    assert "300 operations are too many for a page" in document.text


def test_operations_without_counters_are_shown():
    timeline = Timeline(START, START + 10**9, (), watch_factory.operations())
    assert told(watch_page_html(watch_factory.watch_run(timeline)))["series"] == []


def test_ranges_are_lanes_below_those_of_gpus() -> None:
    run = watch_factory.watch_run()
    start = run.timeline.start_ns
    ranges = Ranges.of(
        ("step", "load"),
        pid=[4711] * 3,
        thread=[1] * 3,
        start_ns=[start, start + 10, start + 50],
        end_ns=[start + 100, start + 20, 0],
        pushed=[True, True, False],
        name=[0, 1, 0],
    )
    run = dataclasses.replace(run, timeline=dataclasses.replace(run.timeline, ranges=ranges))
    found = told(watch_page_html(run))
    lanes = [lane for lane in found["lanes"] if lane["kind"] == "range"]
    assert [lane["label"] for lane in lanes] == [
        "ranges, process 4711",
        "ranges, thread 1",
        "ranges, thread 1",
    ]
    assert found["gpus"][-1] == {"index": -1, "heading": "NVTX ranges", "label": "ranges"}
    assert found["what"][-1] == "range"
