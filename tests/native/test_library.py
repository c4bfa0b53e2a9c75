"""The library for C++: built alone, installed, found by CMake, and the same as Python's streams."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lanescope
from lanescope._core import native
from tests.native.programs import ROOT, locked, program, tool

pytestmark = pytest.mark.native
HEADER = ROOT / "native/include/lanescope/compression.hpp"
#: The folder that `make` builds in.
MADE = ROOT / "build/native"
#: Debian 12's CMake, which is older than what builds lanescope; users may have it.
MACHINES_CMAKE = "/usr/bin/cmake"
JOBS = str(len(os.sched_getaffinity(0)))
#: The tools of the environment that runs the tests come first.
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


def cmake(*words, path=None):
    done = run(path or tool("cmake"), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def version_of(path):
    found = re.search(r"cmake version (\d+)\.(\d+)", run(path, "--version").stdout)
    return int(found[1]), int(found[2])


@pytest.fixture(params=["the environment's", "the machine's"])
def a_cmake(request):
    """CMake's path; once more for the machine's own, where that is older."""
    if request.param == "the environment's":
        return tool("cmake")
    if not os.access(MACHINES_CMAKE, os.X_OK):
        pytest.skip(f"there is no {MACHINES_CMAKE}")
    if version_of(MACHINES_CMAKE) >= version_of(tool("cmake")):
        pytest.skip(f"{MACHINES_CMAKE} is no older one")
    return MACHINES_CMAKE


def configured_alone(folder):
    """Lays out a folder to build nothing but the library in, for one kind of GPU."""
    return cmake(
        "-S", ROOT, "-B", folder,
        "-DLANESCOPE_PYTHON=OFF", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_CUDA_ARCHITECTURES={'native' if GPUS else '90-real'}",
    )  # fmt: skip


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The library, installed: from where `make` builds, or built alone where it did not."""
    prefix = tmp_path_factory.mktemp("library")
    folder = MADE if (MADE / "CMakeCache.txt").is_file() else MADE.with_name("library-tests")
    with locked(folder):
        if folder != MADE:
            configured_alone(folder)
        cmake("--build", folder, "--parallel", JOBS, "--target", "lanescope_compression")
        cmake("--install", folder, "--component", "library", "--prefix", prefix)
    return prefix


def built_examples(prefix, folder, path=None):
    """The examples, built by a project that finds the library, and knows no CUDA language."""
    sources = ["-S", ROOT / "native/examples", "-B", folder]
    cmake(*sources, f"-DCMAKE_PREFIX_PATH={prefix}", path=path)
    cmake("--build", folder, "--parallel", JOBS, path=path)
    return folder


@pytest.fixture(scope="module")
def examples(prefix, tmp_path_factory):
    return built_examples(prefix, tmp_path_factory.mktemp("examples"))


def test_nothing_of_python_is_needed_to_build_it(tmp_path):
    configured_alone(tmp_path)
    assert not re.search(r"nanobind|hwloc|cupti", (tmp_path / "CMakeCache.txt").read_text())


def test_it_compiles_without_warnings():
    """Which are errors there."""
    program("library_without_warnings")


def test_the_examples_are_built_and_run(prefix, tmp_path, a_cmake):
    folder = built_examples(prefix, tmp_path / "examples", a_cmake)
    (tmp_path / "values").write_bytes(bytes(1000))
    done = run(folder / "compress_file", "compress", tmp_path / "values", tmp_path / "stream")
    assert done.returncode == 0, done.stderr
    assert lanescope.decompress((tmp_path / "stream").read_bytes()).tobytes() == bytes(1000)


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


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint8"])
def test_constant_arrays_have_the_codec_of_python(examples, tmp_path, dtype):
    array = np.full(500_000, 3, dtype)
    array[77::99_991] = 4
    array.tofile(tmp_path / "values")
    name, stream = "bytes" if dtype == "uint8" else dtype, tmp_path / "stream"
    done = run(examples / "compress_file", "compress", tmp_path / "values", stream, name)
    assert done.returncode == 0, done.stderr
    assert stream.read_bytes() == lanescope.compress(array).tobytes()


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
    refused(run(program, "compress", tmp_path, tmp_path / "z"), f"{tmp_path} is no file")
    refused(run(program, "compress", path, tmp_path / "z", "bytes", "gfc"), "does not take values")
    refused(run(program, "decompress", path, tmp_path / "z"), "no stream that can be read")
    stream = lanescope.compress(values("int32"))
    stream[-40] ^= 1
    stream.tofile(path)
    refused(run(program, "decompress", path, tmp_path / "z"), "block 19: ")


def test_the_program_of_the_docs(prefix, tmp_path, a_cmake):
    """The minimal program, and its CMakeLists.txt, as docs/cpp.md shows them."""
    text = (ROOT / "docs/cpp.md").read_text()
    for language, name in (("cpp", "app.cpp"), ("cmake", "CMakeLists.txt")):
        shown = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(shown[1])
    folders = ["-S", tmp_path, "-B", tmp_path / "build"]
    cmake(*folders, f"-DCMAKE_PREFIX_PATH={prefix}", path=a_cmake)
    cmake("--build", tmp_path / "build", path=a_cmake)
    done = run(tmp_path / "build/app")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"8000000 bytes became \d+, and the same again\n", done.stdout)


def test_the_header_its_codecs_and_its_version_are_all_that_is_installed(prefix):
    headers = sorted(path.relative_to(prefix).as_posix() for path in prefix.rglob("*.h*"))
    names = ["codecs.hpp", "compression.hpp", "host_copies.hpp", "version.hpp"]
    assert headers == [f"include/lanescope/{name}" for name in names]
    assert headers == sorted(f"include/lanescope/{path.name}" for path in HEADER.parent.iterdir())
    text = "".join(path.read_text() for path in HEADER.parent.iterdir())
    included = re.findall(r"#include (\S+)", text)
    assert {one for one in included if '"' in one or "/" in one} == {
        '"codecs.hpp"',
        '"compression.hpp"',
        '"version.hpp"',
    }


def test_the_version_is_that_of_the_package():
    parts = re.findall(r"_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER.with_name("version.hpp").read_text())
    assert ".".join(parts) == native.build_info()["version"] == lanescope.__version__


def test_numbers_are_those_of_streams():
    registry = HEADER.with_name("codecs.hpp").read_text()
    for kind in (native.Codec, native.Dtype):
        listed = re.findall(rf"  {kind.__name__.upper()}\((\w+), (\d+),", registry)
        told = {name: int(number) for name, number in listed}
        assert told == {one.name: one.value for one in kind}
        assert list(told.values()) == list(range(len(told)))  # as the tables are looked up


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
