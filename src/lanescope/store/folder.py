"""The folder of a run, of whatever verb: what it is, who writes it, and how its files get there.

Layout::

    manifest.json   verb, command, start, state, versions, and what the verb adds
    machine.toml    the machine, as a machine file
    …               what was measured, as the verb stores it

One process writes a folder at a time. Every file is written beside its place and moved there when
whole, so that a run that is killed leaves whole files only, and reads back. Nothing below the
folder may be a symbolic link, for writing as for reading: it may come from somebody else.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, Self, TypeVar

from lanescope.codec.atomic import PART, replace_when_written, writing_to
from lanescope.codec.fields import FieldError, build, decode, shown
from lanescope.codec.files import fields_of, read_json, require_version
from lanescope.errors import InputError, argument
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine, machine_in_folder
from lanescope.store.folders import MANIFEST as MANIFEST
from lanescope.store.folders import one_for_each_process, require_new

T = TypeVar("T")

MACHINE = "machine.toml"
#: Version of the layout of a run folder. History:
#: 1 (lanescope 0.1): manifest.json, results/*.parquet, samples/*.parquet.
#: 2 (lanescope 0.2): executor, SMs, pieces, mean, deviation and links of each result.
#: 3 (lanescope 0.3): access, route and clock of each result; the parameters of a suite.
#: 4: which copies took turns on an engine, and so have no rate of their own.
#: 5: what each experiment is for, and whether copies were staged.
SCHEMA_VERSION = 5
_REMEDY = "name another run"
#: Fields of every manifest that not every dataclass of one has.
_ALL = ("verb", "what", "schema_version", "described")


class State(StrEnum):
    """How far a run came."""

    RUNNING = "running"  # also what a killed run leaves behind
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


def state_sentence(state: State) -> str | None:
    """Return what to know about a run that did not finish, or None."""
    if state is State.COMPLETE:
        return None
    how = (
        "it was interrupted"
        if state is State.INTERRUPTED
        else "it was still running when this was written, or it was killed"
    )
    return f"This run did not finish: {how}. What follows is what it had until then."


class Head(Protocol):
    """A dataclass of what a run's manifest says, with the machine, which has its own file."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def machine(self) -> Machine:
        """On which it was measured."""


class RunFolder:
    """A run's folder that this process writes, until it is closed or the process ends.

    Raises
    ------
    InputError
        From any method, if the folder cannot be written.
    """

    def __init__(self, path: Path, verb: str) -> None:
        self.path, self.verb = path, verb
        with writing_to(path):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = lock_folder(path)

    @classmethod
    def begin(cls, path: Path, verb: str, head: Head, *, resumable: bool = False) -> Self:
        """Make a folder for a new run, and write what it is.

        Parameters
        ----------
        head
            See `update`.
        resumable
            Whether the verb has ``--resume``.

        Raises
        ------
        InputError
            Also if there is a run or anything else in it, but for what a run leaves that was
            killed at its very start.
        """
        with writing_to(path):
            if not _is_bare(path):
                require_new(path, resumable=resumable)
        folder = cls(path, verb)
        folder.write(MACHINE, dumps_machine(head.machine).encode())
        folder.update(head)
        return folder

    def update(self, head: Head) -> None:
        """Store what is known of the run by now: the manifest with all fields of a dataclass."""
        fields = {f.name: getattr(head, f.name) for f in dataclasses.fields(head)}
        machine = fields.pop("machine")  # has a file of its own
        content = {"schema_version": SCHEMA_VERSION, "verb": self.verb, **fields}
        self.write_json(MANIFEST, {**content, "described": machine.described}, indent=2)

    def write(self, name: str, content: bytes | Callable[[BinaryIO], object]) -> None:
        """Write a file whole or not at all: what it holds, or a function that fills it.

        Parameters
        ----------
        name
            Its path below the folder; folders on the way are there already.
        """
        fill = (lambda file: file.write(content)) if isinstance(content, bytes) else content
        with writing_to(self.path):
            replace_when_written(self.path / name, fill, inner=len(Path(name).parts))

    def write_json(self, name: str, value: Any, indent: int = 1) -> None:
        """Write a dataclass, or plain values, as JSON; see `write`."""
        text = json.dumps(value, indent=indent, ensure_ascii=False, default=dataclasses.asdict)
        self.write(name, f"{text}\n".encode())

    def discard(self) -> None:
        """Remove the folder: there is nothing to store."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Let others write to the folder."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def verb_of(folder: Path) -> str:
    """Return which verb wrote a run folder.

    Raises
    ------
    InputError
        If it is no run folder, of another schema version, or damaged.
    """
    return str(_content(folder)["verb"])


def read_manifest(kind: type[T], folder: Path) -> T:
    """Return what a run folder says about itself.

    Parameters
    ----------
    kind
        A dataclass with the machine, which has a file of its own, and the manifest's fields.

    Raises
    ------
    InputError
        As `verb_of`; with the file and the field.
    """
    content = _content(folder)
    machine = machine_in_folder(folder / MACHINE)
    with fields_of(folder / MANIFEST, _REMEDY):
        described = decode(bool, content.get("described", False), "described")
        known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        held = {key: value for key, value in content.items() if key in known or key not in _ALL}
        held["machine"] = dataclasses.replace(machine, described=described)
        return build(kind, held)


def read_stored(kind: type[T], folder: Path, name: str) -> T:
    """Return a dataclass that `RunFolder.write_json` wrote.

    Raises
    ------
    InputError
        If the file is not there, cannot be read, or a field is wrong.
    """
    path = folder / name
    with fields_of(path, _REMEDY):
        return build(kind, read_json(path, inner=len(Path(name).parts)))


class FolderLock:
    """Held until released, or until the process ends, however it does."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def held(self) -> bool:
        """Whether others are held off: not where a file system has no locks."""
        return self._descriptor is not None

    def release(self) -> None:
        """Let others write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.release()


def lock_folder(folder: Path) -> FolderLock:
    """Return the right to write a folder.

    Raises
    ------
    InputError
        If another process holds it.
    """
    return lock_opened(os.open(folder, os.O_RDONLY), folder)


def lock_opened(descriptor: int, path: Path) -> FolderLock:
    """Return the right to write what a descriptor is of, which closes it; see `lock_folder`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(
            f"another lanescope writes to {path}; wait for its end, or name another with "
            f"{argument.out}" + one_for_each_process(path)
        ) from None
    except OSError:  # some network file systems have no locks
        os.close(descriptor)
        return FolderLock(None)
    return FolderLock(descriptor)


def _content(folder: Path) -> Mapping[str, Any]:
    path = folder / MANIFEST
    content = read_json(path, inner=1)
    with fields_of(path, _REMEDY):
        if not isinstance(content, dict):
            raise FieldError(f"it holds {shown(content)}, not a table", "")
        for field in ("schema_version", "verb"):
            if field not in content:
                raise FieldError(f"field {field!r} is missing", field)
        writer = content.get("tool_version")
        require_version(content["schema_version"], SCHEMA_VERSION, path, writer=writer)
        decode(str, content["verb"], "verb")
    return content


def _is_bare(folder: Path) -> bool:
    """Whether a folder is empty, but for what a run leaves that was killed at its very start."""
    if not folder.is_dir():
        return False
    inside = list(folder.iterdir())
    if any(path.is_symlink() for path in inside):
        return False
    return all(
        not any(path.iterdir())
        if path.is_dir()
        else path.name == MACHINE or path.match(f".*{PART}")
        for path in inside
    )
