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

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lanescope.errors import InputError
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine, load_machine
from lanescope.run.atomic import write_atomically, writing_to
from lanescope.run.run import SCHEMA_VERSION, State
from lanescope.run.store import MACHINE, MANIFEST
from lanescope.watch.chapters.plan import Program, Turn, turns
from lanescope.watch.chapters.steps import Step, steps_json, steps_of
from lanescope.watch.run import WatchRun
from lanescope.watch.store import is_watch, read_watch
from lanescope.watch.stored import in_memory

#: The verb of such runs.
REPRODUCE = "reproduce"
THESIS = "pcie-thesis"
STEPS = "steps.json"
CHAPTERS = "chapters.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for.

    Attributes
    ----------
    gpu
        The machine's number of the GPU.
    started
        ISO 8601 with the offset from UTC.
    """

    command: str
    started: str
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

    asked: Asked
    done: tuple[Done, ...]
    folder: Path


class ReproductionFolder:
    """The folder of a reproduction that goes on.

    Raises
    ------
    InputError
        From any method, if it cannot be written.
    """

    def __init__(self, folder: Path, asked: Asked) -> None:
        with writing_to(folder):
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise InputError(f"{folder} is not empty; name an empty folder with --out")
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / MACHINE, dumps_machine(asked.machine).encode())
        self.folder = folder
        self.asked = asked
        self.update(asked)

    def update(self, asked: Asked) -> None:
        """Store how far it came."""
        self.asked = asked
        content: dict[str, Any] = {"verb": REPRODUCE, "what": THESIS}
        content |= {"schema_version": SCHEMA_VERSION, **asdict(replace(asked, programs=()))}
        content["programs"] = [asdict(program) for program in asked.programs]
        del content["machine"]  # has a file of its own
        self.write(MANIFEST, json.dumps(content, indent=2))

    def place(self, turn: Turn) -> Path:
        """Return where a turn goes; nothing is there yet."""
        folder = self.folder / turn.folder
        with writing_to(folder):
            folder.parent.mkdir(exist_ok=True)
        return folder

    def finish(self, done: Done) -> None:
        """Store what a program told of a turn."""
        told = {"steps": steps_json(done.steps), "error": done.error}
        with writing_to(done.folder):
            done.folder.mkdir(exist_ok=True)
            write_atomically(done.folder / STEPS, json.dumps(told, indent=1).encode())

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        with writing_to(self.folder):
            write_atomically(self.folder / name, text.encode())


def is_reproduction(folder: Path) -> bool:
    """Whether a run folder holds a reproduction."""
    try:
        return bool(json.loads((folder / MANIFEST).read_text()).get("verb") == REPRODUCE)
    except (OSError, ValueError, AttributeError):
        return False


def read_reproduction(folder: Path) -> Reproduction:
    """Read a reproduction, finished or not.

    Raises
    ------
    InputError
        If it is none, of another schema version, or damaged.
    """
    try:
        content = json.loads((folder / MANIFEST).read_text())
        if content["schema_version"] > SCHEMA_VERSION:
            raise InputError(
                f"{folder} has run schema {content['schema_version']}, this is {SCHEMA_VERSION}; "
                f"read it with lanescope {content.get('tool_version', 'of then')}"
            )
        keys = set(Asked.__slots__) - {"machine", "programs", "state", "notes"}
        programs = tuple(
            Program(**{**one, "arguments": tuple(one["arguments"])}) for one in content["programs"]
        )
        asked = Asked(
            **{key: content[key] for key in keys},
            machine=load_machine(folder / MACHINE),
            programs=programs,
            state=State(content["state"]),
            notes=tuple(content["notes"]),
        )
        done = _done(folder, turns(programs, asked.repetitions))
    except OSError as error:
        raise InputError(f"{folder} is not a readable run folder: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder} is damaged or cut short: {error}; name another run") from error
    return Reproduction(asked, done, folder)


def _done(folder: Path, planned: Sequence[Turn]) -> tuple[Done, ...]:
    found = []
    for turn in planned:
        place = folder / turn.folder
        if (place / STEPS).is_file():
            told = json.loads((place / STEPS).read_text())
            found.append(Done(turn, place, steps_of(told["steps"]), told["error"]))
    return tuple(found)
