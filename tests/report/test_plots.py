from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from lanescope.measurement.result import Status
from lanescope.model.sweep import sweep_series
from lanescope.report.palette import FROM_GPU, STATUS_COLOURS, TO_GPU
from lanescope.report.plot_parts import Figure
from lanescope.report.plots import bandwidth_figure, check_figure, time_figure
from lanescope.run.run import Run
from tests.report import factory
from tests.report.factory import NASTY


def figures(run: Run) -> list[Figure]:
    series = sweep_series(r for r in run.results if len(r.copies) == 1)
    curves = [bandwidth_figure(series), time_figure(series)] if series else []
    return [check_figure(run.results), *curves]


def points(figure: Figure) -> list[dict[str, Any]]:
    return [t for t in figure["data"] if t.get("mode") == "lines+markers"]


def test_figures_are_json(any_run: Run):
    for figure in figures(any_run):
        assert json.loads(json.dumps(figure, allow_nan=False)) == figure


def test_figures_of_nothing():
    for figure in (check_figure([]), bandwidth_figure([]), time_figure([])):
        json.dumps(figure, allow_nan=False)
        assert figure["data"] == []


def test_every_measured_path_has_a_bar_and_a_whisker():
    run = factory.check_run(missing="g1")
    bars = [t for t in check_figure(run.results)["data"] if t["type"] == "bar"]
    assert sum(len(t["x"]) for t in bars) == sum(len(r.copies) for r in run.results)
    for trace in bars:
        assert all(v >= 0 for v in trace["error_x"]["array"])
        assert all(v > 0 for v in trace["error_x"]["arrayminus"])


def test_bars_are_coloured_by_verdict_and_limits_marked():
    data = check_figure(factory.check_run(slow="g0").results)["data"]
    colours = {t["name"]: t["marker"]["color"] for t in data if t["type"] == "bar"}
    assert colours["slow"] == STATUS_COLOURS[Status.SLOW]
    assert colours["healthy"] == STATUS_COLOURS[Status.HEALTHY]
    limits = [x for t in data if t["name"] == "limit" for x in t["x"]]
    assert any(58 < x < 59 for x in limits)
    assert sum(t["showlegend"] for t in data if t["name"] == "limit") == 1


def test_every_row_has_its_own_label():
    layout = check_figure(factory.check_run().results)["layout"]
    labels = [t for key in layout if key.startswith("yaxis") for t in layout[key]["ticktext"]]
    assert len(labels) == len(set(labels)) == 16


def test_hover_holds_all_numbers():
    trace = check_figure(factory.check_run().results)["data"][-2]
    for words in ("median", "5th to 95th", "half-width", "samples", "fastest", "limit", "verdict"):
        assert words in trace["hovertext"][0]


def test_directions_have_hues_and_clocks_have_dashes():
    series = sweep_series(factory.sweep_run().results)
    for figure in (bandwidth_figure(series), time_figure(series)):
        looks = {t["name"]: (t["line"]["color"], t["line"]["dash"]) for t in points(figure)}
        assert looks["h0 → g0, pinned, GPU events"] == (TO_GPU, "solid")
        assert looks["g0 → h0, pinned, GPU events"] == (FROM_GPU, "solid")
        assert len({dash for colour, dash in looks.values() if colour == TO_GPU}) == 3


def test_a_sweep_shows_fit_band_limit_and_saturation():
    series = sweep_series(factory.sweep_run().results)
    names = [t["name"] for t in bandwidth_figure(series)["data"]]
    assert sum("fitted" in n for n in names) == len(series) == 6
    assert sum("percentile" in n for n in names) == 6
    assert sum(n.startswith("limit of") for n in names) == 2
    assert "95 % of the plateau" in names
    hover = points(bandwidth_figure(series))[0]["hovertext"][0]
    assert "plateau" in hover
    assert "delay" in hover


def test_axes_name_their_units():
    layout = bandwidth_figure(sweep_series(factory.sweep_run().results))["layout"]
    assert layout["xaxis"]["type"] == "log"
    assert layout["xaxis"]["ticktext"][0] == "16 B"
    assert layout["xaxis"]["ticktext"][-1] == "2 GiB"
    assert "GB/s" in layout["yaxis"]["title"]["text"]


@pytest.mark.parametrize("verb", ["check", "sweep"])
def test_predictions_are_called_so(verb: str):
    run = factory.predicted_run(verb)
    for figure in figures(run):
        layout = figure["layout"]
        assert layout["title"]["text"].startswith("Predicted")
        entries = [t for t in figure["data"] if t.get("showlegend", True)]
        curves = [t["name"] for t in entries if t["name"].startswith(("limit", "95 %")) is False]
        assert all("predicted" in name for name in curves)
        assert not any("percentile" in t["name"] for t in figure["data"])


def test_measurements_are_never_called_predicted():
    assert "redicted" not in json.dumps(figures(factory.sweep_run()))


def test_names_are_not_read_as_markup():
    source = json.dumps(figures(factory.nasty_run()))
    assert "<script" not in source
    assert NASTY not in source


def test_plotly_is_not_imported():
    code = "import sys, lanescope.report.page; sys.exit('plotly' in sys.modules)"
    path = [p for p in sys.path if p]
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], check=True
    )
