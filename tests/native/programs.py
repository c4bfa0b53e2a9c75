"""The programs and libraries that tests run: native/tests/CMakeLists.txt builds them, when asked.

`python -m tests.native.programs NAME` builds one and prints its path; `--all` builds all.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/native-tests"


class MissingError(Exception):
    """This machine lacks something that a program needs."""


class BrokenError(Exception):
    """CMake or a compiler failed; with what it said."""


def program(name: str) -> Path:
    """Return the path of a target that is up to date; skip the test if it cannot be built here."""
    with _told_to_pytest():
        return built(name)


def flags_for(kind: str) -> list[str]:
    """Return the compiler's flags for a kind of CPU; none where it knows no such CPU."""
    with _told_to_pytest(), locked(BUILD):
        configure()
        return [flag for flag in (BUILD / "flags" / kind).read_text().split(";") if flag]


def include_flags() -> list[str]:
    """Return the compiler's options for own headers, those that CMake writes among them."""
    with _told_to_pytest(), locked(BUILD):
        configure()
    folders = (ROOT / "native/include", ROOT / "native/src", BUILD / "generated")
    return [f"-I{folder}" for folder in folders]


@contextlib.contextmanager
def _told_to_pytest() -> Iterator[None]:
    try:
        yield
    except MissingError as missing:
        raise pytest.skip.Exception(str(missing)) from None
    except BrokenError as broken:
        raise pytest.fail.Exception(str(broken), pytrace=False) from None


def built(name: str) -> Path:
    """Return the path of a target that is up to date, or raise why there is none."""
    outcome = _attempted(name)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@functools.cache  # of failures, too: many tests may need the same target
def _attempted(name: str) -> Path | MissingError | BrokenError:
    try:
        with locked(BUILD):
            configure()
            reason = BUILD / "left-out" / name
            if reason.is_file():
                return MissingError(f"{name} is not built: {reason.read_text()}")
            compile_targets("--target", name)
            return Path((BUILD / "targets" / name).read_text())
    except (MissingError, BrokenError) as error:
        return error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that do the same from building in a folder meanwhile."""
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tool(name: str) -> str | None:
    """Return the path of a tool: of the environment that runs this, else of the machine."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(folders))


def cmake() -> str:
    found = tool("cmake")
    if found is None:
        raise MissingError("there is no CMake")
    return found


def cuda_headers() -> list[Path]:
    """Return the folders that hold headers of CUDA or CUPTI: those of wheels, then the system's."""
    wheels = [Path(entry) / "nvidia/cu13/include" for entry in sys.path if entry]
    toolkit = Path("/usr/local/cuda")
    folders = [*wheels, toolkit / "include", toolkit / "extras/CUPTI/include"]
    return [folder for folder in folders if folder.is_dir()]


def compiler() -> str:
    found = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "c++")), None)
    if found is None:
        raise MissingError("there is no C++ compiler")
    return found


@functools.cache
def configure() -> None:
    """Have CMake lay out the build folder; anew where it was laid out with other tools."""
    ninja = tool("ninja")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []
    headers = ";".join(map(str, cuda_headers()))
    folders = ["-S", str(ROOT / "native/tests"), "-B", str(BUILD)]
    command = [cmake(), *generator, *folders, f"-DLANESCOPE_CUDA_HEADERS={headers}"]
    environment = {"CXX": compiler()}
    key, stamp = repr((command, environment)), BUILD / "configured-with"
    if stamp.is_file() and stamp.read_text() == key:
        return
    shutil.rmtree(BUILD, ignore_errors=True)
    run(command, environment)
    stamp.write_text(key)


def compile_targets(*options: str) -> None:
    jobs = str(len(os.sched_getaffinity(0)))
    run([cmake(), "--build", str(BUILD), "--parallel", jobs, *options])


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    variables = os.environ | (environment or {})
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode != 0:
        raise BrokenError(done.stdout + done.stderr)


def build_all() -> None:
    """Build all that this machine can, and tell what is left out."""
    with locked(BUILD):
        configure()
        compile_targets()
    for reason in sorted(BUILD.glob("left-out/*")):
        print(f"{reason.name} is not built: {reason.read_text()}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native.programs")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("name", nargs="?", help="the program whose path is printed")
    what.add_argument("--all", action="store_true")
    asked = parser.parse_args()
    try:
        if asked.all:
            build_all()
        else:
            print(built(asked.name))
    except (MissingError, BrokenError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
