"""A reproduction: what is run, in which order, and the folder that holds all of it.

Programs and their steps, ways of watching them, repetitions; a folder for each turn, which is a
watch's where it was watched. Layout::

    manifest.json              what was asked, on which GPU, how far it came
    machine.toml               the machine, as a machine file
    PROGRAM/plain-1/           steps.json
    PROGRAM/sources-1/         a watch, and steps.json
    PROGRAM/probe-1/           a watch, and steps.json
    idle/probe-1/              a watch of the idle link
    chapters.json              what all of them tell
    report.html                the page
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from lanescope.codec.fields import FieldError, Moment, build
from lanescope.codec.files import fields_of, writing_to
from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.store.folder import MANIFEST, RunFolder, State, read_manifest, read_stored, verb_of
from lanescope.trace.run import WatchRun
from lanescope.trace.store import is_watch, read_watch
from lanescope.trace.stored_columns import in_memory
from lanescope.units.sizes import bandwidth_gbs, parse_size, size_text

#: Of each vector, as in chapter 4.4.1.
SIZES = ("25MB", "50MB", "100MB", "200MB", "400MB")
#: The programs of chapter 2.6, then those of the outlook, chapter 7.4.
NAMES = ("vector-add", "matmul", "concurrent-copies", "load-with-copies")
#: A probe of the idle link lasts so long.
IDLE_SECONDS = 1.0
_IDLE = "idle"

_PARTS = {
    "vector-add": "chapters 4 and 5",
    "matmul": "chapters 4 and 5",
    "concurrent-copies": "outlook",
    "load-with-copies": "outlook",
}
#: The verb of such runs.
REPRODUCE = "reproduce"
STEPS = "steps.json"
_MOST_REPETITIONS = 10_000
CHAPTERS = "chapters.json"


class Mode(StrEnum):
    """How a program is run."""

    PLAIN = "plain"  # nobody watches
    SOURCES = "sources"  # all counters and the trace at once
    PROBE = "probe"  # it uses the link, so that it has a run of its own


@dataclass(frozen=True, slots=True)
class Program:
    """A program of ``lanescope.examples``.

    Attributes
    ----------
    key
        Unique; the name of its folder.
    arguments
        Its name, and its options.
    part
        Where in the thesis it stands.
    """

    key: str
    title: str
    arguments: tuple[str, ...]
    part: str

    def __post_init__(self) -> None:
        if not self.arguments:
            raise ValueError(f"the program {self.key!r} has no arguments; the first is its name")


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of one program in one way; without a program the link is idle.

    Attributes
    ----------
    repetition
        From 1.
    """

    program: Program | None
    mode: Mode
    repetition: int

    @property
    def folder(self) -> str:
        """Where it is stored, below the folder of all of them."""
        key = _IDLE if self.program is None else self.program.key
        return f"{key}/{self.mode}-{self.repetition}"

    @property
    def title(self) -> str:
        """What it is, in words."""
        what = "idle link" if self.program is None else self.program.title
        how = {Mode.PLAIN: "unwatched", Mode.SOURCES: "all sources", Mode.PROBE: "probe"}[self.mode]
        return f"{what}, {how}"


def programs_for(names: Sequence[str] = NAMES, sizes: Sequence[str] = SIZES) -> tuple[Program, ...]:
    """Return the programs with these names, a vector-add for each size.

    Raises
    ------
    InputError
        If there is no such program, or a size is none.
    """
    found: list[Program] = []
    for name in dict.fromkeys(names):
        if name not in NAMES:
            raise InputError(f"there is no program {name!r} to run; use {', '.join(NAMES)}")
        if name != "vector-add":
            found.append(Program(name, name, (name,), _PARTS[name]))
            continue
        for size in dict.fromkeys(map(parse_size, sizes)):
            size_words = size_text(size)
            key = f"{name}-{size_words.replace(' ', '')}"
            arguments = (name, "--size", f"{size}")
            found.append(Program(key, f"{name}, {size_words}", arguments, _PARTS[name]))
    if not found:
        raise InputError("no program is named; leave --programs and --sizes away to run all")
    return tuple(found)


