"""The folder of a reproduction: a folder for each turn, which is a watch's where it was watched.

Layout::

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lanescope.codec.atomic import writing_to
from lanescope.codec.fields import FieldError, Moment
from lanescope.codec.files import fields_of
from lanescope.machine import Machine
from lanescope.store.folder import MANIFEST, RunFolder, State, read_manifest, read_stored, verb_of
from lanescope.studies.pcie_thesis.plan import Program, Step, Turn, steps_json, turns
from lanescope.trace.run import WatchRun
from lanescope.trace.store import is_watch, read_watch
from lanescope.trace.stored_columns import in_memory

#: The verb of such runs.
REPRODUCE = "reproduce"
STEPS = "steps.json"
_MOST_REPETITIONS = 10_000
CHAPTERS = "chapters.json"


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
class Done:
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
    steps: tuple[Step, ...] = ()
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
    done: tuple[Done, ...]
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

    def finish(self, done: Done) -> None:
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
    """What a program told of a turn; see `Done`."""

    steps: tuple[Step, ...]
    error: str | None


def _done(folder: Path, planned: Sequence[Turn]) -> tuple[Done, ...]:
    found = []
    for turn in planned:
        place = folder / turn.folder
        if (place / STEPS).is_file():
            stored = read_stored(_StoredSteps, folder, f"{turn.folder}/{STEPS}")
            found.append(Done(turn, place, stored.steps, stored.error))
    return tuple(found)
