"""Runs programs that a layer which carries copies could get wrong, and says what differs by it.

::

    python benchmarks/boost/hostile/run.py OUT [--lanescope COMMAND] [--only NAME,NAME]

programs.cu is built three times: as usual (cases by their bare names), with per-thread default
streams (``ptds.NAME``) and with a shared CUDA runtime (``shared.NAME``); the cases of programs.py
are ``py.NAME``. Each runs as it is (``plain``), by ``lanescope boost``, by ``lanescope boost
--batch`` and by ``lanescope watch``, each time with the same input and in the same folder. The exit
code, or the signal, and the whole standard output are compared with those of the plain run;
standard error is not. Where they differ, plain and that mode run once more: a program that is not
steady by itself is no finding.

A line for each case: how plain ended, then for each mode ``same``, ``FORM`` (128 and the signal in
place of the signal) or ``DIFFERS``, processes left behind that plain did not leave, how many copies
``boost`` carried, and seconds. OUT gets these lines (lines.txt), all that was found (results.json),
both outputs where they differ (differences.txt), each run's output (runs) and watches that were not
``same``. It ends with 1 where a case differs. All of it takes about seven minutes on one H100.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
INPUT = bytes((i * i + 7) % 256 for i in range(100_000))
MOST_OUTPUT = 4 << 20

#: What `lanescope` gets in front of the program; ``{folder}`` is a new one for each run.
MODES: dict[str, list[str]] = {
    "plain": [],
    "boost": ["boost"],
    "batch": ["boost", "--batch"],
    "watch": ["watch", "--quiet", "--out", "{folder}"],
}
CARRYING = ("boost", "batch")

#: Cases that the other two builds run, too.
PER_THREAD = [
    "default_streams", "fuzz_tiny", "chain", "thread_exit", "no_wait", "small_no_wait", "poll_tiny",
    "storm", "reuse_source", "sizes_async", "fuzz_big", "capture", "capture_global",
    "host_function", "pinned_order", "by_hand", "contexts", "sticky_assert", "end_tiny",
]  # fmt: skip
SHARED = ["hello", "errors", "fork", "exec", "end_handler_early"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program and how it is started."""

    name: str
    command: list[str]


@dataclasses.dataclass(frozen=True)
class Ended:
    """What one run left: `code` is the exit code, minus the signal, or a word."""

    code: int | str
    output: bytes = b""
    errors: bytes = b""
    processes_left: int = 0
    seconds: float = 0.0


@dataclasses.dataclass
class Outcome:
    """What became of a case in all modes; `outputs` of plain and of the modes that differ."""

    case: str
    status: str
    exit: int | str | None = None
    words: list[str] = dataclasses.field(default_factory=list)
    steady: str = ""
    wrong: bool = False
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    differs: list[str] = dataclasses.field(default_factory=list)
    outputs: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    def heading(self) -> str:
        return f"===== {self.case}: {', '.join(self.words)}{self.steady}"


class Trial:
    """Folders, limits and printed lines that all runs share."""

    def __init__(self, out: Path, limit: float, total: float) -> None:
        self.begun = time.monotonic()
        self.out, self.limit, self.total = out, limit, total
        self.programs, self.runs, self.watches, self.cwd = (
            out / name for name in ("bin", "runs", "watches", "cwd")
        )
        for folder in (self.programs, self.runs, self.watches, self.cwd):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        (out / "lines.txt").write_text("")

    def line(self, text: str) -> None:
        with self._lock, open(self.out / "lines.txt", "a") as log:
            print(text, flush=True)
            log.write(text + "\n")

    def elapsed(self) -> float:
        return time.monotonic() - self.begun

    def remaining(self) -> float:
        return self.total - self.elapsed()


# One run.


