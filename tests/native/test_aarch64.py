"""aarch64, cross-compiled and run by QEMU: the same streams, nothing wrong, and all files compile.

No GPU and no kernel is at work here, and no time that is taken tells anything.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.compression.test_rule_replay import CASES, played
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
from tests.native.programs import include_flags

NATIVE = ROOT / "native"
COMPILER = shutil.which("aarch64-linux-gnu-g++")
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
TOOLCHAIN = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/aarch64-linux-gnu.cmake'}"
#: How CMake has sums rounded; without it -O2 fuses products with them.
ROUNDING = re.search(r"-ffp-contract=\w+", (ROOT / "CMakeLists.txt").read_text())[0]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

# Some take 15 to 45 s: programs are compiled for them alone, and QEMU is many times slower.
pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(COMPILER is None, reason="no g++-aarch64-linux-gnu"),
]
emulated = pytest.mark.skipif(QEMU is None, reason="no qemu-aarch64 (qemu-user-static)")


def by_qemu(program):
    """The words that run a program."""
    return [QEMU, "-L", "/usr/aarch64-linux-gnu", program]


def compiled(program, *sources, options=(), compiler=COMPILER):
    """A program of files below native/."""
    command = [compiler, "-std=c++20", "-O1", ROUNDING, *include_flags(), *options]
    require(*command, *(NATIVE / name for name in sources), "-pthread", "-o", program)
    return program


# ---- The library ---------------------------------------------------------------------------------


@emulated
def test_streams_are_those_of_python(tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("no CMake")
    prefix = installed(tmp_path, TOOLCHAIN)
    program = by_qemu(examples(prefix, tmp_path / "examples", TOOLCHAIN) / "compress_file")
    require_same_streams(program, tmp_path)
    require_old_streams(program, tmp_path)
    require_refusals(program, tmp_path)


@emulated
def test_decisions_are_those_of_this_cpu(tmp_path):
    """To the last bit of what transfers are predicted to take."""
    here = shutil.which("g++")
    if here is None:
        pytest.skip("no g++")
    sources = ["tests/rule_replay.cpp"]
    sources += [
        f"src/library/{name}.cpp" for name in ("rule", "rule_costs", "rule_evidence", "always")
    ]
    sources += ["src/compress/candidates.cpp"]
    options = ["-O2", "-isystem", cuda_headers()]
    there = compiled(tmp_path / "there", *sources, options=options)
    here = compiled(tmp_path / "here", *sources, options=options, compiler=here)
    for case in [*CASES[::6], CASES[-2]]:
        device = played(*case)
        # Products with powers of two, as sizes are there, are exact, however they are rounded.
        lines = [re.sub(r"(?<= )\d+$", odd_size, line) for line in device.lines]
        said = [
            subprocess.run(
                [*command, *map(str, device.options)],
                input="\n".join(lines) + "\n",
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()
            for command in ([here], by_qemu(there))
        ]
        assert len(said[0]) == len(device.expected)
        assert said[0] == said[1]


def odd_size(size):
    """Of an array; whether it was compressed is 0 or 1, and stays."""
    return str(int(size[0]) * 97 // 89)


# ---- Programs of native/tests --------------------------------------------------------------------


@pytest.fixture(scope="module")
def sanitizers(tmp_path_factory):
    """Options for those that work under QEMU; nothing looks for leaks there."""
    if QEMU is None:
        pytest.skip("no qemu-aarch64 (qemu-user-static)")
    folder = tmp_path_factory.mktemp("sanitizers")
    source = folder / "reads.cpp"
    source.write_text(
        "int main(int n, char**) {\n"
        "  int *p = new int[4](), found = p[n + 2];\n"
        "  delete[] p;\n"
        "  return found;\n"
        "}\n"
    )
    for kinds in ("address,undefined", "undefined"):
        options = ["-g", f"-fsanitize={kinds}", "-fno-sanitize-recover=all"]
        if run(COMPILER, *options, source, "-o", folder / "reads").returncode != 0:
            continue
        good, wrong = sanitized(folder / "reads"), sanitized(folder / "reads", "beyond")
        if good.returncode == 0 and (wrong.returncode != 0 or kinds == "undefined"):
            return options
    pytest.skip("no sanitizer works under QEMU")


def sanitized(program, *words):
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}
    command = [*by_qemu(program), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_nothing_goes_wrong_with_damaged_strips(sanitizers, tmp_path):
    fuzz = compiled(tmp_path / "fuzz", "tests/compress_fuzz.cpp", options=sanitizers)
    done = sanitized(fuzz, "--inputs", "20000", "--seed", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" inputs, nothing wrong\n")
    assert int(done.stdout.splitlines()[-1].split()[0]) >= 20000


def test_strips_come_back_and_damaged_ones_are_refused(sanitizers, tmp_path):
    """By the code for any CPU: the others are x86-64's."""
    sources = sorted(path.relative_to(NATIVE) for path in NATIVE.glob("src/compress/host_strips*"))
    sources = [name for name in sources if name.suffix == ".cpp"]
    program = compiled(tmp_path / "strips", "tests/host_strips.cpp", *sources, options=sanitizers)
    done = sanitized(program, "20", "7")
    assert (done.returncode, done.stdout) == (0, "any CPU\n"), done.stderr


