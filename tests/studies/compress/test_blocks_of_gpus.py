"""What GPUs did with arrays: as tables, as JSON that is read again, and as pictures."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lanescope.compression.stream import Codec
from lanescope.errors import InputError
from lanescope.report.terminal import renderables
from lanescope.studies.compress.blocks import drawn_rate_charts
from lanescope.studies.compress.compressed import read_compress, read_crossings
from lanescope.studies.compress.results import Crossing, MeasuredKernels, RawTimes
from lanescope.studies.compress.verdicts import CrossedLink
from tests.studies.compress.made_up import array_result, compressed, measured

MIB = 1 << 20
OLD = Path(__file__).parents[2] / "data/compress-schema-1.json"
GPUS = ("NVIDIA H200", "NVIDIA H200")


def kernels(codec="delta", ratio=1.5, size=64 * MIB):
    timings = tuple(
        RawTimes(sms, size, (size / in_gbs / 1e9,) * 9, (size / out_gbs / 1e9,) * 9)
        for sms, in_gbs, out_gbs in ((16, 110.0, 130.0), (48, 320.0, 380.0), (0, 812.0, 913.0))
    )
    return MeasuredKernels(0, Codec(codec), 1, size, round(size / ratio), timings)


def crossing(path, size, faster, codec="delta", raw_gbs=55.0):
    raw = tuple(8e-6 + size / raw_gbs / 1e9 * f for f in (1, 1, 1.01, 0.99, 1, 1, 1, 1, 1))
    coded = tuple(one / faster for one in raw)
    return Crossing(path, "folder/heat.npy", codec, size, 16, raw, coded, size * 2 // 3)


RESULT = replace(
    array_result(
        measured("raw", ratio=0.999, compress=9.0, decompress=9.0, size=16 * MIB),
        measured("delta", ratio=1.5, compress=1.0, decompress=1.0, size=16 * MIB),
        name="folder/heat.npy",
        size=16 * MIB,
    ),
    gpu=(kernels(),),
    crossings=(
        crossing("g0>host", MIB, 0.8),
        crossing("host>g0", MIB, 0.7),
        crossing("g0>host", 256 * MIB, 1.44),
        crossing("host>g0", 256 * MIB, 0.9),
        crossing("g0>g1", MIB, 0.5, raw_gbs=390.0),
        crossing("g0>g1", 256 * MIB, 1.05, raw_gbs=390.0),
    ),
    gpu_notes=("gfc dim 1 over the link to GPU 1: out of memory (cudaMalloc)",),
)


def shown(*results, link=None, width=180):
    screen = Console(file=io.StringIO(), width=width)
    for part in renderables(compressed(*results, link=link, gpus=GPUS).blocks()):
        screen.print(part)
    return screen.file.getvalue()


def row_of(text, *words):
    (row,) = [line for line in text.splitlines() if all(word in line for word in words)]
    return row


def test_the_tables_tell_what_was_measured_on_gpus():
    text = shown(RESULT)
    assert "kernels on GPU 0 (NVIDIA H200), the array 4 times over: 64 MiB" in text
    assert "913 (913–913)" in row_of(text, "all", "812")
    assert "1.44 (" in row_of(text, "256 MiB", "16", "1.44")
    row = row_of(text, "GPU 0 to GPU 1", "  1 MiB")
    assert "0.50 (" in row
    assert "not measured: gfc dim 1 over the link to GPU 1: out of memory" in text
    assert "never" in text  # pays from: back from the host it is slower at any size
    assert "keep no state" in " ".join(text.split())


def test_a_narrow_terminal_cuts_no_number():
    assert "…" not in shown(RESULT, width=100)


def test_what_was_measured_is_recommended_and_nothing_predicted_for_it():
    arrows = [line for line in shown(RESULT).splitlines() if line.startswith("→")]
    assert len(arrows) == 3
    assert arrows[0].startswith("→ GPU 0 to host: use delta: measured ")
    assert arrows[0].endswith("1.44 times as fast")
    assert "host to GPU 0: leave it raw: measured" in arrows[1]
    assert arrows[2].endswith("without, which is too little of a gain")  # 1.05 < 1/0.95
    assert all("predicted" not in arrow for arrow in arrows)


def test_an_interval_that_leaves_it_open_is_told():
    one = crossing("g0>host", 256 * MIB, 1.06)
    spread = replace(one, seconds=tuple(s * (0.9 + 0.025 * n) for n, s in enumerate(one.seconds)))
    text = shown(replace(RESULT, crossings=(spread,)))
    assert "the interval of its speeds leaves that open" in text


def test_rows_of_a_path_stand_together():
    text = shown(RESULT)
    rows = [line.split(" MiB")[0] for line in text.splitlines() if " MiB  " in line]
    paths = [" ".join(row.split()[:-1]) for row in rows if " to " in row]
    assert paths == sorted(paths, key=paths.index)
    assert text.index("host to GPU 0 ") > text.index("1.44 (")


def test_another_link_is_predicted_from_both_and_labelled():
    text = shown(RESULT, link=CrossedLink("a link of 12.5 GB/s", 12.5))
    arrows = [line for line in text.splitlines() if line.startswith("→")]
    assert len(arrows) == 5
    assert arrows[3].startswith("→ by this host's CPUs: leave it raw: predicted")
    assert arrows[4].startswith("→ by kernels of such GPUs: use delta: predicted")


def test_without_speeds_of_the_cpus():
    codecs = tuple(replace(one, timings=()) for one in RESULT.codecs)
    alone = replace(RESULT, codecs=codecs)
    text = shown(alone, alone)
    assert "33.3 %" in text
    assert "CPUs" not in text
    found = compressed(alone).as_dict()
    assert "predicted_break_even_gbs" not in found["arrays"][0]["codecs"][0]
    bare = replace(alone, gpu=(), crossings=(), gpu_notes=())
    assert "no speed was measured" in shown(bare)


def test_json_has_all_samples_and_what_follows():
    found = json.loads(compressed(RESULT, gpus=GPUS).to_json())
    assert found["schema"] == 2
    assert found["gpus"] == ["NVIDIA H200", "NVIDIA H200"]
    (array,) = found["arrays"]
    (gpu,) = array["gpu"]
    assert gpu["times_over"] == 4
    assert [one["threads"] for one in gpu["timings"]] == [16, 48, 0]
    assert len(array["crossings"]) == 6
    large = array["crossings"][2]
    assert large["speedup"]["median"] == pytest.approx(1.44)
    assert len(large["raw_seconds"]) == len(large["seconds"]) == 9
    assert MIB < large["break_even_bytes"] < 256 * MIB
    assert array["crossings"][3]["break_even_bytes"] is None
    assert [one["pays"] for one in array["measured"]] == [True, False, False]
    assert array["recommendation_from"] == "measured"
    assert array["recommendation"].startswith("GPU 0 to host: use delta: measured")


def test_what_is_stored_comes_back(tmp_path):
    link = CrossedLink("x", 12.5, 1e-6)
    stored = compressed(RESULT, link=link, gpus=GPUS, left_out=["y is empty"], complete=False)
    (tmp_path / "compress.json").write_text(stored.to_json())
    for path in (tmp_path, tmp_path / "compress.json"):
        assert read_compress(path) == stored
    assert read_crossings(tmp_path / "compress.json") == RESULT.crossings


def test_a_file_of_the_first_schema_is_read():
    found = read_compress(OLD)
    assert json.loads(OLD.read_text())["schema"] == 1
    assert found.complete
    assert found.link.gbs == pytest.approx(55.5, abs=0.1)
    assert not any(one.gpu or one.crossings for one in found.arrays)
    assert "leave it raw: predicted" in shown(*found.arrays, link=found.link)


def test_stored_results_name_what_they_were_measured_with():
    found, whole = read_compress(OLD), json.loads(OLD.read_text())
    again = found.as_dict()
    for field in ("lanescope", "cpu"):
        assert again[field] == whole[field] == getattr(found, field)


def changed(**changes):
    return json.dumps(json.loads(compressed(RESULT, gpus=GPUS).to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "x.json is not JSON"),
        ("[]", "holds no results"),
        ("{}", "holds no results"),
        (changed(schema=3), "newer lanescope"),
        (changed(arrays=[{"bytes": 1}]), r"arrays\[0\]: field 'name' is missing"),
        (changed().replace("0.0", "1e-99"), "it must be above zero"),
        (changed().replace('"delta"', '"zip"'), "'zip', not one of raw"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, text, words):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=words):
        read_compress(tmp_path / "x.json")


def test_a_file_that_is_not_there():
    with pytest.raises(InputError, match="cannot read nowhere"):
        read_compress(Path("nowhere.json"))


def test_each_path_has_a_chart_and_of_many_arrays_the_largest_do():
    charts = drawn_rate_charts([RESULT])
    assert [chart.key for chart in charts] == [
        f"compress-rate-{path}-heat-npy" for path in ("g0-host", "host-g0", "g0-g1")
    ]
    assert "heat.npy over GPU 0 to host" in charts[0].title
    assert drawn_rate_charts([replace(RESULT, crossings=())]) == ()
    each = replace(RESULT, crossings=RESULT.crossings[4:])
    many = [replace(each, name=f"a{n}", bytes=each.bytes + n) for n in range(6)]
    drawn = drawn_rate_charts(many)
    assert [chart.key[-2:] for chart in drawn] == ["a5", "a4", "a3", "a2"]
    assert "Not drawn: 2 smaller arrays." in drawn[0].notes
