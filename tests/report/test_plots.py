from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from lanescope.document.contents import AnyChart, Bars, Chart, Curve
from lanescope.report.charts import specification
from lanescope.report.html import FROM_GPU, STATUS_COLOURS, TO_GPU
from lanescope.results import Status
from lanescope.store.run import Run
from lanescope.studies.runs.charts import bandwidth_chart, check_charts, sweep_series, time_chart
from tests.report import factory
from tests.report.factory import NASTY
from tests.report.specifications import accepted


def charts(run: Run) -> list[AnyChart]:
    series = sweep_series(r for r in run.results if len(r.copies) == 1)
    curves = [bandwidth_chart(series), time_chart(series)] if series else []
    return [*check_charts(run.results), *curves]


def points(chart: Chart) -> list[Curve]:
    return [c for c in chart.curves if c.points and not c.limit and len(c.x) > 1]


def rows(made: list[Bars]) -> list[Any]:
    return [row for chart in made for row in chart.rows]


def test_vega_accepts_every_chart(any_run: Run):
    for chart in charts(any_run):
        spec = specification(chart)
        assert json.loads(json.dumps(spec, allow_nan=False))
        accepted(spec)


def test_charts_of_nothing():
    assert check_charts([]) == []
    for chart in (bandwidth_chart([]), time_chart([])):
        assert chart.curves == ()
        accepted(specification(chart))


def test_every_measured_path_has_a_bar_and_a_whisker():
    run = factory.check_run(missing="g1")
    bars = [bar for row in rows(check_charts(run.results)) for bar in row.bars]
    assert len(bars) == sum(len(r.copies) for r in run.results)
    assert all(bar.low < bar.value <= bar.high for bar in bars)


def test_bars_are_coloured_by_verdict_and_limits_marked():
    made = check_charts(factory.check_run(slow="g0").results)
    colours = {bar.name: bar.hue for row in rows(made) for bar in row.bars}
    assert colours["slow"] == STATUS_COLOURS[Status.SLOW]
    assert colours["healthy"] == STATUS_COLOURS[Status.HEALTHY]
    assert any(58 < row.limit < 59 for row in rows(made) if row.limit)
    for chart in made:
        limited = any(row.limit for row in chart.rows)
        entries = specification(chart)["layer"][-1]["encoding"]["shape"]["scale"]["domain"]
        assert entries.count("limit") == limited


def test_every_row_has_its_own_label():
    labels = [row.label for row in rows(check_charts(factory.check_run().results))]
    assert len(labels) == len(set(labels)) == 16


def test_rows_of_one_name_stand_apart():
    (first, *_) = check_charts(factory.check_run().results)
    twice = Bars("k", "s", "t", "", first.x, (first.rows[0], first.rows[0]))
    domain = specification(twice)["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert domain == [first.rows[0].label, f"{first.rows[0].label} (2)"]


def test_hints_hold_all_numbers():
    hint = rows(check_charts(factory.check_run().results))[-1].bars[0].hint
    for words in ("median", "5th to 95th", "half-width", "samples", "fastest", "limit", "verdict"):
        assert words in hint


def test_directions_have_hues_and_clocks_have_dashes():
    series = sweep_series(factory.sweep_run().results)
    for chart in (bandwidth_chart(series), time_chart(series)):
        looks = {c.name: (c.hue, c.dash) for c in points(chart)}
        assert looks["h0 → g0, pinned, GPU events"] == (TO_GPU, 0)
        assert looks["g0 → h0, pinned, GPU events"] == (FROM_GPU, 0)
        assert len({dash for hue, dash in looks.values() if hue == TO_GPU}) == 3
        assert len({c.marker for c in points(chart) if c.hue == TO_GPU}) == 3


def test_a_sweep_shows_fit_band_limit_and_saturation():
    series = sweep_series(factory.sweep_run().results)
    chart = bandwidth_chart(series)
    names = [c.name for c in chart.curves]
    assert sum("fitted" in n for n in names) == len(series) == 6
    assert sum(bool(c.low) for c in chart.curves) == 6
    assert chart.band == "5th to 95th percentile"
    assert sum(n.startswith("limit of") for n in names) == 2
    assert sum(c.name == "95 % of the plateau" and c.named for c in chart.curves) == 1
    assert not any(c.named for c in chart.curves if "fitted" in c.name)
    hint = points(chart)[0].hints[0]
    assert "plateau" in hint
    assert "delay" in hint


def test_axes_name_their_units():
    chart = bandwidth_chart(sweep_series(factory.sweep_run().results))
    encoding = specification(chart)["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["type"] == "log"
    assert encoding["x"]["axis"]["labelExpr"].startswith('["16 B", ')
    assert '"2 GiB"]' in encoding["x"]["axis"]["labelExpr"]
    assert "GB/s" in encoding["y"]["axis"]["title"]


@pytest.mark.parametrize("verb", ["check", "sweep"])
def test_predictions_are_called_so(verb: str):
    for chart in charts(factory.predicted_run(verb)):
        assert chart.title.startswith("Predicted")
        if isinstance(chart, Bars):
            assert all(b.name == "predicted" and b.guess for r in chart.rows for b in r.bars)
            assert all(b.low is None for r in chart.rows for b in r.bars)
        elif isinstance(chart, Chart):
            named = [c.name for c in chart.curves if c.named and not c.limit]
            assert all("predicted" in n for n in named if not n.startswith("95 %"))
            assert not any(c.low for c in chart.curves)
        assert "percentile" not in json.dumps(specification(chart))


def test_measurements_are_never_called_predicted():
    shown = json.dumps([specification(chart) for chart in charts(factory.sweep_run())])
    assert "redicted" not in shown


def test_what_a_run_says_is_data_and_never_an_expression():
    """Names stand in data, domains and texts; Vega evaluates none of these."""
    made = [specification(chart) for chart in charts(factory.nasty_run())]
    assert json.dumps(NASTY)[1:-1] in json.dumps(made)  # the page escapes it, Vega sets it as text

    def expressions(value: Any, key: str = "") -> list[str]:
        if isinstance(value, dict):
            return [e for k, v in value.items() if k != "values" for e in expressions(v, k)]
        if isinstance(value, list):
            return [e for v in value if key not in ("domain", "range") for e in expressions(v, key)]
        return [value] if isinstance(value, str) else []

    for spec in made:
        assert not any(NASTY in text for text in expressions(spec))


def test_control_characters_are_replaced():
    curve = Curve("a\x00\x1b[31mb", (1.0, 2.0), (1.0, 2.0))
    chart = bandwidth_chart(sweep_series(factory.sweep_run().results))
    spec = specification(Chart("k", "s", "t", "", chart.x, chart.y, (curve,)))
    assert "\\u0000" not in json.dumps(spec)
    assert "\\u001b" not in json.dumps(spec)
    assert spec["data"]["values"][0]["curve"] == "a\ufffd\ufffd[31mb"


def test_vl_convert_is_not_imported_for_specifications():
    code = "import sys, lanescope.studies.runs.document; sys.exit('vl_convert' in sys.modules)"
    path = [p for p in sys.path if p]
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=True
    )