def turns(programs: Sequence[Program], repetitions: int) -> tuple[Turn, ...]:
    """Return all runs in turns: the ways of one program after each other, then the next program.

    Every other repetition the ways come in the other order, so that what drifts hits all alike.

    Raises
    ------
    InputError
        If nothing would be repeated even once.
    """
    if repetitions < 1:
        raise InputError(f"--repetitions {repetitions} is too few; give 1 or more")
    planned: list[Turn] = []
    for repetition in range(1, repetitions + 1):
        planned.append(Turn(None, Mode.PROBE, repetition))
        modes = list(Mode) if repetition % 2 else list(Mode)[::-1]
        planned += [Turn(program, mode, repetition) for program in programs for mode in modes]
    return tuple(planned)


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A part of a program, in nanoseconds since 1970.

    Attributes
    ----------
    h2d_bytes, d2h_bytes
        That it has sent to the GPU, and got from it.
    copies
        By which it did.
    """

    name: str
    begin_ns: int
    end_ns: int
    h2d_bytes: int
    d2h_bytes: int
    copies: int

    def __post_init__(self) -> None:
        if self.end_ns < self.begin_ns:
            raise ValueError(f"step {self.name!r} ends before it begins")

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.begin_ns) * 1e-9

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes to the GPU, and from it."""
        return (self.h2d_bytes, self.d2h_bytes)

    @property
    def gbs(self) -> tuple[float, float]:
        """Rate to the GPU and from it over the whole step, in GB/s; 0 where it took no time."""
        took = self.seconds
        down, up = (bandwidth_gbs(b, took) if took > 0 else 0.0 for b in self.moved)
        return down, up


def parse_steps(text: str) -> tuple[ProgramStep, ...]:
    """Return the steps that a program printed with ``--json``.

    Raises
    ------
    InputError
        If these are none.
    """
    try:
        return steps_of(json.loads(text.strip().splitlines()[-1])["steps"])
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            "the program has not told its steps; run it alone to see why: python3 -m "
            "lanescope.examples NAME --json"
        ) from error


def steps_of(values: Sequence[dict[str, Any]]) -> tuple[ProgramStep, ...]:
    """Return steps of plain values; raises `FieldError`."""
    return tuple(build(ProgramStep, one, "steps", i, others=True) for i, one in enumerate(values))


def steps_json(steps: Sequence[ProgramStep]) -> list[dict[str, Any]]:
    """Return steps as plain values."""
    return [asdict(step) for step in steps]


def work_seconds(steps: Sequence[ProgramStep]) -> float:
    """Return how long the program worked, from its first step to its last; its start is left out.

    What comes before, such as the start of Python and of CUDA, is no part of any step.
    """
    return (max(step.end_ns for step in steps) - min(step.begin_ns for step in steps)) * 1e-9


def moving(steps: Sequence[ProgramStep], least_bytes: int = 1) -> tuple[ProgramStep, ...]:
    """Return the steps that move at least so many bytes."""
    return tuple(step for step in steps if sum(step.moved) >= least_bytes)


def moved(steps: Iterable[ProgramStep]) -> tuple[int, int]:
    """Return the bytes that steps move to the GPU, and from it."""
    pairs = [step.moved for step in steps]
    return sum(down for down, _ in pairs), sum(up for _, up in pairs)


