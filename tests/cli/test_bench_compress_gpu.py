"""``lanescope bench compress`` on real GPUs: kernels and links, without PyTorch or CuPy."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from lanescope._core import native
from lanescope.compression.stream import there_is_nvcomp
from lanescope.studies.compress.on_gpus import gpus_here

GPUS = len(gpus_here())
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")]
MIB = 1 << 20
NVCOMP = ("ans", "bitcomp") if there_is_nvcomp() else ()
#: Whether charts can be written.
PICTURES = importlib.util.find_spec("vl_convert") is not None
QUICK = ("bench", "compress", "--threads", "1", "--budget", "0.001", "--dimensionality", "1,5")
ON_GPUS = ("bench", "compress", "--device", "gpu", "--dimensionality", "1,5")
RANDOM = np.random.default_rng(23)


def smooth(count):
    return np.cumsum(RANDOM.integers(-3, 4, count)).astype(np.float32)


@pytest.mark.parametrize("size", [1, 15, 64 << 10, 9 * MIB + 7, 64 * MIB])
@pytest.mark.parametrize("values", [1, 8, 1000, 3 * MIB + 1, 80 * MIB])
def test_arrays_of_the_host_are_repeated_and_compared(size, values):
    given = RANDOM.integers(0, 256, values, np.uint8)
    array = native.DeviceArray(0, size)
    assert (array.gpu, array.bytes) == (0, size)
    assert array.pointer % 16 == 0
    array.fill_from(given)
    assert array.compare(given) == (0, 0)
    expected = np.resize(given, size)
    assert array.compare(expected) == (0, 0)
    wrong = given.copy()
    wrong[0] ^= 1
    repeats = -(-size // values)
    assert array.compare(wrong) == (repeats, 0)


def test_bytes_that_differ_are_counted_and_the_first_is_told():
    array = native.DeviceArray(0, 20 * MIB)
    given = RANDOM.integers(0, 256, 20 * MIB, np.uint8)
    array.fill_from(given)
    places = [5, 8 * MIB - 1, 8 * MIB, 20 * MIB - 1]  # on both sides of where a part ends
    given[places] ^= 0x80
    assert array.compare(given) == (4, 5)
    given[5] ^= 0x80
    assert array.compare(given) == (3, 8 * MIB - 1)
    array.set(7)
    assert array.compare(np.full(1, 7, np.uint8)) == (0, 0)


@pytest.mark.multigpu
@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_arrays_of_the_other_gpu():
    given = RANDOM.integers(0, 256, 3 * MIB, np.uint8)
    array = native.DeviceArray(1, 10 * MIB)
    array.fill_from(given)
    assert (array.gpu, array.compare(given)) == (1, (0, 0))


def test_more_than_there_is_memory_is_an_error_that_leaves_the_gpu_as_it_was():
    with pytest.raises(native.NativeError) as raised:
        native.DeviceArray(0, 1 << 46)
    assert raised.value.args[1] == 2  # what the command takes for a lack of memory
    assert native.DeviceArray(0, MIB).bytes == MIB


def test_kernels_decode_into_the_other_array():
    values = smooth(2 * MIB)
    data = values.view(np.uint8)
    source, out = native.DeviceArray(0, data.nbytes), native.DeviceArray(0, data.nbytes)
    source.fill_from(data)
    for codec in (native.Codec.delta, native.Codec.gfc, native.Codec.exponent, native.Codec.raw):
        out.set(0xA5)
        times = native.time_array_codec(source, out, codec, native.Dtype.float32, 1, 16, 7)
        assert out.compare(data) == (0, 0), codec
        assert len(times.encode_s) == len(times.decode_s) == 7
        assert min(*times.encode_s, *times.decode_s) > 0
    short = native.DeviceArray(0, 16)
    with pytest.raises(native.NativeError, match="as many bytes"):
        native.time_array_codec(source, short, native.Codec.delta, native.Dtype.float32)


@pytest.fixture
def heat(tmp_path):
    path = tmp_path / "heat.npy"
    np.save(path, smooth(1_000_003))
    return path


def test_a_file_of_the_users(lanescope, heat, tmp_path):
    picture = ("--plots", tmp_path / "plots") if PICTURES else ()
    sizes = ("--link-sizes", "1MiB,64MiB", "--sms", "16,0")
    done = lanescope(*QUICK, heat, "--out", tmp_path / "run", *sizes, *picture)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "kernels on GPU 0 (" in done.stdout
    assert "→ GPU 0 to host: " in done.stdout
    drawn = tmp_path / "plots" / "compress-rate-g0-host-heat-npy.svg"
    assert drawn.is_file() is PICTURES
    told = json.loads((tmp_path / "run" / "compress.json").read_text())
    assert told["complete"] is True
    assert len(told["gpus"]) == GPUS
    (array,) = told["arrays"]
    assert array["gpu_notes"] == []
    assert array["recommendation_from"] == "measured"
    by_codec = {one["codec"]: one for one in array["gpu"]}
    assert set(by_codec) >= {"raw", "gfc", "exponent", "delta", "zvc", *NVCOMP}
    for one in array["codecs"]:  # the same streams, but for headers and where tiles meet
        assert by_codec[one["codec"]]["ratio"] == pytest.approx(one["ratio"], rel=0.05)
    paths = {one["path"] for one in array["crossings"]}
    assert paths == {"g0>host", "host>g0"} | ({"g0>g1"} if GPUS > 1 else set())
    for one in array["crossings"]:
        assert min(one["raw_seconds"] + one["seconds"]) > 0
        assert one["wire_bytes"] < one["bytes"] * 1.001
        assert one["raw_gbs"]["median"] > 0.1


def test_on_all_sms_kernels_are_no_slower_than_on_16(lanescope, heat):
    done = lanescope(*ON_GPUS, heat, "--json", "--link-sizes", "1MiB")
    assert done.returncode == 0, done.stderr
    (array,) = json.loads(done.stdout)["arrays"]
    assert not any(one["timings"] for one in array["codecs"])
    for one in array["gpu"]:
        if one["codec"] in NVCOMP:
            continue  # which takes what SMs it will
        speeds = {timing["threads"]: timing["compress_gbs"]["median"] for timing in one["timings"]}
        assert list(speeds)[-1] == 0
        assert speeds[0] > 0.9 * speeds[16]


def test_codecs_of_nvcomp_that_are_asked_for(lanescope, heat):
    options = ("--device", "gpu", "--json", "--link-sizes", "1MiB", "--codec")
    done = lanescope("bench", "compress", heat, *options, "ans,bitcomp,delta")
    if not NVCOMP:
        assert done.returncode == 2
        assert "codec ans needs a GPU and nvCOMP: pip install" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (array,) = json.loads(done.stdout)["arrays"]
    assert [one["codec"] for one in array["gpu"]] == ["raw", "delta", "ans", "bitcomp"]
    for one in array["gpu"][2:]:
        assert one["ratio"] > 1
        assert [timing["threads"] for timing in one["timings"]] == [0]
    assert {one["codec"] for one in array["crossings"]} <= {"raw", "delta"}
    assert array["gpu_notes"] == []


def test_made_up_examples_of_every_type(lanescope):
    done = lanescope(*QUICK, "--size", "1MiB", "--json", "--link-sizes", "8MiB", "--sms", "0")
    assert done.returncode == 0, done.stderr
    for one in json.loads(done.stdout)["arrays"]:
        assert one["gpu"], one["name"]
        assert one["crossings"], one["name"]
        assert one["gpu_notes"] == []


@pytest.mark.parametrize("count", [1, 7, 70_001])
def test_arrays_that_end_within_a_block(lanescope, tmp_path, count):
    (tmp_path / "odd.f64").write_bytes(smooth(count).astype(np.float64).tobytes())
    done = lanescope(*QUICK, tmp_path / "odd.f64", "--json", "--link-sizes", "1000003")
    assert done.returncode == 0, done.stderr
    (array,) = json.loads(done.stdout)["arrays"]
    assert {one["bytes"] for one in array["crossings"]} == {1_000_003}
    assert array["gpu_notes"] == []


def test_the_cpu_alone(lanescope, heat):
    done = lanescope(*QUICK, heat, "--device", "cpu", "--json")
    told = json.loads(done.stdout)
    assert told["gpus"] == []
    assert told["arrays"][0]["gpu"] == told["arrays"][0]["crossings"] == []


def test_neither_pytorch_nor_cupy_is_loaded(heat, tmp_path):
    program = (
        "import sys; sys.modules['torch'] = sys.modules['cupy'] = None\n"
        "from lanescope.cli import main\n"
        f"sys.argv = ['lanescope', {', '.join(map(repr, ON_GPUS))}, {str(heat)!r}, "
        f"'--link-sizes', '1MiB', '--out', {str(tmp_path / 'run')!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (tmp_path / "run" / "compress.json").is_file(), done.stderr
    assert "→ GPU 0 to host: " in done.stdout