def marked(mark: str) -> list[int]:
    """Return the processes that have the mark of a run in their environment, and no others."""
    wanted, found = f"HOSTILE_CASE={mark}".encode(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path("/proc", entry, "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(entry))
    return found


def end_all(mark: str, process: subprocess.Popen[bytes]) -> None:
    """End what a run started."""
    for _ in range(5):
        pids = set(marked(mark))
        if process.poll() is None:
            pids.add(process.pid)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def drain(pipe: IO[bytes], into: bytearray) -> None:
    while chunk := os.read(pipe.fileno(), 65536):
        if len(into) < MOST_OUTPUT:
            into += chunk


def feed(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        pipe.write(INPUT)
        pipe.close()


def run(trial: Trial, command: list[str], name: str, limit: float | None = None) -> Ended:
    """Run a command with `INPUT`, until it ends or its time is over."""
    mark = f"{os.getpid()}-{name}-{time.monotonic_ns()}"
    environment = dict(os.environ, HOSTILE_CASE=mark, PYTHONDONTWRITEBYTECODE="1")
    limit = min(limit or trial.limit, max(trial.remaining(), 1))
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=trial.cwd, env=environment, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Ended(f"cannot run: {error}")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = bytearray(), bytearray()
    readers = [
        threading.Thread(target=drain, args=(process.stdout, output), daemon=True),
        threading.Thread(target=drain, args=(process.stderr, errors), daemon=True),
    ]
    writer = threading.Thread(target=feed, args=(process.stdin,), daemon=True)
    for helper in (*readers, writer):
        helper.start()
    code: int | str
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        code = "hung"
    seconds = time.monotonic() - begun
    for reader in readers:
        reader.join(1.5 if code != "hung" else 0)
    left = len(marked(mark)) if code != "hung" else 0
    end_all(mark, process)
    for helper in (*readers, writer):
        helper.join(2)
    return Ended(code, bytes(output), bytes(errors), left, seconds)


# Building.


def nvcc_command(words: argparse.Namespace) -> list[str] | None:
    """Return the compiler with its options, or None where there is none."""
    usual = f"{words.cuda}/bin/nvcc"
    nvcc = words.nvcc or (usual if os.path.exists(usual) else shutil.which("nvcc"))
    if not nvcc:
        return None
    more = shlex.split(os.environ.get("HOSTILE_NVCC", ""))
    options = ["-std=c++17", "-O2", f"-arch={words.arch}", "-Xcompiler", "-Wall,-Wextra"]
    return [nvcc, *options, *more, str(HERE / "programs.cu")]


def driver_options(cuda: str) -> list[list[str]]:
    """Return options that link the driver: by the toolkit's stub, or else the library itself."""
    folders = [f"{cuda}/{one}/stubs" for one in ("lib64", "lib", "targets/x86_64-linux/lib")]
    stubs = [f"-L{folder}" for folder in folders if os.path.isdir(folder)]
    listing = subprocess.run(
        "ldconfig -p 2>/dev/null || /sbin/ldconfig -p", shell=True, capture_output=True, text=True,
        check=False,
    ).stdout  # fmt: skip
    libraries = re.findall(r"libcuda\.so\.1 .*=> (\S+)", listing)
    return [[*stubs, "-lcuda"], *(["-Xlinker", library] for library in libraries)]


def build_options(cuda: str) -> dict[str, list[str]]:
    """Return by program what nvcc gets for it."""
    folders = (f"{cuda}/lib64", f"{cuda}/lib")
    libraries = next((one for one in folders if os.path.isdir(one)), "")
    shared = ["-cudart", "shared", "-Xlinker", "-rpath", "-Xlinker", libraries, f"-L{libraries}"]
    return {
        "hostile": [],
        "hostile_ptds": ["--default-stream", "per-thread"],
        "hostile_shared": shared,
    }


def build_one(trial: Trial, name: str, command: list[str], links: list[list[str]]) -> bool:
    """Build a program by the first options that link it."""
    text, built = "", False
    for link in links:
        done = subprocess.run(
            [*command, *link, "-ldl", "-lpthread", "-o", str(trial.programs / name)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        text += done.stdout
        if built := done.returncode == 0:
            break
    (trial.out / f"build-{name}.txt").write_text(text)
    return built


def build(trial: Trial, words: argparse.Namespace) -> dict[str, bool]:
    """Build all programs, and return which were built."""
    command = nvcc_command(words)
    if not command:
        trial.line("no nvcc")
        return {}
    links, wanted = driver_options(words.cuda), build_options(words.cuda)
    library = ["cc", "-shared", "-fPIC", "-O2", "-o", str(trial.programs / "libpreloaded.so"),
               str(HERE / "preloaded.c"), "-ldl"]  # fmt: skip
    with ThreadPoolExecutor(5) as pool:
        preloaded = pool.submit(subprocess.run, library, check=False)
        # The first import reads PyTorch from the disk: no case waits for it.
        pool.submit(subprocess.run, [words.python, "-c", "import torch"], stderr=subprocess.DEVNULL)
        builds = {
            name: pool.submit(build_one, trial, name, [*command, *options], links)
            for name, options in wanted.items()
        }
    if preloaded.result().returncode:
        trial.line("libpreloaded.so was not built")
    built = {name: one.result() for name, one in builds.items()}
    for name in (name for name, worked in built.items() if not worked):
        text = trial.out / f"build-{name}.txt"
        trial.line(f"{name} was not built: {text}")
        print(text.read_text()[-3000:])
    return built


# What is run.


def find_lanescope(words: argparse.Namespace) -> list[str]:
    if words.lanescope:
        return shlex.split(words.lanescope)
    neighbour = Path(words.python).parent / "lanescope"
    for path in (shutil.which("lanescope"), str(neighbour) if neighbour.exists() else None):
        if path:
            return [path]
    return [words.python, "-m", "lanescope"]


def prefixes_of(trial: Trial, lanescope: list[str], wanted: list[str]) -> dict[str, list[str]]:
    """Return by mode what comes before a program; modes that lanescope refuses are left out."""
    prefixes: dict[str, list[str]] = {"plain": []}
    for mode in (one for one in wanted if one != "plain"):
        prefix = [*lanescope, *MODES[mode], "--"]
        ended = run(trial, in_folder([*prefix, "true"], trial.watches / f"probe.{mode}"), mode, 60)
        if ended.code == 0:
            prefixes[mode] = prefix
            continue
        text = (ended.errors or ended.output).decode(errors="replace").strip()[-300:]
        trial.line(f"not accepted: {' '.join(MODES[mode])} ({ended.code}): {text}")
        trial.line(f"mode {mode} is left out")
    return prefixes


def in_folder(command: list[str], folder: Path) -> list[str]:
    return [str(folder) if part == "{folder}" else part for part in command]


def names_from(command: list[str]) -> list[str]:
    done = subprocess.run([*command, "list"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split()


def all_cases(trial: Trial, words: argparse.Namespace, built: dict[str, bool]) -> list[Case]:
    """Return the cases of all programs that are there, or those of them that were named."""
    cases: list[Case] = []

    def more(prefix: str, command: list[str], names: list[str]) -> None:
        cases.extend(Case(prefix + name, [*command, name]) for name in names)

    usual = [str(trial.programs / "hostile")]
    python = [words.python, str(HERE / "programs.py")]
    if built.get("hostile"):
        more("", usual, names_from(usual))
    more("py.", python, names_from(python))
    for kind, names in (("ptds", PER_THREAD), ("shared", SHARED)):
        if built.get(f"hostile_{kind}"):
            more(f"{kind}.", [str(trial.programs / f"hostile_{kind}")], names)
    only = [name for name in words.only.split(",") if name]
    return [case for case in cases if not only or case.name in only]


# Comparing.


def compared_ends(plain: int | str, other: int | str) -> str:
    """Return ``same``, ``form`` (128 and the signal in place of the signal) or ``other``."""
    if plain == other:
        return "same"
    if isinstance(plain, int) and isinstance(other, int):
        least, most = sorted((plain, other))
        if least < 0 and 128 - least == most:
            return "form"
    return "other"


def compared(plain: Ended, other: Ended) -> str:
    """Return ``same``, ``FORM`` or ``DIFFERS``, and the processes left behind."""
    ends = compared_ends(plain.code, other.code)
    note = "DIFFERS"
    if plain.output == other.output and ends != "other":
        note = "same" if ends == "same" else "FORM"
    if other.processes_left > plain.processes_left:
        note += f" ({other.processes_left} processes left)"
    return note


def carried(errors: bytes) -> str:
    """Return what `boost` says it carried, and gathered."""
    text = errors.decode(errors="replace")
    counts = [str(int(one.replace(",", ""))) for one in re.findall(r"Carried ([\d,]+) cop", text)]
    gathered = re.findall(r"Gathered ([\d,]+) cop", text)
    return "+".join(counts or ["-"]) + (f" gathered {'+'.join(gathered)}" if gathered else "")


def run_case(trial: Trial, case: Case, mode: str, prefix: list[str], suffix: str = "") -> Ended:
    """Run a case in a mode, and write down what it printed."""
    stem = f"{case.name}.{mode}{suffix}"
    command = in_folder(prefix, trial.watches / stem) + case.command
    ended = run(trial, command, case.name)
    (trial.runs / f"{stem}.out").write_bytes(ended.output)
    (trial.runs / f"{stem}.err").write_bytes(ended.errors)
    (trial.runs / f"{stem}.exit").write_text(f"{ended.code}\n{shlex.join(command)}\n")
    return ended


def run_again(
    trial: Trial,
    case: Case,
    prefixes: dict[str, list[str]],
    found: dict[str, Ended],
    differs: list[str],
) -> str:
    """Say whether plain is the same each time, and whether the differences come again."""
    plain = found["plain"]
    again = run_case(trial, case, "plain", prefixes["plain"], "-again")
    unsteady = (again.code, again.output) != (plain.code, plain.output)
    text = " | PLAIN IS NOT STEADY" if unsteady else ""
    for mode in differs:
        if trial.remaining() <= 3:
            continue
        second = run_case(trial, case, mode, prefixes[mode], "-again")
        outputs, codes = (plain.output, again.output), (plain.code, again.code)
        if second.output in outputs and second.code in codes:
            how = "as plain"
        elif (second.code, second.output) == (found[mode].code, found[mode].output):
            how = "as before"
        else:
            how = "different again"
        text += f" | {mode} again: {how}"
    return text


def do_case(trial: Trial, case: Case, prefixes: dict[str, list[str]]) -> Outcome:
    """Run a case in all modes and compare."""
    if trial.remaining() < 8:
        trial.line(f"{case.name:32} not run: no time left")
        return Outcome(case.name, "not run")
    found: dict[str, Ended] = {}
    words, differs = [], []
    for mode, prefix in prefixes.items():
        if trial.remaining() < 3 and mode != "plain":
            words.append(f"{mode} not run")
            continue
        found[mode] = run_case(trial, case, mode, prefix)
    plain = found["plain"]
    for mode, ended in found.items():
        if mode == "plain":
            continue
        note = compared(plain, ended)
        if note == "same":
            shutil.rmtree(trial.watches / f"{case.name}.{mode}", ignore_errors=True)
        if "DIFFERS" in note:
            differs.append(mode)
        words.append(f"{mode} {note}" + (f" [{carried(ended.errors)}]" if mode in CARRYING else ""))
    steady = ""
    if differs and trial.remaining() > 5:
        steady = run_again(trial, case, prefixes, found, differs)
    outcome = Outcome(
        case=case.name,
        status="differs" if differs else "same",
        exit=plain.code,
        words=words,
        steady=steady,
        wrong=b"WRONG" in plain.output,
        seconds={mode: round(ended.seconds, 2) for mode, ended in found.items()},
        differs=differs,
    )
    if differs:
        outcome.outputs = {
            mode: (str(found[mode].code), found[mode].output.decode(errors="replace"))
            for mode in ("plain", *differs)
        }
    trial.line(outcome_line(outcome))
    return outcome


def outcome_line(outcome: Outcome) -> str:
    wrong = " | plain says WRONG" if outcome.wrong else ""
    seconds = " ".join(f"{mode} {one:.1f}" for mode, one in outcome.seconds.items())
    return (
        f"{outcome.case:32} exit {outcome.exit!s:>5}  {', '.join(outcome.words)}"
        f"{outcome.steady}{wrong}  ({seconds} s)"
    )


def try_case(trial: Trial, case: Case, prefixes: dict[str, list[str]]) -> Outcome:
    """Run a case; an error here ends no other case."""
    try:
        return do_case(trial, case, prefixes)
    except Exception as error:
        trial.line(f"{case.name:32} run.py failed: {type(error).__name__}: {error}")
        return Outcome(case.name, "failed")


# The end.


def remove_roots() -> None:
    """Remove the empty folders that the case ``dropped`` cannot remove from inside them."""
    for folder in Path("/tmp").glob("hostile-root-*"):
        with contextlib.suppress(OSError):
            folder.rmdir()


def write_down(trial: Trial, outcomes: list[Outcome]) -> None:
    """Write all that was found, and both outputs where they differ."""
    found = [dataclasses.asdict(one) for one in outcomes]
    (trial.out / "results.json").write_text(json.dumps(found, indent=1))
    with open(trial.out / "differences.txt", "w") as file:
        for one in outcomes:
            if one.status != "differs":
                continue
            file.write(one.heading() + "\n")
            for mode, (code, text) in one.outputs.items():
                file.write(f"----- {mode}: exit {code}\n{text}\n")


def show_differences(outcome: Outcome) -> None:
    """Print the first differences in short."""
    print(outcome.heading())
    code, text = outcome.outputs["plain"]
    for mode in outcome.differs:
        other, printed = outcome.outputs[mode]
        print(f"----- {mode}: exit {code} -> {other}")
        lines = difflib.unified_diff(
            text.splitlines(), printed.splitlines(), "plain", mode, n=1, lineterm=""
        )
        print("\n".join(list(lines)[:24]))


def summary(trial: Trial, outcomes: list[Outcome]) -> str:
    states = ("same", "differs", "not run", "failed")
    counts = {state: sum(one.status == state for one in outcomes) for state in states}

    def names(chosen: list[bool]) -> str:
        return (
            " ".join(one.case for one, yes in zip(outcomes, chosen, strict=True) if yes) or "none"
        )

    return (
        f"{counts} in {trial.elapsed():.0f} s;"
        f" differ: {names([one.status == 'differs' for one in outcomes])};"
        f" plain says WRONG: {names([one.wrong for one in outcomes])};"
        f" plain hung: {names([one.exit == 'hung' for one in outcomes])}"
    )


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--lanescope", help="the command, with arguments where it needs some")
    parser.add_argument("--python", default=sys.executable, help="runs programs.py")
    parser.add_argument("--nvcc")
    parser.add_argument("--arch", default="sm_90", help="of the GPU, for nvcc")
    parser.add_argument("--cuda", default="/usr/local/cuda", help="the folder of the toolkit")
    parser.add_argument("--only", default="", help="NAME, ptds.NAME, shared.NAME or py.NAME, ...")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--limit", type=float, default=20, help="seconds for one run")
    parser.add_argument("--total", type=float, default=900, help="seconds for all of it")
    parser.add_argument("--jobs", type=int, default=4, help="cases at the same time")
    words = parser.parse_args()
    if unknown := set(words.modes.split(",")) - set(MODES):
        parser.error(f"no such mode: {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    return words


def main() -> int:
    """Build, run all cases, and return 1 where one differs."""
    words = parsed()
    trial = Trial(words.out.resolve(), words.limit, words.total)
    trial.line(f"cpus {os.cpu_count()}, python {words.python}")
    built = build(trial, words)
    trial.line(f"built in {trial.elapsed():.0f} s: {built}")
    prefixes = prefixes_of(trial, find_lanescope(words), words.modes.split(","))
    shown = "; ".join(f"{mode}: {' '.join(prefix)}" for mode, prefix in prefixes.items())
    trial.line(f"modes: {shown}")
    trial.line(f"begins after {trial.elapsed():.0f} s")
    cases = all_cases(trial, words, built)
    with ThreadPoolExecutor(words.jobs) as pool:
        outcomes = list(pool.map(lambda case: try_case(trial, case, prefixes), cases))
    remove_roots()
    write_down(trial, outcomes)
    for one in outcomes:
        if one.status == "differs":
            show_differences(one)
    trial.line(summary(trial, outcomes))
    return 1 if any(one.status == "differs" for one in outcomes) else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # a thread may still wait for a pipe that a program's child holds
