"""Runs the tests: python tools/test.py quick|native|torture|lint. Used by the Makefile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SLOWEST = 20


def native_files() -> list[str]:
    kinds = ("*.cpp", "*.hpp", "*.cu", "*.cuh")
    return sorted(str(path) for kind in kinds for path in (ROOT / "native").rglob(kind))


def lint() -> bool:
    """Style and types; all of it runs, so that one report says all that is wrong."""
    commands: Sequence[Sequence[str]] = (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("clang-format", "--dry-run", "--Werror", *native_files()),
        ("mypy",),
    )
    processes = [subprocess.Popen([BIN / name, *rest], cwd=ROOT) for name, *rest in commands]
    return not any([process.wait() for process in processes])  # noqa: C419, all have to end


def quick() -> bool:
    """Style, types and all tests but the native ones, at the same time: tests wait a lot."""
    with ThreadPoolExecutor(1) as thread:
        style = thread.submit(lint)
        return tests("not native") & style.result()


def tidy() -> bool:
    """What clang-tidy finds in all that the build compiles for the CPU; see .clang-tidy."""
    commands = json.loads((ROOT / "build/native/compile_commands.json").read_text())
    files = dict.fromkeys(one["file"] for one in commands)
    ours = [one for one in files if not one.endswith(".cu") and "/nanobind-" not in one]

    def checked(file: str) -> bool:
        command = [BIN / "clang-tidy", "-p", ROOT / "build/native", "--quiet", file]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        sys.stdout.write(done.stdout)
        return done.returncode == 0

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return all(list(threads.map(checked, ours)))  # all have to end


def rewrite() -> None:
    """Have pytest rewrite the tests' assertions once: else each of its workers does all of them."""
    waiting = [path for path in sorted((ROOT / "tests").rglob("*.py")) if not is_rewritten(path)]
    cpus = len(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only"]
    parts = [part for i in range(cpus) if (part := waiting[i::cpus])]
    processes = [
        subprocess.Popen([*command, *part], cwd=ROOT, env=variables(), stdout=subprocess.DEVNULL)
        for part in parts
    ]
    for process in processes:
        process.wait()  # what is wrong there is said when tests run


def is_rewritten(path: Path) -> bool:
    """Whether there is nothing in a file for pytest, or it was there."""
    if not path.name.startswith("test_"):
        return True
    found = (path.parent / "__pycache__").glob(f"{path.stem}.*-pytest-*.pyc")
    return any(one.stat().st_mtime >= path.stat().st_mtime for one in found)


def variables(**more: str) -> dict[str, str]:
    """Return the environment of tests, whose compiled files stay for the next run."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return own | more


def tests(marked: str, *paths: str, **more: str) -> bool:
    """Those that a marker selects, on all CPUs."""
    rewrite()
    command = [sys.executable, "-m", "pytest", "-q", "-m", marked, f"--durations={SLOWEST}"]
    # one more than CPUs, as some always wait
    workers = ["-n", str(len(os.sched_getaffinity(0)) + 1), "--dist", "worksteal"]
    done = subprocess.run(
        [*command, *workers, *paths], cwd=ROOT, env=variables(**more), check=False
    )
    return done.returncode == 0


def programs() -> bool:
    """Of the native tests: compilers are busier than if each is built when a test asks for it."""
    command = [sys.executable, "-m", "tests.native.programs", "--all"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main(which: str) -> int:
    if shutil.which("ruff", path=str(BIN)) is None:
        print("the test tools are missing; run make test", file=sys.stderr)
        return 2
    good = {
        "lint": lambda: lint() & tidy(),
        "quick": quick,
        "native": lambda: programs() & tests("native"),
        "torture": lambda: tests("not native", "tests/torture", LANESCOPE_TRIALS="full"),
    }[which]()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