@dataclass(frozen=True, slots=True)
class ReproductionRequest:
    """What was asked for.

    Attributes
    ----------
    gpu
        The machine's number of the GPU.
    started
        ISO 8601 with the offset from UTC.
    """

    command: str
    started: Moment
    tool_version: str
    machine: Machine
    gpu: int
    repetitions: int
    programs: tuple[Program, ...]
    state: State = State.RUNNING
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn that is over.

    Attributes
    ----------
    folder
        Where it is stored.
    steps
        As the program told them; empty for the idle link, and where it failed.
    error
        Why there are no steps, as a sentence; None when all is well.
    """

    turn: Turn
    folder: Path
    steps: tuple[ProgramStep, ...] = ()
    error: str | None = None

    def watch(self) -> WatchRun | None:
        """Return what was watched; None where nobody watched.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        there = (self.folder / MANIFEST).is_file()
        if not there or not is_watch(self.folder):
            return None
        run = read_watch(self.folder)
        timeline = run.timeline  # of some seconds
        counters = tuple(in_memory(one) for one in timeline.counters)
        operations = in_memory(timeline.operations)
        whole = replace(timeline, counters=counters, operations=operations)
        return replace(run, timeline=whole)


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What was asked, and what is done of it."""

    asked: ReproductionRequest
    done: tuple[FinishedTurn, ...]
    folder: Path


class ReproductionFolder:
    """The folder of a reproduction that goes on.

    Raises
    ------
    InputError
        From any method, if it cannot be written.
    """

    def __init__(self, folder: Path, request: ReproductionRequest) -> None:
        self.folder, self.asked = folder, request
        self._opened = RunFolder.begin(folder, REPRODUCE, request)

    def update(self, request: ReproductionRequest) -> None:
        """Store how far it came."""
        self.asked = request
        self._opened.update(request)

    def place(self, turn: Turn) -> Path:
        """Return where a turn goes; nothing is there yet."""
        folder = self.folder / turn.folder
        with writing_to(folder):
            folder.parent.mkdir(exist_ok=True)
        return folder

    def finish(self, done: FinishedTurn) -> None:
        """Store what a program told of a turn."""
        with writing_to(done.folder):
            done.folder.mkdir(exist_ok=True)
        content = {"steps": steps_json(done.steps), "error": done.error}
        self._opened.write_json(f"{done.turn.folder}/{STEPS}", content)

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        self._opened.write(name, text.encode())


def is_reproduction(folder: Path) -> bool:
    """Whether a run folder holds a reproduction."""
    return verb_of(folder) == REPRODUCE


def read_reproduction(folder: Path) -> Reproduction:
    """Read a reproduction, finished or not.

    Raises
    ------
    InputError
        If it is none, of another schema version, or damaged.
    """
    request = read_manifest(ReproductionRequest, folder)
    with fields_of(folder / MANIFEST, "name another run"):
        _require_possible(request)
    return Reproduction(
        request, _done(folder, turns(request.programs, request.repetitions)), folder
    )


def _require_possible(request: ReproductionRequest) -> None:
    """Check what a manifest tells; raises `FieldError`."""
    if request.gpu not in {gpu.index for gpu in request.machine.gpus}:
        raise FieldError(f"its machine.toml has no g{request.gpu}", "gpu")
    if not 1 <= request.repetitions <= _MOST_REPETITIONS:
        raise FieldError(f"field 'repetitions' is {request.repetitions}, which cannot be", "gpu")
    keys = [program.key for program in request.programs]
    if len(set(keys)) < len(keys) or any(Path(key).name != key for key in keys):
        raise FieldError("the 'key' of a program is there twice or names no folder", "key")


@dataclass(frozen=True, slots=True)
class _StoredSteps:
    """What a program told of a turn; see `FinishedTurn`."""

    steps: tuple[ProgramStep, ...]
    error: str | None


def _done(folder: Path, planned: Sequence[Turn]) -> tuple[FinishedTurn, ...]:
    found = []
    for turn in planned:
        place = folder / turn.folder
        if (place / STEPS).is_file():
            stored = read_stored(_StoredSteps, folder, f"{turn.folder}/{STEPS}")
            found.append(FinishedTurn(turn, place, stored.steps, stored.error))
    return tuple(found)
