"""Measured transfers as they are kept, and the picture of their data rates."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from lanescope.errors import InputError
from lanescope.report.charts import write_chart
from lanescope.studies.compress.blocks import rate_charts
from lanescope.studies.compress.compressed import read_crossings

MIB = 1 << 20
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "compress" / "figures.py"


def row(size, codec="exponent", data="bf16 N(0,1)", path="p2p", sms=48, faster=1.25):
    raw = [size / 400e9 * f for f in (1.0, 1.0, 1.1, 0.9, 1.0, 1.0, 1.0)]
    return {
        "path": path,
        "data": data,
        "codec": codec,
        "bytes": size,
        "sms": sms,
        "raw_seconds": raw,
        "seconds": [one / faster for one in raw],
        "wire_bytes": size * 3 // 4,
        "something": "else",
    }


@pytest.fixture
def kept(tmp_path):
    def write(*rows):
        path = tmp_path / "channel.json"
        path.write_text(json.dumps({"rows": rows}))
        return path

    return write


def test_each_path_and_data_is_a_chart_with_the_raw_rate_and_every_codec(kept):
    rows = [row(s, c) for c in ("exponent", "delta") for s in (64 * MIB, MIB)]
    charts = rate_charts(read_crossings(kept(*rows, row(MIB, path="d2h", data="constant"))))
    assert [chart.key for chart in charts] == [
        "compress-rate-p2p-bf16-n-0-1",
        "compress-rate-d2h-constant",
    ]
    raw, exponent, delta = charts[0].curves
    assert (raw.name, exponent.name) == ("raw", "exponent, ratio 1.33")
    assert delta.name.startswith("delta")
    assert raw.x == exponent.x == (MIB, 64 * MIB)
    assert raw.y == pytest.approx((400, 400))
    assert exponent.y == pytest.approx((500, 500))
    assert exponent.low[0] < exponent.y[0] < exponent.high[0]
    assert len({curve.colour for curve in charts[0].curves}) == 3


def test_numbers_of_sms_are_told_apart_where_there_are_several(kept):
    charts = rate_charts(read_crossings(kept(row(MIB, sms=16), row(MIB, sms=0, faster=2))))
    _, few, all_of = charts[0].curves
    assert few.name.endswith("16 SMs")
    assert all_of.name.endswith("all SMs")
    assert few.colour == all_of.colour
    assert few.dash != all_of.dash


def test_the_picture_is_written(kept, tmp_path):
    (chart,) = rate_charts(read_crossings(kept(row(MIB), row(1 << 30))))
    write_chart(chart, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "Effective data rate" in text
    assert "1 GiB" in text


def test_the_script_writes_all_of_them(kept, tmp_path, monkeypatch, capsys):
    out = tmp_path / "made"
    arguments = [str(SCRIPT), str(kept(row(MIB), row(MIB, path="h2d"))), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    made = capsys.readouterr().out.split()
    assert sorted(made) == sorted(str(path) for path in out.iterdir())
    assert len(made) == 2


@pytest.mark.parametrize(
    "broken",
    [
        {"seconds": []},
        {"seconds": [0.0]},
        {"raw_seconds": [float("nan")]},
        {"bytes": 0},
        {"wire_bytes": 0},
        {"seconds": None},
        {"sms": "many"},
    ],
)
def test_rows_that_are_none_are_one_sentence(kept, broken):
    with pytest.raises(InputError, match=r"\.json.* compress\.json$|NaN is no number"):
        read_crossings(kept(row(MIB) | broken))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": 3}', '{"rows": [{}]}'])
def test_other_files_are_one_sentence(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        read_crossings(path)
    with pytest.raises(InputError, match="cannot read"):
        read_crossings(tmp_path / "missing.json")
