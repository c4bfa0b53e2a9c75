"""The folder of a run, of whatever verb: where it is kept and found, what it is, who writes it.

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
import difflib
import errno
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, Self, TypeVar

from lanescope.codec.fields import FieldError, build, decode, shown
from lanescope.codec.files import (
    PART,
    fields_of,
    read_json,
    replace_when_written,
    require_version,
    writing_to,
)
from lanescope.errors import InputError, argument, command
from lanescope.machine import Machine
from lanescope.machine.files import dumps_machine, machine_in_folder

#: Files of runs that are no table of results, and what reads them.
_READ_BY = {
    "validation.json": "model validate {}",
    "link-parameters.json": "model predict --parameters {}",
    "fit.json": "model fit {}",
    "fleet.json": "fleet report {}",
    "compress.json": "bench compress --from {}",
}
MANIFEST = "manifest.json"
#: Where MPI and Slurm tell each process which one it is.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
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


def default_runs_folder() -> Path:
    """Return where runs are kept when no folder is named.

    ``$LANESCOPE_RUNS``, else ``lanescope/runs`` under ``$XDG_DATA_HOME``, if that is absolute, as
    its specification wants, or ``~/.local/share``.
    """
    if named := os.environ.get("LANESCOPE_RUNS"):
        return Path(named)
    named = os.environ.get("XDG_DATA_HOME", "")
    data = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "share"
    return data / "lanescope" / "runs"


def new_run_folder(verb: str, runs: Path | None = None) -> Path:
    """Make an empty folder for a new run under the runs folder, which nobody else gets.

    Raises
    ------
    InputError
        If it cannot be made.
    """
    base = (runs or default_runs_folder()) / f"{datetime.now():%Y%m%d-%H%M%S}-{verb}"
    folder, count = base, 1
    with writing_to(base.parent):
        base.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                folder.mkdir()
            except FileExistsError:  # of the same second: of another process, or an earlier one
                count += 1
                folder = base.with_name(f"{base.name}-{count}")
            else:
                return folder


def new_or_temporary_folder(verb: str) -> tuple[Path, tuple[str, ...]]:
    """Return a folder for a new run, and a note where it is not among the others.

    A home that cannot be written, as on some nodes of a cluster, costs nobody the measurement.
    """
    try:
        return new_run_folder(verb), ()
    except InputError as error:
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"lanescope-{verb}-"))
        except OSError:
            raise error from None
        return folder, (f"The run is stored in {folder}: {error}.",)


def result_place(folder: Path, name: str, here: str | None = None) -> tuple[Path, str | None]:
    """Return where a file goes that is made of a stored run when nobody says, and why elsewhere.

    Parameters
    ----------
    name
        What it is called in a run folder.
    here
        What it is called in the current folder; None: the folder's name stands before it.

    Returns
    -------
    tuple
        A path in the run's folder and None where that lies under the runs folder; else a path in
        the current folder and a sentence: a folder from elsewhere stays as it is.
    """
    real, runs = folder.resolve(), default_runs_folder()
    if real.is_relative_to(runs.resolve()):
        return folder / name, None
    place = Path(here or f"{real.name}.{name}")
    return place, f"{folder} is not under {runs} and stays as it is: {name} goes to {place}"


def require_new(folder: Path, *, resumable: bool = False) -> None:
    """Refuse a folder for a new run that is not new or empty.

    Parameters
    ----------
    resumable
        Whether the verb has ``--resume``.

    Raises
    ------
    InputError
        If it is a file, holds a run, or anything else.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a new or an empty folder with {argument.out}")
    if is_there(folder / MANIFEST):
        rest = f", or go on with this one by {argument.resume}" if resumable else ""
        raise InputError(
            f"{folder} holds a run; name a new or an empty folder with {argument.out}{rest}"
            + one_for_each_process(folder)
        )
    if any(folder.iterdir()):
        raise InputError(
            f"{folder} holds files; name a new or an empty folder with {argument.out}"
            + one_for_each_process(folder)
        )


def one_for_each_process(folder: Path) -> str:
    """Return how processes of a job get folders of their own; empty where this is of none."""
    ranks = (name for name in _RANKS if name in os.environ)
    return next(
        (f", for each process its own: --out '{folder}-%q{{{name}}}'" for name in ranks), ""
    )


def find_run(name: str, made_by: str = "check") -> Path:
    """Return the folder of a run by path, by name, or ``latest``.

    Parameters
    ----------
    made_by
        The command that makes such a run, for who has none.

    Raises
    ------
    InputError
        If there is none.
    """
    if not name:
        raise InputError("the run's name is empty; name a run's folder, or 'latest'")
    runs = default_runs_folder()
    if name == "latest" and not is_there(Path(name) / MANIFEST) and (found := newest_first(runs)):
        return found[0]
    # whatever it is: it is refused where it is read
    for folder in (Path(name), runs / name):
        if is_there(folder / MANIFEST):
            return folder
    for folder in (Path(name), runs / name):
        for file, words in _READ_BY.items():
            if is_there(folder / file):
                raise InputError(f"{name!r} has no {MANIFEST}; {command(words, name)} reads it")
    if Path(name).is_dir():
        if not os.access(name, os.X_OK):
            raise InputError(f"cannot read {name}: {os.strerror(errno.EACCES)}; name another run")
        above = Path(name).resolve().parent
        remedy = f"name {above}" if is_there(above / MANIFEST) else "name a run's folder"
        raise InputError(f"{name!r} is not a run folder: it has no {MANIFEST}; {remedy}")
    if Path(name).exists():
        remedy = "name a run's folder, or an SQLite export of Nsight Systems"
        if own := _READ_BY.get(Path(name).name):
            remedy = f"{command(own, name)} reads it"
        raise InputError(f"{name!r} is a file and no run; {remedy}")
    remedy = f"{command(made_by)} makes one"
    with suppress(OSError):
        names = [folder.name for folder in runs.iterdir()]
        if alike := difflib.get_close_matches(name, names, 1):
            remedy = f"did you mean {alike[0]!r}?"
        elif names:
            remedy = "'lanescope runs' lists them"
    raise InputError(f"no run {name!r} here or under {runs}; {remedy}")


def is_there(path: Path) -> bool:
    """Return whether a path leads to anything, a symbolic link too: none is followed to say so."""
    return os.path.lexists(path)


def newest_first(runs: Path) -> list[Path]:
    """Return the folders of runs below one, by when their manifests were written."""
    times = {}
    with suppress(OSError):
        for folder in runs.iterdir():
            with suppress(OSError):  # no run, or removed meanwhile
                times[folder] = os.lstat(folder / MANIFEST).st_mtime
    return sorted(times, key=lambda folder: times[folder], reverse=True)


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


class HeldError(InputError):
    """Another process writes the folder."""


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
    HeldError
        If another process has it.
    """
    return lock_opened(os.open(folder, os.O_RDONLY), folder)


def lock_opened(descriptor: int, path: Path) -> FolderLock:
    """Return the right to write what a descriptor is of, which closes it; see `lock_folder`."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise HeldError(
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
