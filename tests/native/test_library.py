"""The library for C++: built alone, installed, found by CMake, and the same as Python's streams."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import lanescope
from lanescope._core import native

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "native/include/lanescope/compression.hpp"
#: CMake of the environment that runs the tests comes first.
ENVIRONMENT = os.environ | {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
}


def gpu_count():
    try:
        return len(native.cuda_devices())
    except native.NativeError:
        return 0


GPUS = gpu_count()
needs_gpu = pytest.mark.skipif(GPUS < 1, reason="no GPU that CUDA can use")


def run(*command):
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )


def cmake(*words):
    done = run("cmake", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The library for one kind of GPU, installed."""
    folder = tmp_path_factory.mktemp("library")
    cmake(
        "-S", ROOT, "-B", folder / "build",
        "-DLANESCOPE_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_CUDA_ARCHITECTURES={'native' if GPUS else '90-real'}",
    )  # fmt: skip
    said = cmake("--build", folder / "build", "--parallel", str(os.cpu_count() or 1))
    assert not re.search(r"src/library/\S+ warning", said), said
    cmake("--install", folder / "build", "--prefix", folder / "prefix")
    return folder / "prefix"


@pytest.fixture(scope="module")
def examples(prefix, tmp_path_factory):
    """The examples, built by a project that finds the library, and knows no CUDA language."""
    build = tmp_path_factory.mktemp("examples")
    cmake("-S", ROOT / "native/examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    cmake("--build", build, "--parallel", str(os.cpu_count() or 1))
    return build


def values(dtype):
    """1.3 MB that some codec makes smaller: more blocks than the choice of a codec looks at."""
    index = np.arange(1_300_000 // np.dtype(dtype).itemsize)
    noise = np.random.default_rng(5).standard_normal(len(index))
    if np.dtype(dtype).kind == "f":
        return (np.sin(index * 1e-4) + 1e-3 * noise).astype(dtype)
    return (index * 3 + 5 * noise).astype(np.int64).astype(dtype)


DTYPES = ["float16", "float32", "float64", "int16", "int32", "int64", "uint8", "uint64"]
CASES = [
    *((dtype, "auto") for dtype in DTYPES),
    ("float64", "gfc"),
    ("float32", "exponent"),
    ("uint16", "delta"),
    ("int8", "raw"),
]


@pytest.mark.parametrize(("dtype", "codec"), CASES)
def test_streams_are_those_of_python(examples, tmp_path, dtype, codec):
    array = values(dtype)
    array.tofile(tmp_path / "values")
    name = "bytes" if dtype == "uint8" else dtype
    chosen = [] if codec == "auto" else [codec]
    program, stream = examples / "compress_file", tmp_path / "stream"
    done = run(program, "compress", tmp_path / "values", stream, name, *chosen)
    assert done.returncode == 0, done.stderr
    expected = lanescope.compress(array, codec)
    assert stream.read_bytes() == expected.tobytes()
    assert done.stdout.endswith(f": {array.nbytes} bytes became {len(expected)}\n")

    expected.tofile(tmp_path / "of_python")
    done = run(program, "decompress", tmp_path / "of_python", tmp_path / "back")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back").read_bytes() == array.tobytes()
    back = lanescope.decompress(stream.read_bytes())
    assert np.array_equal(back, array)


def test_a_dimensionality_is_found(examples, tmp_path):
    """Of which GFC needs one other than 1: five series that take turns."""
    random = np.random.default_rng(1)
    array = np.cumsum(random.integers(-9, 9, (40_000, 5)), axis=0) * 1e3 + 1e7 * np.arange(1, 6)
    array.astype(np.float64).tofile(tmp_path / "values")
    stream = tmp_path / "stream"
    done = run(examples / "compress_file", "compress", tmp_path / "values", stream, "float64")
    assert done.returncode == 0, done.stderr
    assert stream.read_bytes() == lanescope.compress(array.reshape(-1)).tobytes()


@pytest.mark.parametrize("size", [0, 1, 3, 65536, 65541])
def test_bytes_of_any_number(examples, tmp_path, size):
    (tmp_path / "values").write_bytes(bytes(range(256)) * 300)
    with (tmp_path / "values").open("r+b") as file:
        file.truncate(size)
    program = examples / "compress_file"
    assert run(program, "compress", tmp_path / "values", tmp_path / "z").returncode == 0
    assert run(program, "decompress", tmp_path / "z", tmp_path / "back").returncode == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "values").read_bytes()


def refused(done, sentence):
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_is_refused_in_one_sentence(examples, tmp_path):
    program, path = examples / "compress_file", tmp_path / "values"
    path.write_bytes(b"\0" * 7)
    refused(run(program, "compress", path, tmp_path / "z", "float32"), "7 bytes are no whole")
    refused(run(program, "compress", path, tmp_path / "z", "bytes", "gfc"), "does not take values")
    refused(run(program, "decompress", path, tmp_path / "z"), "no stream that can be read")
    stream = lanescope.compress(values("int32"))
    stream[-40] ^= 1
    stream.tofile(path)
    refused(run(program, "decompress", path, tmp_path / "z"), "block 19: ")


def test_the_program_of_the_docs(prefix, tmp_path):
    """The minimal program, and its CMakeLists.txt, as docs/cpp.md shows them."""
    text = (ROOT / "docs/cpp.md").read_text()
    for language, name in (("cpp", "app.cpp"), ("cmake", "CMakeLists.txt")):
        shown = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(shown[1])
    cmake("-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    cmake("--build", tmp_path / "build")
    done = run(tmp_path / "build/app")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"8000000 bytes became \d+, and the same again\n", done.stdout)


def test_the_header_is_all_that_is_installed(prefix):
    headers = [path.relative_to(prefix) for path in prefix.rglob("*.h*")]
    assert headers == [Path("include/lanescope/compression.hpp")]
    included = re.findall(r"#include (.*)", HEADER.read_text())
    assert [one for one in included if '"' in one or "/" in one] == []


def test_the_header_tells_the_version():
    parts = re.findall(r"_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER.read_text())
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert ".".join(parts) == tomllib.load(file)["project"]["version"]


def test_numbers_are_those_of_streams():
    header = HEADER.read_text()
    for kind in (native.Codec, native.Dtype):
        listed = re.search(rf"enum class {kind.__name__} .*?{{(.*?)}}", header, re.DOTALL)[1]
        told = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", listed)}
        assert told == {one.name: one.value for one in kind}


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU")
def test_no_gpu_is_told_in_one_sentence(examples):
    refused(run(examples / "gpu_arrays", 1), "there is no GPU to be used")


@pytest.mark.gpu
@needs_gpu
def test_arrays_of_a_gpu(examples):
    done = run(examples / "gpu_arrays", 40)
    assert done.returncode == 0, done.stdout + done.stderr
    crossed = dict(re.findall(rf"(.*): {40 << 20} bytes as (\d+)\n", done.stdout))
    assert {"compressed on the GPU", "offloaded", "restored"} <= set(crossed), done.stdout
    assert all(int(size) < 40 << 20 for size in crossed.values()), done.stdout
    assert ("nothing was sent" in done.stdout) == (GPUS < 2)


@pytest.mark.gpu
@pytest.mark.multigpu
@pytest.mark.skipif(GPUS < 2, reason="needs two GPUs")
def test_arrays_between_gpus(examples):
    done = run(examples / "gpu_arrays", 40)
    assert done.returncode == 0, done.stdout + done.stderr
    sent = re.search(rf"sent: {40 << 20} bytes as (\d+)\n", done.stdout)
    assert sent, done.stdout
    assert int(sent[1]) < 40 << 20
