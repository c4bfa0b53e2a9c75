"""What charts of a suite hold."""

import json
from collections import defaultdict
from functools import cache

import pytest

from lanescope.document.contents import EXTREMES, INTERVAL, PERCENTILES, Chart
from lanescope.report.charts import specification
from lanescope.report.html import COLOURS, DASHES, MARKERS
from lanescope.studies.taruc.charts import taruc_charts
from lanescope.studies.taruc.views import MOST_CURVES
from tests.report import factory
from tests.report.specifications import accepted
from tests.taruc_plan import SIZES, contention, host, paper_machine
from tests.taruc_suite import PLANTED, suite_run, unresolved


@cache
def charts() -> dict[str, Chart]:
    return {c.key: c for c in taruc_charts(suite_run())}


@pytest.mark.native  # five seconds
def test_every_kind_of_figure_is_there():
    keys = set(charts())
    for key in (
        "overhead-memory-h0-allocate",
        "overhead-memory-h0-touch",
        "overhead-memory-h0-release",
        "overhead-gpu-h1-release",
        "host-binding-warm-repeated-pageable-bandwidth",
        "host-binding-warm-repeated-pageable-time",
        "host-pattern-pageable-bandwidth",
        "hostdev-memory-h2d-g0-h0-h0-bandwidth",
        "peer-pair-g0-and-g1-bandwidth",
        "peer-inside",
        "nurma-memory-random-chase-time",
        "nurma-rate-h0-h0",
        "contention-memory-h0+h1-aggregate",
        "contention-sockets-triad-participants",
        "contention-pairs-h2d-near-aggregate",
        "contention-where-aggregate",
    ):
        assert key in keys, key


@pytest.mark.native
def test_charts_are_readable():
    for chart in charts().values():
        curves = [c for c in chart.curves if not c.limit]
        assert 0 < len(curves) <= MOST_CURVES
        assert len(chart.curves) <= MOST_CURVES + 3
        names = [c.name for c in chart.curves]
        assert len(set(names)) == len(names)
        styles = {(c.colour % len(COLOURS), c.dash % len(DASHES)) for c in curves}
        assert len(styles) == len(curves), chart.key
        assert chart.title
        assert chart.x.unit == "B" or "hreads" in chart.x.label or "treams" in chart.x.label
        assert chart.y.unit in ("s", "GB/s")
        assert chart.band in (PERCENTILES, INTERVAL, EXTREMES)
    assert len(COLOURS) == len(MARKERS) >= MOST_CURVES


@pytest.mark.native  # five seconds
def test_points_lie_within_their_bands():
    for chart in charts().values():
        for curve in chart.curves:
            assert list(curve.x) == sorted(set(curve.x))
            if not curve.limit:
                assert len(curve.x) == len(curve.y) == len(curve.low) == len(curve.high)
                assert all(
                    low <= y <= high
                    for low, y, high in zip(curve.low, curve.y, curve.high, strict=True)
                )


@pytest.mark.native  # four seconds
def test_each_view_has_few_charts_in_front():
    counts: dict[str, int] = defaultdict(int)
    for chart in charts().values():
        counts[chart.section] += chart.main
    assert all(1 <= count <= 6 for count in counts.values())


def test_the_binding_that_costs_is_seen():
    chart = charts()["host-binding-flushed-repeated-pageable-bandwidth"]
    last = {c.name: c.y[-1] for c in chart.curves}
    assert last["h0 → h0, thread on h0"] == pytest.approx(12, rel=0.01)
    assert last["h1 → h1, thread on h0"] == pytest.approx(12 * 0.62, rel=0.01)
    assert chart.subtitle == "Caches flushed, repeated blocks, pageable"


def test_limits_are_lines():
    chart = charts()["contention-pairs-h2d-near-aggregate"]
    limits = {c.name: c.y for c in chart.curves if c.limit}
    assert list(limits) == ["limit, g0+g1 and 4 more: 29.2 GB/s", "limit, g2+g3: 14.6 GB/s"]
    assert all(len(set(y)) == 1 for y in limits.values())


def test_unresolved_points_are_hollow_in_time_and_absent_in_bandwidth():
    run = unresolved(suite_run(paper_machine(1, 0), PLANTED, (host,)), 4096)
    found = {c.key: c for c in taruc_charts(run)}
    time, rate = (found[f"host-binding-pageable-{what}"] for what in ("time", "bandwidth"))
    assert time.curves[0].hollow == tuple(size <= 4096 for size in SIZES)
    assert min(rate.curves[0].x) > 4096
    assert time.notes[0].startswith("32 points of up to 4 KiB are hollow")
    assert rate.notes[0].startswith("32 points of up to 4 KiB are left out")
    solid = specification(time)["data"]["values"][0]["solid"]
    assert (solid[0], solid[-1]) == (0, 1)


def test_what_was_not_measured_is_named_with_its_reason():
    run = suite_run(paper_machine(1, 0), PLANTED, (host, contention), missing="/pinned/")
    found = {c.key: c for c in taruc_charts(run)}
    (note,) = found["host-memory"].notes
    assert note.startswith("Not measured: host/h0-h0/by-h0/pinned/repeated/warm/64, ")
    assert note.endswith("and 20 more: Locked memory is limited to 64 KiB.")
    assert "host-binding-pinned-time" not in found
    gone = suite_run(paper_machine(1, 0), PLANTED, (contention,), missing="/triad/")
    chart = next(c for c in taruc_charts(gone) if c.key == "contention-memory-aggregate")
    assert chart.notes[0].startswith("Not measured: contention/memory/h0/triad/1, ")
    assert not any(c.name == "triad" for c in chart.curves)


def test_specifications_are_json_with_a_legend():
    for chart in charts().values():
        spec = specification(chart)
        assert json.loads(json.dumps(spec, allow_nan=False))
        shown = spec["layer"][-1]["encoding"]["shape"]["scale"]["domain"]
        assert shown == [c.name for c in chart.curves]
        hints = [hint for values in spec["data"]["values"] for hint in values["hint"]]
        assert any(chart.band in hint for hint in hints)


def test_vega_accepts_one_chart_of_each_section():
    for chart in {c.section: c for c in charts().values()}.values():
        accepted(specification(chart))


def test_other_runs_have_no_charts():
    for run in (factory.check_run(), factory.sweep_run(), factory.predicted_run()):
        assert taruc_charts(run) == ()
