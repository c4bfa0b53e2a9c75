"""What codecs made of arrays, as a table, as JSON and as a picture."""

import io

import pytest
from rich.console import Console

from lanescope.errors import InputError
from lanescope.report.charts import write_chart
from lanescope.report.terminal import renderables
from lanescope.studies.compress.blocks import compress_chart
from lanescope.studies.compress.verdicts import CrossedLink
from tests.studies.compress.made_up import array_result, compressed, measured

LINK = CrossedLink("h200, PCIe 5.0 x16", 55.5)


def by_dimensionality():
    return tuple(
        measured("gfc", ratio=1.1 + 0.01 * n, compress=9.0, decompress=9.0, dimensionality=n)
        for n in (1, 5, 32)
    )


RESULT = array_result(
    measured("raw", ratio=0.999, compress=9.0, decompress=9.0),
    measured("delta", ratio=2.0, compress=900.0, decompress=123.0),
    name="folder/one.f32",
    dimensionalities=by_dimensionality(),
)


def shown(found, width=80):
    screen = Console(file=io.StringIO(), width=width)
    for part in renderables(found.blocks()):
        screen.print(part)
    return screen.file.getvalue()


def test_the_table_tells_all_that_was_measured():
    text = shown(compressed(RESULT, link=LINK, left_out=["y holds no values"]), width=180)
    assert "folder/one.f32: float32" in text
    assert "2.000" in text
    assert "50.0 %" in text
    assert "-0.1 %" in text
    assert "123" in text
    assert "use delta: predicted" in text
    assert "gfc by dimensionality: 1: 1.110, 5: 1.150, 32: 1.420" in text
    assert "left out: y holds no values" in text
    assert "predicted, not measured" in text.replace("\n", " ")


def test_without_a_link_nothing_is_said_of_one():
    text = shown(compressed(RESULT), width=180)
    assert "over the link" not in text
    assert "pays on links slower than" in text


def test_a_narrow_terminal_cuts_no_number():
    assert "…" not in shown(compressed(RESULT, link=LINK))


def test_of_many_arrays_the_largest_are_shown():
    many = [
        array_result(measured("delta", ratio=2.0, compress=1.0, decompress=1.0), name=f"t{n}",
                     size=1000 * (n + 1))
        for n in range(20)
    ]  # fmt: skip
    text = shown(compressed(*many), width=180)
    assert "t3:" not in text
    assert "t4:" in text
    assert "4 smaller arrays not shown" in text
    assert "all arrays of a type" in text


def test_json_has_every_sample_and_what_follows():
    told = compressed(RESULT, link=LINK, left_out=["x"]).as_dict()
    assert told["link"] == {"name": LINK.name, "gbs": 55.5, "first_seconds": 0.0}
    (array,) = told["arrays"]
    sizes = {one["codec"]: one["predicted_break_even_bytes"] for one in array["codecs"]}
    assert sizes["raw"] is None
    assert 0 < sizes["delta"] < array["bytes"]
    delta = array["codecs"][1]
    assert delta["codec"] == "delta"
    assert delta["verified"] is True
    assert delta["ratio"] == 2.0
    assert delta["data_rate_saving"] == 0.5
    assert [timing["threads"] for timing in delta["timings"]] == [1, 2]
    assert len(delta["timings"][0]["compress_seconds"]) == 6
    assert delta["predicted"]["pays"] is True
    assert array["recommendation"].startswith("use delta")
    assert [one["dimensionality"] for one in array["dimensionalities"]] == [1, 5, 32]
    assert told["left_out"] == ["x"]
    assert told["complete"] is True


def test_the_picture_has_the_ratio_by_dimensionality(tmp_path):
    chart = compress_chart([RESULT])
    (curve,) = chart.curves
    assert curve.name == "one.f32"
    assert curve.x == (1.0, 5.0, 32.0)
    assert curve.y == pytest.approx((1.11, 1.15, 1.42))
    write_chart(chart, tmp_path / "x.svg")
    assert "Compression ratio" in (tmp_path / "x.svg").read_text()


def test_without_fp64_or_fp32_there_is_no_picture():
    with pytest.raises(InputError, match="cannot be drawn"):
        compress_chart([array_result()])