PRIMITIVES = (
    "tests/host_primitives.cpp", "src/host/cache_flush.cpp", "src/host/host_kernels.cpp",
    "src/host/interruption.cpp", "src/host/pages.cpp", "src/host/parallel.cpp",
    "src/host/single_loads.cpp",
    "src/chase_ring.cpp", "src/error.cpp", "src/load_places.cpp", "src/pattern.cpp",
)  # fmt: skip


@emulated
def test_primitives_of_the_host(tmp_path):
    program = compiled(tmp_path / "primitives", *PRIMITIVES, options=["-O2", *WARNINGS])
    done = run(*by_qemu(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "streaming stores: none\nall is as it should be\n"


# ---- All files -----------------------------------------------------------------------------------


def headers():
    """Options for those of CUDA, CUPTI and hwloc, which are the same for all 64-bit CPUs."""
    hwloc = Path(sysconfig.get_path("purelib")) / "cmeel.prefix/include"
    if not (hwloc / "hwloc.h").exists():
        pytest.skip("no headers of hwloc")
    if not (cuda_headers() / "cupti.h").exists():
        pytest.skip("no headers of CUPTI")
    return [*include_flags(), "-isystem", cuda_headers(), "-isystem", hwloc]


def as_one_file(folder, to):
    """A file that is all of a folder, as CMake compiles it: much of the time is that of headers."""
    sources = sorted((NATIVE / "src" / folder).glob("*.cpp"))
    # Those are for one kind of CPU each, and the library has them.
    sources = [path for path in sources if not path.name.startswith("host_strips_")]
    # This one is but the values that CMake writes for each build.
    sources = [path for path in sources if path.name != "build_info.cpp"]
    assert sources
    to.write_text("".join(f'#include "{path}"\n' for path in sources))
    return to


@pytest.mark.parametrize(
    "folder", [".", "calls", "compress", "cuda", "host", "inject", "library", "watch", "workload"]
)
def test_all_files_compile(folder, tmp_path):
    source, made = as_one_file(folder, tmp_path / "all.cpp"), tmp_path / "all.o"
    # Files of the library are compiled by themselves elsewhere, where it is no warning.
    options = [*WARNINGS, "-Wno-subobject-linkage", ROUNDING, *headers()]
    require(COMPILER, "-std=c++20", "-O1", *options, "-c", source, "-o", made)
    assert "AArch64" in require("readelf", "-h", made)


def test_the_injection_library_needs_the_c_library_alone(tmp_path):
    source, library = as_one_file("inject", tmp_path / "all.cpp"), tmp_path / "inject.so"
    exports = f"-Wl,--version-script={NATIVE}/src/inject/exports.map"
    command = [COMPILER, "-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    linked = ["-static-libstdc++", "-static-libgcc", exports]
    require(*command, *headers(), source, *linked, "-o", library)
    needed = re.findall(r"NEEDED.*\[(.*)\]", require("readelf", "-d", library))
    assert set(needed) <= {"libc.so.6", "ld-linux-aarch64.so.1"}
