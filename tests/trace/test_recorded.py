"""Whole watches of an H200: what is told of them is what ran."""

from pathlib import Path

import numpy as np
import pytest

from lanescope.findings.trace import evaluate_watch
from lanescope.trace.codes import DirectionCode
from lanescope.trace.limits import pcie_links
from lanescope.trace.rectangles import between
from lanescope.trace.store import read_watch
from lanescope.trace.wire import payload_records, settle
from lanescope.trace.wire_fit import model_of

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results" / "h200-x1" / "watch"
#: Samples are 100 µs apart, and no other copy is nearer.
MARGIN_NS = 40_000
#: Of less than this what the sampler itself moves meanwhile counts.
LARGE = 512 << 20


@pytest.fixture(params=["vector-add", "matmul"])
def run(request):
    return read_watch(RECORDED / request.param)


def test_payload_by_counters_is_that_of_the_copies(run):
    counters, operations = run.timeline.counters[0], run.timeline.operations
    copies = operations.rows(operations.is_copy)
    link = pcie_links(run.manifest.machine, 0)[0].pcie
    model = model_of(run.timeline, counters, link)
    assert len(copies) >= 3
    for direction, number in ((DirectionCode.H2D, 0), (DirectionCode.D2H, 1)):
        mine = copies.rows(copies.direction == direction)
        begin, end = int(mine.start_ns.min()) - MARGIN_NS, int(mine.end_ns.max()) + MARGIN_NS
        parts = zip(*payload_records(counters, model, None, np.sort(mine.end_ns)), strict=True)
        times, rows = map(np.concatenate, parts)
        payload = settle(*between(times, rows[:, :2].T, np.array([begin, end]))[:, 0])
        true = int(mine.bytes.sum())
        assert float(payload[number]) == pytest.approx(true, rel=0.002 if true > LARGE else 0.01)
        assert float(payload[1 - number]) < 0.005 * int(mine.bytes.sum())


def test_no_sample_was_lost_and_every_copy_is_attributed(run):
    summary = evaluate_watch(run, runs=Path("/nowhere")).summary
    assert summary.losses.samples == summary.losses.records == 0
    assert summary.losses.cut_processes == ()
    (process,) = summary.shares_by("process")
    assert process.share == 1.0
    assert "lanescope.examples" in process.name


def test_vector_add_waits_for_its_copies():
    told = evaluate_watch(read_watch(RECORDED / "vector-add"), runs=Path("/nowhere"))
    (finding,) = (f for f in told.findings if f.kind == "synchronous-copies")
    assert "4 synchronous copies of 1526 MiB" in finding.sentence
    assert finding.gain_seconds.high == pytest.approx(0.156, rel=0.01)
