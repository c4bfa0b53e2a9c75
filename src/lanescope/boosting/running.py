"""Runs a program with its copies boosted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lanescope.boosting.tally import Tally, read_tally, sum_of
from lanescope.watching.launcher import Outcome, launch
from lanescope.watching.sources.injection import (
    gains_rights,
    has_driver,
    installed_library,
    interpreter_of,
    preload_variables,
)

LIBRARY = "liblanescope_boost.so"
#: The same, with a stub before each of the driver's functions.
BATCH_LIBRARY = "liblanescope_batch.so"
OPTIONS_VARIABLE, FOLDER_VARIABLE = "LANESCOPE_BOOST", "LANESCOPE_BOOST_FOLDER"
#: Where numbers of processes go: memory, where there is that folder.
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "lanescope-boost-"
_NEW_SECONDS = 60.0
#: Of what the library itself begins with: native/src/boost/settings.hpp.
DEFAULT_RING_BYTES, DEFAULT_FROM_BYTES = 256 << 20, 256 << 10
#: Pinned at a time.
LEAST_RING_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class BoostOptions:
    """How a program's copies are carried.

    Attributes
    ----------
    threads
        That copy for each NUMA node with a GPU; None: as many as the machine is thought to spare.
    ring_bytes
        Pinned memory of each process, at most.
    from_bytes
        Of copies that are carried, at least.
    only
        ``h2d`` or ``d2h`` alone; None: both.
    always
        Carry what can be, and do not compare with the driver.
    dry_run
        Carry nothing, and count what would be.
    batch
        Gather small copies that follow each other.
    """

    threads: int | None = None
    ring_bytes: int = DEFAULT_RING_BYTES
    from_bytes: int = DEFAULT_FROM_BYTES
    only: str | None = None
    always: bool = False
    dry_run: bool = False
    batch: bool = False

    def text(self) -> str:
        """Return them as the library reads them."""
        words = [f"ring={self.ring_bytes}", f"from={self.from_bytes}"]
        if self.threads is not None:
            words.append(f"threads={self.threads}")
        if self.only is not None:
            words.append(f"only={self.only}")
        words += ["always"] * self.always + ["dry"] * self.dry_run + ["batch"] * self.batch
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Boosted:
    """A program that has ended.

    Attributes
    ----------
    outcome
        How.
    tally
        What became of its copies, of all its processes together; None where it could not be
        boosted.
    unable
        Why it could not be, as a sentence.
    """

    outcome: Outcome
    tally: Tally | None
    unable: str | None = None


def boost_library(*, batch: bool = False) -> Path | None:
    """Return the library that carries copies, or gathers them, too; None if there is none."""
    return installed_library(BATCH_LIBRARY if batch else LIBRARY)


def run_boosted(
    program: Sequence[str], environment: Mapping[str, str], options: BoostOptions
) -> Boosted:
    """Run a program until it ends, with its copies carried where that can be.

    Parameters
    ----------
    program
        The program and its arguments.
    environment
        What it has without a boost.

    Raises
    ------
    CommandError
        If it cannot be run.
    """
    library = boost_library(batch=options.batch)
    unable = why_unable(program, environment, batch=options.batch)
    if unable is not None or library is None:
        return Boosted(launch(program, environment), None, unable)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tally_folder())
        except OSError as error:
            unable = (
                f"There is no place for the numbers of its copies ({error.strerror}), and nothing "
                "is carried; make room in /dev/shm or in TMPDIR."
            )
            return Boosted(launch(program, environment), None, unable)
        variables = boost_variables(library, environment, folder, options)
        outcome = launch(program, {**environment, **variables})
        return Boosted(outcome, read_folder(folder))


def boost_variables(
    library: Path, environment: Mapping[str, str], folder: Path, options: BoostOptions
) -> dict[str, str]:
    """Return the variables that a program is to have besides its own to be boosted."""
    return {
        # Behind what records calls: that sees the program's copies, and not what becomes of them.
        **preload_variables(library, environment, folder, behind_others=True),
        OPTIONS_VARIABLE: options.text(),
        FOLDER_VARIABLE: str(folder),
    }


@contextlib.contextmanager
def tally_folder() -> Iterator[Path]:
    """Make a folder for the numbers of processes, and remove it afterwards.

    Folders of others that were killed are removed, too: who lives has its own locked.

    Raises
    ------
    OSError
        If there can be none.
    """
    there = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    above = _SHARED_MEMORY if there else Path(tempfile.gettempdir())
    _remove_left(above)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=above))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left(above: Path) -> None:
    """Remove what was left by those of this user's that were killed."""
    for folder in above.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            is_new = time.time() - found.st_mtime < _NEW_SECONDS  # perhaps not locked yet
            if is_new or found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def read_folder(folder: Path) -> Tally:
    """Return what all processes have counted."""
    found = (read_tally(path) for path in sorted(folder.glob("boost.*")))
    return sum_of(one for one in found if one is not None)


def why_unable(
    program: Sequence[str], environment: Mapping[str, str], *, batch: bool = False
) -> str | None:
    """Return why a program cannot be boosted, as a sentence; None where it can be."""
    if boost_library(batch=batch) is None:
        library = BATCH_LIBRARY if batch else LIBRARY
        return f"{library} is missing from this installation, and nothing is carried."
    if not has_driver():
        return "There is no NVIDIA driver, and nothing is carried."
    if interpreter_of(program).startswith("ld-musl"):
        return f"{program[0]} has musl for its C library, which loads nothing of this kind."
    if gains_rights(program[0], environment):
        return (
            f"{program[0]} takes the rights of another user or group as it starts, so that Linux "
            "loads nothing into it that its caller names, and nothing is carried."
        )
    return None
