"""NVLink beside PCIe: who is joined, what is told, and that neither is taken for the other."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lanescope.cli.live import live_text
from lanescope.machine import Gpu, Link, Machine, NvLink
from lanescope.studies.watch_report import summary_json
from lanescope.trace.columns import COUNTERS, read_columns, write_columns
from lanescope.trace.counter_spool import RECORD, counter_header, read_all_counters
from lanescope.trace.limits import Ceilings, fills_all, joined, nvlink_limits, nvlinked
from lanescope.trace.summarise import summarise
from lanescope.trace.summary import evaluate, parse
from lanescope.trace.timeline import Counters, Operations, best_counters
from lanescope.trace.wire_fit import Aligner, model_of
from lanescope.watching.live import LiveWatch
from tests.report.watch_factory import summary_text
from tests.trace.timelines import DEVICE, MS, S, copies, even_counters, timeline

MB = 1_000_000


def over_nvlink(gpu, rx_gbs=0.0, tx_gbs=0.0, source="counters", lost=0):
    """Counters of NVLink at 10 ms, of a steady payload over one second."""
    end = np.arange(101) * 10 * MS
    rx, tx = (np.full(101, round(gbs * 10 * MS)) for gbs in (rx_gbs, tx_gbs))
    known = np.arange(101) > 0
    return Counters(source, gpu, 10 * MS, end, rx, tx, known, lost, 0.125, link="nvlink")


def between(count, size, source=0, destination=1):
    """Copies from GPU to GPU, each 1 ms after the other."""
    start = np.arange(count) * MS
    return Operations.of(
        pid=np.full(count, 7),
        bytes=np.full(count, size),
        source_kind=np.full(count, DEVICE),
        destination_kind=np.full(count, DEVICE),
        source_device=np.full(count, source),
        destination_device=np.full(count, destination),
        device=np.full(count, source),
        start_ns=start,
        end_ns=start + MS // 2,
    )


def machine_of(*bundles):
    links = tuple(Link.of_nvlink(a, b, NvLink(n, 26.5625, 4)) for a, b, n in bundles)
    return Machine("m", gpus=tuple(Gpu(i, "Test GPU") for i in range(4)), links=links)


def test_gpus_are_joined_directly_or_by_one_switch():
    direct = machine_of(("g0", "g1", 4), ("g1", "g2", 2))
    assert nvlinked(direct) == (0, 1, 2)
    assert joined(direct) == {(0, 1), (1, 0), (1, 2), (2, 1)}  # not 0 and 2: 1 is no switch
    assert [fills_all(direct, gpu) for gpu in range(3)] == [True, False, True]
    switched = machine_of(("g0", "nvswitch", 18), ("g3", "nvswitch", 18))
    assert joined(switched) == {(0, 3), (3, 0)}
    assert nvlinked(machine_of()) == ()


def test_limits_are_of_all_active_links_together():
    mesh = machine_of(("g0", "g1", 4), ("g1", "g2", 2))
    received, sent = nvlink_limits(mesh, 1)
    assert received.gbs == sent.gbs == pytest.approx(6 * 25.0)
    assert received.source == "payload limit of NVLink 4 x6"
    measured = nvlink_limits(mesh, 1, Ceilings({(1, "nvlink-tx"): 140.0}, "measured in x"))
    assert (measured[0].gbs, measured[1].gbs) == (pytest.approx(150.0), 140.0)
    for machine in (None, machine_of()):
        limit, _ = nvlink_limits(machine, 0)
        assert (limit.gbs, limit.source) == (None, "the NVLinks of g0 are not known")


def test_one_direction_is_no_traffic_the_other_direction(two_gpus):
    # 20 GB/s counted, half of it traced; each end sees the same bytes
    counters = (over_nvlink(0, tx_gbs=20.0), over_nvlink(1, rx_gbs=20.0))
    seen = timeline(between(1000, 10 * MB), counters=counters)
    summary = summarise(seen, two_gpus)
    directions = {direction.label: direction for direction in summary.nvlinks}
    assert list(directions) == ["g0.nvlink-rx", "g0.nvlink-tx", "g1.nvlink-rx", "g1.nvlink-tx"]
    for label in ("g0.nvlink-tx", "g1.nvlink-rx"):
        direction = directions[label]
        assert direction.told == "counters"
        assert direction.counter_bytes == pytest.approx(20e9, rel=1e-9)
        assert direction.traced_bytes == pytest.approx(10e9, rel=1e-9)
        assert direction.unattributed_bytes == pytest.approx(10e9, rel=1e-3)
        assert direction.share_of_limit == pytest.approx(20 / 450, rel=1e-6)
        reasons = {w.window_ns: w.reason for w in direction.rates.windows}
        assert reasons[MS] == "sampled every 10 ms"
        assert reasons[10 * MS] is None
    assert [directions[k].counter_bytes for k in ("g0.nvlink-rx", "g1.nvlink-tx")] == [0.0, 0.0]
    # the same bytes on both ends: told once
    assert summary.notes[0].startswith("9.31 GiB crossed NVLink that no traced copy")


def test_little_beside_much_is_told_as_it_was_counted(two_gpus):
    seen = timeline(counters=(over_nvlink(0, rx_gbs=0.01, tx_gbs=400.0),))
    received, sent = summarise(seen, two_gpus).nvlinks
    assert received.counter_bytes == pytest.approx(0.01e9)
    assert sent.counter_bytes == pytest.approx(400e9)


def test_pcie_numbers_do_not_change_by_what_crosses_nvlink(two_gpus):
    trace = copies(1000, 10 * MB)
    without = summarise(timeline(trace, counters=(even_counters(20.0),)), two_gpus)
    nvlink = tuple(over_nvlink(0, 300.0, 300.0, source, lost=9) for source in ("pm", "counters"))
    with_it = summarise(timeline(trace, counters=(*nvlink, even_counters(20.0))), two_gpus)
    assert with_it.directions == without.directions
    assert with_it.alignments == without.alignments
    kept = {"nvlink_samples": 0, "nvlink_unknown_seconds": None}
    assert dataclasses.replace(with_it.losses, **kept) == without.losses
    assert with_it.losses.nvlink_samples == 18
    assert with_it.losses.nvlink_unknown_seconds == pytest.approx(0.0)
    assert "counters of NVLink of g0" in [cost.source for cost in with_it.costs]


def test_nvlink_alone_makes_no_pcie_of_it(two_gpus):
    seen = timeline(counters=(over_nvlink(0, 5.0, source="pm"),))
    summary = summarise(seen, two_gpus)
    assert summary.directions == ()
    assert summary.losses.unknown_seconds is None
    assert best_counters(seen, 0) is None
    assert best_counters(seen, 0, "nvlink") is seen.counters[0]
    assert Aligner(seen.counters[0], copies(20, 10 * MB)).found() is None
    with pytest.raises(ValueError, match="no model of PCIe"):
        model_of(seen, seen.counters[0])


def test_of_several_counters_pm_is_told(two_gpus):
    seen = timeline(counters=(over_nvlink(0, 5.0), over_nvlink(0, 6.0, source="pm")))
    assert summarise(seen, two_gpus).nvlinks[0].source.startswith("pm of NVLink")


def test_copies_that_nvlink_did_not_carry_are_told(two_gpus):
    counters = (over_nvlink(0), over_nvlink(1))
    notes = summarise(timeline(between(1000, 10 * MB), counters=counters), two_gpus).notes
    assert [n for n in notes if n.startswith("Of 9.31 GiB of traced copies between GPUs")]


def test_a_trace_alone_tells_nvlink_where_the_machine_has_it(two_gpus):
    seen = timeline(between(1000, 10 * MB))
    (_, sent, received, _) = summarise(seen, two_gpus).nvlinks
    assert (sent.told, sent.counter_bytes, sent.unattributed_bytes) == ("trace", None, None)
    assert sent.traced_bytes == received.traced_bytes == pytest.approx(10e9)
    for machine in (None, machine_of()):  # over PCIe, as far as is known
        assert summarise(seen, machine).nvlinks == ()
    assert summarise(timeline(copies(10, MB)), two_gpus).nvlinks == ()


def test_conditions_on_nvlink(two_gpus):
    seen = timeline(counters=(over_nvlink(0, 20.0), even_counters(1.0)))
    summary = summarise(seen, two_gpus)
    for text, passed in (
        ("g0.nvlink-rx.mean > 19GB/s", True),
        ("nvlink-rx.p99 > 19GB/s", True),  # over 10 ms
        ("nvlink-rx.peak@1s < 19GB/s", False),
        ("nvlink-rx.p50@1ms > 1GB/s", None),  # read every 10 ms: not known
        ("nvlink-tx.bytes < 1MB", True),
        ("nvlink-rx.share > 4%", True),
        ("h2d.mean < 2GB/s", True),
    ):
        assert evaluate(parse(text), summary).passed is passed, text
    alone = summarise(timeline(counters=(even_counters(1.0),)), two_gpus)
    assert evaluate(parse("nvlink-rx.mean > 1GB/s"), alone).passed is None


def test_spools_and_columns_keep_the_link_and_old_ones_are_pcie(tmp_path):
    records = np.array([(S, 0xFFFFFFFF, 0xFFFFFFFF), (2 * S, 7, 8)], RECORD).tobytes()
    for name, header in (
        ("pm.g0", counter_header("pm", 0, 1000)),
        ("pm-nvlink.g0", counter_header("pm", 0, 1000, link="nvlink")),
    ):
        (tmp_path / f"{name}.bin").write_bytes(header.encode() + records)
    assert "link" not in counter_header("pm", 0, 1000)  # as before there was another
    found = read_all_counters(tmp_path)
    assert [(c.source, c.gpu, c.link) for c in found] == [("pm", 0, "pcie"), ("pm", 0, "nvlink")]
    assert found[1].rows(slice(0, 1)).link == "nvlink"
    write_columns(tmp_path, timeline(counters=found))
    assert [c.link for c in read_columns(tmp_path, 0, S).counters] == ["pcie", "nvlink"]
    table = pq.read_table(tmp_path / COUNTERS)
    series = json.loads(table.schema.metadata[b"series"])
    for one in series:
        del one["link"]
    old = table.replace_schema_metadata({b"series": json.dumps(series).encode()})
    pq.write_table(pa.table(old), tmp_path / COUNTERS)
    assert [c.link for c in read_columns(tmp_path, 0, S).counters] == ["pcie", "pcie"]


def test_a_link_that_is_not_known_is_a_sentence(tmp_path, two_gpus):
    path = tmp_path / "x.g0.bin"
    path.write_text(counter_header("pm", 0, 1000, link="token ring"))
    frame = LiveWatch(tmp_path, two_gpus).look(0)
    (problem,) = frame.problems
    assert f"{path}: field 'link' is 'token ring'; it must be pcie or nvlink" in problem


def test_the_live_view_has_rows_of_their_own(tmp_path, two_gpus):
    now = 1_795_281_230 * S
    for name, link, every, moved in (
        ("counters.g0", "pcie", MS, 10 * MB),
        ("counters-nvlink.g0", "nvlink", 10 * MS, 2000 * MB),
    ):
        count = 2 * S // every
        found = np.zeros(count, RECORD)
        found["end_ns"] = now + np.arange(1, count + 1) * every
        found["rx_bytes"] = moved
        header = counter_header("counters", 0, every, link=link).encode()
        (tmp_path / f"{name}.bin").write_bytes(header + found.tobytes())
    frame = LiveWatch(tmp_path, two_gpus).look(now + 2 * S)
    assert [direction.direction for direction in frame.directions] == [
        "h2d",
        "d2h",
        "nvlink-rx",
        "nvlink-tx",
    ]
    down, _, received, sent = frame.directions
    assert down.rates.now_gbs < 10  # 10 GB/s on the wire
    assert (received.rates.now_gbs, sent.rates.now_gbs) == (pytest.approx(200), 0)
    assert received.share_of_limit == pytest.approx(200 / 450)
    lines = live_text(frame, 100).plain.splitlines()
    assert lines[3].startswith("g0 nvlink rx")
    assert "g0 by counters of NVLink every 10 ms, peaks over 10 ms" in lines[5]
    assert all(len(line) <= 100 for line in lines[:5])


def test_text_and_json_have_nvlink_beside_pcie(two_gpus):
    counters = (even_counters(1.0), over_nvlink(0, 20.0), over_nvlink(1, 0.0, 20.0))
    summary = summarise(timeline(between(1000, 20 * MB, 1, 0), counters=counters), two_gpus)
    lines = summary_text(summary).splitlines()
    head = lines.index("Over NVLink, all links of a GPU together")
    assert "10 ms: p50 p99 peak" in lines[head + 2]
    assert "10 µs" not in lines[head + 2]  # nothing is known of so short a time
    assert lines[head + 4].split()[:6] == ["g0", "nvlink", "rx", "18.6", "GiB", "18.6"]
    assert any("of NVLink 0 samples" in line for line in lines)
    told = json.loads(json.dumps(summary_json(summary)))
    assert [w["direction"] for w in told["nvlinks"][:2]] == ["nvlink-rx", "nvlink-tx"]
    assert {w["direction"] for w in told["ways"]} == {"h2d", "d2h"}
    assert told["nvlinks"][0]["unattributed_bytes"] == 0.0
    idle = summarise(timeline(counters=(even_counters(1.0), over_nvlink(0))), two_gpus)
    assert "Over NVLink, all links of a GPU together: nothing." in summary_text(idle)
    assert "Over NVLink" not in summary_text(summarise(timeline(copies(3, MB))))
