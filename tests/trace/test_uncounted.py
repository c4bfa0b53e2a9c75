"""Counters that hold less than recorded copies moved, and those that only seem to."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from lanescope.machine import Gpu, Link, Machine, NvLink
from lanescope.studies.watch_blocks import end_lines
from lanescope.studies.watch_report import summary_json
from lanescope.trace.limits import LinkLimit
from lanescope.trace.nvlink_rates import missing_links, nvlink_notes, pcie_notes
from lanescope.trace.summarise import summarise
from lanescope.trace.summary import DirectionSummary
from lanescope.trace.timeline import CALL_TIMES, Counters, Operations
from tests.trace.timelines import DEVICE, MS, US, S, copies, even_counters, timeline

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SIZE = 32 << 20
EVERY = 10 * MS
LINKS = 18


def machine_of(gpus=2, links=LINKS):
    ends = [("g0", "g1")] if gpus == 2 else [(f"g{gpu}", "nvswitch") for gpu in range(gpus)]
    found = tuple(Link.of_nvlink(a, b, NvLink(links, 26.5625, 4)) for a, b in ends)
    return Machine("m", gpus=tuple(Gpu(i, "Test GPU") for i in range(gpus)), links=found)


def between(source, destination, count=100, first_ns=5 * MS, **columns):
    """Copies of 32 MiB from GPU to GPU, each 10 ms after the other."""
    start = first_ns + np.arange(count) * EVERY
    told = {
        "pid": 7, "bytes": SIZE, "source_kind": DEVICE, "destination_kind": DEVICE,
        "source_device": source, "destination_device": destination, "device": source, **columns,
    }  # fmt: skip
    filled = {key: np.full(count, value) for key, value in told.items()}
    return Operations.of(start_ns=start, end_ns=start + MS // 10, **filled)


def counted(gpu, received=1.0, sent=1.0, seconds=1.0, first_ns=5 * MS):
    """Counters of NVLink every 100 µs that hold a share of such copies, each in one sample."""
    end = np.arange(round(seconds * 10_000) + 1) * 100 * US
    inside = (end > first_ns) & ((end - first_ns - 100 * US) % EVERY == 0)
    rx, tx = (np.where(inside, round(SIZE * share), 0) for share in (received, sent))
    return Counters("pm", gpu, 100 * US, end, rx, tx, end > 0, link="nvlink")


def both_ways():
    return between(0, 1), between(1, 0)


def said(operations, *counters, machine=None, **more):
    return summarise(timeline(*operations, counters=counters, **more), machine or machine_of())


def test_a_link_that_is_not_counted_is_known_by_its_share():
    """As on two H100s: 18 NVLinks, of which the counters of one GPU held 17."""
    summary = said(both_ways(), counted(0, 17 / 18, 17 / 18), counted(1))
    assert summary.notes == (
        "g0: counters of nvlink-rx and nvlink-tx hold 2.95 GiB of 3.12 GiB (94.4 %) and 2.95 GiB "
        "of 3.12 GiB (94.4 %) of recorded copies that crossed meanwhile: as if 1 of 18 NVLinks was "
        "not counted. Those of g1 agree with the copies. Rely on the bytes of the copies; rates "
        "that are counted of g0 over NVLink are as much too low.",
    )
    told = summary_json(summary)
    assert told["notes"] == list(summary.notes)
    assert {one["crossed_bytes"] for one in told["nvlinks"]} == {100.0 * SIZE}
    sources = [one["source"].partition("; ")[2] for one in told["nvlinks"]]
    assert sources == [
        *["payload alone, over 17 of 18 NVLinks, as it looks"] * 2,
        *["payload alone, over all NVLinks together"] * 2,
    ]


@pytest.mark.parametrize(("missing", "words"), [(2, "2 of 18 NVLinks were"), (5, "5 of 18")])
def test_several_links_of_one_gpu_among_four(missing, words):
    machine = machine_of(4)
    share = (LINKS - missing) / LINKS
    rest = [counted(gpu, sent=0) for gpu in (2, 3)]
    pairs = between(0, 1), between(0, 2), between(0, 3)
    threefold = counted(0, 0, 3 * share)
    (note,) = said(pairs, threefold, counted(1, sent=0), *rest, machine=machine).notes
    assert note.startswith("g0: counters of nvlink-tx hold ")
    assert f"as if {words}" in note
    assert "Those of g1, g2 and g3 agree with the copies." in note


def test_a_link_of_each_gpu_is_known_by_the_share_alone():
    notes = said(both_ways(), counted(0, 17 / 18, 17 / 18), counted(1, 17 / 18, 17 / 18)).notes
    assert [note[:3] for note in notes] == ["g0:", "g1:"]
    assert not any("agree" in note for note in notes)


def test_a_share_that_fits_no_number_of_links_is_reported_if_the_other_end_agrees():
    (note,) = said(both_ways(), counted(0, 0.92, 1), counted(1)).notes
    assert "(92.0 %) of recorded copies that crossed meanwhile. Those of g1 agree" in note
    assert said(both_ways(), counted(0, 0.92, 1), counted(1, 1, 0.92)).notes == ()


def test_copies_through_the_host_are_no_missing_links():
    """Peer access is enabled one way only: neither end counts the copies of the other way."""
    (note,) = said(both_ways(), counted(0, 0, 1), counted(1, 1, 0)).notes
    assert "NVLink carried 3.12 GiB: the others went through the host" in note


def test_all_that_was_counted_says_nothing():
    assert said(both_ways(), counted(0), counted(1)).notes == ()


def test_little_says_nothing():
    few = between(0, 1, 7), between(1, 0, 7)
    assert not any("of recorded copies" in n for n in said(few, counted(0, 0, 0), counted(1)).notes)


@pytest.mark.parametrize("unknown", [slice(2000, 5000), slice(0, 3000), slice(1, 9000, 60)])
def test_copies_in_time_that_is_not_known_are_not_missing(unknown):
    """Nor those at its edges, of which a part is counted."""
    ends = []
    for counters in (counted(0), counted(1)):
        known = counters.known.copy()
        known[unknown] = False
        half = np.where(known, 1, 0)
        ends.append(
            dataclasses.replace(
                counters,
                known=known,
                rx_bytes=counters.rx_bytes * half,
                tx_bytes=counters.tx_bytes * half,
            )
        )
    assert not any("of recorded copies" in note for note in said(both_ways(), *ends).notes)


def by_calls(*operations, counters, **of_process):
    """Return the notes where copies have the times of their calls."""
    seen = timeline(*operations, counters=counters)
    of_process = {"timed_by": CALL_TIMES, **of_process}
    called = tuple(dataclasses.replace(p, **of_process) for p in seen.processes)
    return summarise(dataclasses.replace(seen, processes=called), machine_of()).notes


def test_a_link_that_is_not_counted_is_known_by_calls_alone():
    notes = by_calls(*both_ways(), counters=(counted(0, 17 / 18, 17 / 18), counted(1)))
    assert "2.95 GiB of 3.12 GiB (94.4 %)" in notes[-1]
    assert "as if 1 of 18 NVLinks was not counted" in notes[-1]


@pytest.mark.parametrize("end", [{"end_ns": S}, {"end_ns": None}, {"complete": False}])
def test_copies_may_be_made_long_after_their_calls(end):
    """All are called for in 0.1 s, and made in 1 s, of which the last half is not counted."""
    hurried = [
        dataclasses.replace(o, start_ns=o.start_ns // 10, end_ns=o.end_ns // 10 + MS)
        for o in both_ways()
    ]
    ends = tuple(counted(gpu, seconds=0.5) for gpu in (0, 1))
    notes = by_calls(*hurried, counters=ends, **end)
    assert not any("of recorded copies" in note for note in notes)


def test_managed_memory_may_not_have_moved():
    managed = between(0, 1, source_kind=5), between(1, 0, source_kind=5)
    assert not any("recorded" in n for n in said(managed, counted(0, 0.5, 0.5), counted(1)).notes)


def test_bytes_that_pcie_does_not_count_are_reported():
    down = copies(500, 10_000_000, every_ns=2 * MS)
    (note,) = said([down], even_counters(4.5)).notes
    assert note == (
        "g0: counters of h2d hold 4.19 GiB of 4.65 GiB (90.2 %) of recorded copies that crossed "
        "meanwhile: they count too little, or these copies went another way than PCIe. Rely on the "
        "bytes of the copies; rates that are counted of g0 over PCIe are as much too low."
    )
    assert said([down], even_counters(5.0)).notes == ()
    assert said([down], even_counters(4.9)).notes == ()  # packets may be larger than expected


def test_what_pcie_counts_of_another_gpu_is_not_missing():
    """Copies to memory of GPU 1, by a context of GPU 0, cross the link of GPU 1."""
    down = copies(500, 10_000_000, every_ns=2 * MS)
    other = dataclasses.replace(even_counters(5.0), gpu=1)
    notes = said([down], even_counters(0.0), other).notes
    assert not any("of recorded copies" in note for note in notes)


def test_little_traffic_against_the_other_direction_is_not_missing():
    down = copies(500, 100_000_000, every_ns=2 * MS)
    up = copies(500, 600_000, every_ns=2 * MS, down=False)
    assert said([down, up], even_counters(50.0)).notes == ()


def test_time_before_the_first_sample_is_reported_apart():
    """Of 1.8 s that are not known 1.5 s are before the first sample; GPU 1 began earlier."""
    late, early = (
        dataclasses.replace(even_counters(1.0, seconds=2.0), end_ns=None, gpu=gpu) for gpu in (0, 1)
    )
    ends = even_counters(1.0, seconds=2.0).end_ns
    known = (ends > 0) & ~((ends > 200 * MS) & (ends <= 500 * MS))
    late = dataclasses.replace(late, end_ns=ends + 1500 * MS, known=known)
    early = dataclasses.replace(early, end_ns=ends + 1000 * MS)
    summary = summarise(timeline(seconds=3.5, counters=(late, early)))
    assert summary.losses.unknown_seconds == pytest.approx(1.8)
    assert summary.losses.before_seconds == pytest.approx(1.5)
    assert "know nothing of 1.80 s, 1.50 s of it before their first sample" in end_lines(summary)[0]
    assert summary_json(summary)["losses"]["before_seconds"] == pytest.approx(1.5)


def test_time_before_the_first_sample_is_no_more_than_all_that_is_not_known():
    """Counters went on for 50 ms after the end."""
    whole = even_counters(1.0, seconds=2.0)
    late = dataclasses.replace(whole, end_ns=whole.end_ns + 500 * MS)
    losses = summarise(timeline(seconds=2.45, counters=(late,))).losses
    assert losses.before_seconds == pytest.approx(0.5)
    assert losses.unknown_seconds == losses.before_seconds


def test_shares_of_links():
    assert [missing_links(k / 18, 18) for k in range(19)] == [None, *range(1, 18), None]
    assert missing_links(1 / 18 + 0.002, 18) is None
    assert missing_links(0.0561, 18) == missing_links(0.0549, 18) == 1
    assert missing_links(0.05, 0) is None


def directions_of(path):
    """Return each two-way list of directions in a stored summary."""

    def lists(value):
        if isinstance(value, dict):
            for one in value.values():
                yield from lists(one)
        elif isinstance(value, list):
            if value and isinstance(value[0], dict) and "counter_bytes" in value[0]:
                yield [_direction(one) for one in value]
            for one in value:
                yield from lists(one)

    return lists(json.loads(path.read_text()))


def _direction(one):
    crossed = one.get("crossed_bytes", one["traced_bytes"])
    return DirectionSummary(
        one["gpu"], one["direction"], "counters", one["source"], None, one["counter_bytes"],
        one["traced_bytes"], one["unattributed_bytes"], LinkLimit(None, ""), crossed_bytes=crossed,
    )  # fmt: skip


#: A stored watch of which GPU 0 lacked a link.
LACKS_ONE = "pair-10us-link-missing.json"


def test_no_stored_watch_that_was_well_is_blamed():
    stored = [
        directions
        for path in sorted(RESULTS.glob("*/watch/*.json"))
        if path.name != LACKS_ONE and "counter_bytes" in path.read_text()
        for directions in directions_of(path)
    ]
    assert sum(map(len, stored)) > 20
    for directions in stored:
        assert pcie_notes(directions) == []
        assert nvlink_notes(tuple(directions), machine_of()) == ()


def test_the_stored_session_that_lacked_a_link_is_known():
    lists = directions_of(RESULTS / "h100-x2" / "watch" / LACKS_ONE)
    (note,) = [note for one in lists for note in nvlink_notes(tuple(one), machine_of())]
    assert "as if 1 of 18 NVLinks was not counted. Those of g1 agree with the copies." in note
