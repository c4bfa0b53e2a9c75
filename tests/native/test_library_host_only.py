"""The library for C++ without CUDA: nothing of CUDA is needed for it, and streams are the same."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.host_library import (
    ROOT,
    cuda_headers,
    examples,
    installed,
    require,
    require_old_streams,
    require_refusals,
    require_same_streams,
    run,
)

# The first takes 40 s: it builds the library anew, without CUDA.
pytestmark = pytest.mark.native

HEADER = ROOT / "native/include/lanescope/compression.hpp"
OLDEST = (3, 25)


def version_of(cmake):
    found = re.search(r"version (\d+)\.(\d+)", run(cmake, "--version").stdout)
    return tuple(map(int, found.groups()))


def oldest_cmake():
    """The system's, where it is old, else the first on PATH."""
    candidates = [path for path in ("/usr/bin/cmake", shutil.which("cmake")) if path]
    usable = [path for path in candidates if Path(path).exists() and version_of(path) >= OLDEST]
    if not usable or shutil.which("c++") is None:
        pytest.skip("no CMake, or no C++ compiler")
    return min(usable, key=version_of)


@pytest.fixture(scope="module")
def cmake():
    return oldest_cmake()


@pytest.fixture(scope="module")
def folder(cmake, tmp_path_factory):
    """Has the library and its build in it, and the examples in another one."""
    folder = tmp_path_factory.mktemp("host_only")
    examples(installed(folder, cmake=cmake), folder / "examples", cmake=cmake)
    return folder


def test_streams_are_those_of_python(folder, tmp_path):
    program = [folder / "examples/compress_file"]
    require_same_streams(program, tmp_path)
    require_old_streams(program, tmp_path)
    require_refusals(program, tmp_path)


def test_nothing_of_cuda_is_needed(folder):
    read = [path.read_text() for path in folder.rglob("*.d")]
    assert any("library/codec.cpp" in one for one in read)
    assert [one for one in read if "cuda_runtime" in one] == []
    cache = (folder / "build/CMakeCache.txt").read_text()
    assert not re.search(r"^(CMAKE_CUDA|LANESCOPE_CUDART|LANESCOPE_CUDA_)", cache, re.MULTILINE)
    made = {path.name for path in (folder / "prefix").rglob("*") if path.is_file()}
    assert made == {
        "codecs.hpp", "compression.hpp", "version.hpp", "liblanescope_compression.a",
        "lanescope-config.cmake", "lanescope-config-version.cmake", "lanescope-targets.cmake",
        "lanescope-targets-release.cmake",
    }  # fmt: skip
    (archive,) = (folder / "prefix").rglob("*.a")
    assert "cuda" not in require("nm", "-C", archive)
    assert "cuda" not in require("ldd", folder / "examples/compress_file")


def test_the_config_says_what_the_library_is(folder):
    """Who links it sees the header without its GPU part; the example with that is left out."""
    (config,) = (folder / "prefix").rglob("lanescope-config.cmake")
    assert "set(lanescope_HAS_CUDA OFF)" in config.read_text()
    targets = config.with_name("lanescope-targets.cmake").read_text()
    assert 'INTERFACE_COMPILE_DEFINITIONS "LANESCOPE_HOST_ONLY"' in targets
    assert "cuda" not in targets
    assert (folder / "examples/compress_file").exists()
    assert not (folder / "examples/gpu_arrays").exists()


def test_the_page_says_how_to_compile_without_cmake(folder, tmp_path):
    page = (ROOT / "docs/cpp.md").read_text()
    (tmp_path / "app.cpp").write_text(page.partition("```cpp\n")[2].partition("```")[0])
    (command,) = re.findall(r"`(g\+\+ .*?)`", page)
    words = shlex.split(command.replace("PREFIX", str(folder / "prefix")))
    if shutil.which(words[0]) is None:
        pytest.skip("no g++")
    assert subprocess.run(words, cwd=tmp_path).returncode == 0
    assert "the same again" in require(tmp_path / "a.out")


@pytest.mark.parametrize("kind", ["host only", "with CUDA"])
def test_the_header_compiles_alone(kind):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    options = ["-DLANESCOPE_HOST_ONLY"] if kind == "host only" else ["-isystem", cuda_headers()]
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    done = subprocess.run([*command, *options, "-x", "c++", "-include", HEADER, "/dev/null"])
    assert done.returncode == 0


def test_the_package_for_python_needs_cuda(cmake, tmp_path):
    done = run(cmake, "-S", ROOT, "-B", tmp_path, "-DLANESCOPE_CUDA=OFF")
    assert done.returncode != 0
    assert "the package for Python needs CUDA" in done.stderr
