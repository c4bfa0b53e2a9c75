"""A wheel, built from a source distribution, in an environment that has Python and nothing else."""

import ctypes
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import lanescope
from tests.native.programs import locked

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.native


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    own = tmp_path_factory.getbasetemp()
    several = "PYTEST_XDIST_WORKER" in os.environ
    out = (own.parent if several else own) / "dist"
    out.mkdir(exist_ok=True)
    with locked(out):  # processes that run tests share one
        return next(out.glob("*.whl"), None) or made_wheel(out)


def made_wheel(out):
    # it takes minutes to compile; one architecture stands for all
    script = [sys.executable, ROOT / "tools/wheel.py", "--out", out, "--from-sdist", "--alone"]
    said = run(*script, env=os.environ | {"LANESCOPE_ARCHITECTURES": "90"})
    path = next(out.glob("*.whl"))
    assert said.startswith(f"{path.name}: ")
    return path


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """The folder with the commands of an environment that nothing was compiled in."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", folder / "venv")
    programs = folder / "venv/bin"
    # as users do, with the newest of what it needs
    pip = [programs / "pip", "install", "--quiet", "--no-compile", wheel]
    run(*pip, env=bare_environment(programs))
    return programs


def bare_environment(programs):
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL"))}
    return kept | {"PATH": str(programs), "HOME": str(programs.parent), "COLUMNS": "160"}


def test_its_name_says_python_and_platform(wheel):
    version = lanescope.__version__
    minor = sys.version_info[1]
    python = "cp312-abi3" if minor >= 12 else f"cp3{minor}-cp3{minor}"
    name = rf"lanescope-{re.escape(version)}-{python}-manylinux_2_34_\w+\.whl"
    assert re.fullmatch(name, wheel.name)


def test_it_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    files = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "src/lanescope"], capture_output=True, text=True
    ).stdout.split()
    if not files:
        pytest.skip("no checkout of git to compare with")
    ours = {name.removeprefix("src/") for name in files}
    assert ours <= names
    built = {name for name in names - ours if ".dist-info/" not in name}
    library = {name for name in built if name.startswith("lanescope/cpp/")}
    assert {Path(name).name for name in library} == {
        *(
            "codecs.hpp",
            "compression.hpp",
            "host_copies.hpp",
            "version.hpp",
            "liblanescope_compression.a",
        ),
        *("lanescope-config.cmake", "lanescope-config-version.cmake", "lanescope-cudart.cmake"),
        *("lanescope-targets.cmake", "lanescope-targets-release.cmake"),
    }
    built -= library
    assert sorted(re.sub(r"\.(abi3|cpython-\S+?)\.so", ".so", name) for name in built) == [
        "lanescope/_native.so",
        "lanescope/liblanescope_batch.so",
        "lanescope/liblanescope_boost.so",
        "lanescope/liblanescope_calls.so",
        "lanescope/liblanescope_inject.so",
        "lanescope/liblanescope_no_pciaccess.so",
    ]


def member(wheel, ending):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name)


def test_it_brings_the_licences_of_what_is_compiled_in(wheel):
    text = member(wheel, "licenses/THIRD-PARTY-NOTICES.txt").decode()
    for words in (
        r"CUDA runtime 13\.0\.\d+ \(",
        r"NVIDIA.*\n(.*\n)*.*distribut",
        r"nanobind 3\.\d+\.\d+ \(BSD-3-Clause\)",
        r"Redistributions in binary form must reproduce",
        r"robin-map .* \(MIT\)",
        r"libc\+\+ .* \(Apache-2\.0 WITH LLVM-exception\)",
        r"LLVM Exceptions to the Apache 2\.0 License",
    ):
        assert re.search(words, text), words


def test_its_bill_of_materials_names_every_part_and_need(wheel):
    bill = json.loads(member(wheel, "sboms/lanescope.cdx.json"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == lanescope.__version__
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["CUDA runtime"]["version"].startswith("13.0.")
    assert parts["nanobind"]["licenses"] == [{"expression": "BSD-3-Clause"}]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[^\w-]", word)[0] for word in needed} <= parts.keys()
    (graph,) = bill["dependencies"]
    assert set(graph["dependsOn"]) == {part["bom-ref"] for part in bill["components"]}


@pytest.mark.parametrize(
    ("name", "entry"), [("inject", "InitializeInjection"), ("calls", "cuMemcpyHtoD_v2")]
)
def test_containers_with_an_old_c_library_load_what_is_injected(wheel, tmp_path, name, entry):
    library = tmp_path / "library.so"
    library.write_bytes(member(wheel, f"liblanescope_{name}.so"))
    said = run("readelf", "--version-info", "--dynamic", "--wide", library)
    needed = {tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_([\d.]+)", said)}
    assert (2, 2, 5) <= max(needed) <= (2, 28)
    libraries = re.findall(r"NEEDED.*\[(.*)\]", said)
    assert {name.partition(".so")[0] for name in libraries} <= {
        *("libc", "libdl", "libm", "libpthread"),
        *("ld-linux-x86-64", "ld-linux-aarch64"),
    }
    assert hasattr(ctypes.CDLL(str(library)), entry)


def test_it_checks_a_machine_without_a_compiler(bare, tmp_path):
    environment = bare_environment(bare) | {"LANESCOPE_RUNS": str(tmp_path)}
    assert "Usage" in run(bare / "lanescope", "--help", env=environment)
    version = run(bare / "lanescope", "--version", env=environment)
    assert re.search(r"commit \w+(-dirty)?, CUDA 13\.\d+, code for sm_90, PTX 9\.0\)", version)
    table = run(bare / "lanescope", "check", "--budget", "0.2", env=environment, cwd=tmp_path)
    assert "memory h0: copy, one core" in table


def test_programs_link_the_library_that_it_brings(bare, tmp_path):
    prefix = run(bare / "lanescope", "--cmake-prefix", env=bare_environment(bare)).strip()
    cmake = Path(sys.executable).with_name("cmake")
    cuda = next(iter(pytest.importorskip("nvidia.cu13").__path__))
    found = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DLANESCOPE_CUDA_HINTS={cuda}"]
    run(cmake, "-S", ROOT / "native/examples", "-B", tmp_path / "build", *found)
    run(cmake, "--build", tmp_path / "build")
    values = np.sin(np.arange(100_000) * 1e-3)
    values.tofile(tmp_path / "values")
    stream = tmp_path / "stream"
    program = tmp_path / "build/compress_file"
    run(program, "compress", tmp_path / "values", stream, "float64", "delta")
    assert stream.read_bytes() == lanescope.compress(values, "delta").tobytes()
