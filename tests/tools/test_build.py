"""What `make` says of machines that lack something, and what it does again."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / f"tools/{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build():
    return load("build")


def program(folder, text):
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("exit 1", "cannot be run; install g++ 11 or newer"),
        ("echo '#define __GNUC__ 10'", "is GCC 10, too old for C++20; install g++ 11 or newer"),
    ],
)
def test_a_compiler_that_will_not_do(build, monkeypatch, tmp_path, text, sentence):
    monkeypatch.setenv("CXX", program(tmp_path, text))
    with pytest.raises(build.BuildError, match=sentence.replace("+", r"\+")):
        build.require_compiler()


@pytest.mark.parametrize(
    "text",
    [
        "echo '#define __GNUC__ 11'",
        "echo '#define __GNUC__ 4'; echo '#define __clang__ 1'",  # what clang says of itself
    ],
)
def test_a_compiler_that_will_do(build, monkeypatch, tmp_path, text):
    monkeypatch.setenv("CXX", program(tmp_path, text))
    build.require_compiler()


def test_a_compiler_that_is_not_there(build, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match="'no-such-compiler' cannot be run"):
        build.require_compiler()


def test_missing_headers_of_python(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(build.BuildError, match="install python3-dev"):
        build.require_python()


def test_a_disk_with_too_little_room(build, monkeypatch, tmp_path):
    usage = type("Usage", (), {"free": 5e8})
    monkeypatch.setattr(build.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(build, "BUILD", tmp_path / "none")
    with pytest.raises(build.BuildError, match=r"0\.5 GB free .* takes up to 3 GB"):
        build.require_disk()


LOGS = {
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device": (
        "the disk is full"
    ),
    "WARNING: Retrying after connection broken by 'NewConnectionError(...)': /simple/ninja/\n"
    "ERROR: No matching distribution found for ninja": "no package index answers",
    "ERROR: Could not find a version that satisfies the requirement x (from versions: none)": (
        "no package index answers"
    ),
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.": (
        "not the one that lanescope was tested with"
    ),
    "ERROR: Could not find a version that satisfies x==9 (from versions: 1, 2)\n"
    "ERROR: No matching distribution found for x==9": "has no x==9 for this Python",
    "-- one\nCMake Error at cmake/architectures.cmake:37 (message):\n  'sm99' is no GPU\n"
    "  architecture\nCall Stack (most recent call first):\n  CMakeLists.txt:19 (include)\n": (
        "'sm99' is no GPU architecture (all of it"
    ),
    "  error: subprocess-exited-with-error\n      CMake Error at a.cmake:6 (message):\n"
    "        hwloc not found\n      \n      -- Configuring incomplete\n": "hwloc not found (all of",
    "[1/2] Building\nnvcc fatal   : Unsupported gpu architecture 'compute_99'\nninja: stopped": (
        "nvcc fatal   : Unsupported gpu architecture"
    ),
    "": "nothing was printed",
}


@pytest.mark.parametrize("log", LOGS)
def test_a_failed_step_is_one_sentence(build, log):
    said = build.reason(log, ROOT / "build/logs/x.log")
    assert LOGS[log] in said
    assert "\n" not in said
    assert said.endswith("(all of it: build/logs/x.log)")


def test_every_requirement_of_the_project_is_pinned_with_hashes(build):
    for group in build.GROUPS:
        lines = build.CONSTRAINTS.read_text().partition(f"{build.GROUP_MARK}{group}\n")[2]
        assert lines, group
    entries = re.split(r"\n+(?=\S)", build.listed(*build.GROUPS).strip())
    pin = re.compile(r"[\w.-]+==[\w.+]+( \\\n +--hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in entries if not pin.fullmatch(entry)] == []
    versions = dict(entry.split(" ")[0].split("==") for entry in entries)
    assert len(versions) == len(entries)  # none twice
    for word in (word for group in build.GROUPS for word in build.required(group)):
        requirement = Requirement(word)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert requirement.specifier.contains(versions[name]), word


def test_versions_are_free_where_somebody_wants_that(build, monkeypatch):
    monkeypatch.setenv("LANESCOPE_PINS", "off")
    assert "numpy>=" in build.listed("package")


def test_a_step_is_done_again_for_another_value(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "VENV", tmp_path)
    build.Stamp("tools", "1").set()
    assert build.Stamp("tools", "1").is_set()
    assert not build.Stamp("tools", "2").is_set()
    assert not build.Stamp("package", "1").is_set()


def test_an_interrupted_pip_makes_the_environment_anew(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "VENV", tmp_path / "venv")
    monkeypatch.setattr(build, "BIN", tmp_path / "venv/bin")
    monkeypatch.setattr(build, "UNFINISHED", tmp_path / "venv/unfinished")
    monkeypatch.setattr(build, "LOGS", tmp_path)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    made = []

    def make(command, log, env=None):
        made.append(command)
        (tmp_path / "venv/bin").mkdir(parents=True)
        program(tmp_path / "venv/bin", "echo pip 23.0.1 from somewhere")
        (tmp_path / "venv/bin/compiler").rename(tmp_path / "venv/bin/pip")

    monkeypatch.setattr(build, "run", make)
    build.create_environment()
    build.create_environment()
    assert len(made) == 1
    build.UNFINISHED.touch()
    build.create_environment()
    assert len(made) == 2
    assert not build.UNFINISHED.exists()


def test_an_old_pip_is_named_with_the_remedy(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "VENV", tmp_path / "venv")
    monkeypatch.setattr(build, "BIN", tmp_path / "venv/bin")
    (tmp_path / "venv/bin").mkdir(parents=True)
    program(tmp_path / "venv/bin", "echo pip 9.0.1 from somewhere")
    pip = tmp_path / "venv/bin/compiler"
    monkeypatch.setattr(build.shutil, "rmtree", lambda *_, **__: None)
    pip.rename(tmp_path / "venv/bin/pip")
    monkeypatch.setattr(build, "run", lambda *_: None)
    with pytest.raises(build.BuildError, match=r"pip 22 or newer is needed .*'pip 9\.0\.1'"):
        build.create_environment()


@pytest.mark.parametrize(
    ("architectures", "sentence"),
    [
        ("sm_90", "'sm_90' is no GPU architecture"),
        ("70", "no code for GPUs of compute capability below 7.5"),
        ("99", "compiler does not know the GPU architecture '99'"),
    ],
)
def test_architectures_that_cannot_be(build, tmp_path, architectures, sentence):
    """Asked of CMake itself, with the compiler of this environment."""
    cmake = Path(sys.executable).with_name("cmake")
    if not cmake.exists():
        pytest.skip("no CMake beside this Python")
    pytest.importorskip("nvidia.cu13")
    done = subprocess.run(
        [cmake, "-S", ROOT, "-B", tmp_path, f"-DLANESCOPE_ARCHITECTURES={architectures}",
         f"-DPython_EXECUTABLE={sys.executable}"],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PATH": f"{cmake.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode != 0
    assert sentence in build.reason(done.stderr, ROOT / "build/logs/cmake.log")
