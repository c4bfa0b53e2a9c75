"""Runs programs with their copies boosted: another one, once or in turns, or this one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lanescope.boosting.tally import Tally, read_tally, sum_of
from lanescope.calls import checked
from lanescope.errors import InputError, MissingPartError, argument
from lanescope.units.sizes import Size, size_of
from lanescope.watching.launcher import Captured, ProgramExit, Stopped, launch, program_environment
from lanescope.watching.sources.injection import (
    PRELOAD_VARIABLE,
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
_ONLY = ("h2d", "d2h")
_MOST_THREADS = 64


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

    outcome: ProgramExit
    tally: Tally | None
    unable: str | None = None


def boost_library(*, batch: bool = False) -> Path | None:
    """Return the library that carries copies, or gathers them, too; None if there is none."""
    return installed_library(_library_name(batch))


def _library_name(batch: bool) -> str:
    return BATCH_LIBRARY if batch else LIBRARY


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
        return f"{_library_name(batch)} is missing from this installation, and nothing is carried."
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


@dataclass(frozen=True, slots=True)
class BoostTurns:
    """How long a program took.

    Attributes
    ----------
    plain, boosted
        Seconds, a number for each turn.
    """

    plain: tuple[float, ...] = ()
    boosted: tuple[float, ...] = ()

    def text(self) -> str:
        """Return a sentence; empty where there was no turn."""
        if not self.plain:
            return ""
        count = "1 turn" if len(self.plain) == 1 else f"{len(self.plain)} turns"
        gain = statistics.median(self.plain) - statistics.median(self.boosted)
        ended = f"{abs(gain):.3g} s {'earlier' if gain >= 0 else 'later'}"
        return (
            f"In {count} with and without, the program ended {ended} boosted: "
            f"{_spread(self.boosted)} in place of {_spread(self.plain)}; medians, least to most."
        )


def take_turns(
    program: Sequence[str], environment: Mapping[str, str], options: BoostOptions, count: int
) -> BoostTurns:
    """Run a program so often with and without a boost, in turns.

    What it prints is dropped, and it has no input.

    Parameters
    ----------
    environment
        What it has without a boost.

    Returns
    -------
    Turns
        Those that were done, where somebody asked for the end.

    Raises
    ------
    InputError
        If it ends with an error, or there is no place for temporary files.
    """
    done = BoostTurns()
    stopped = Stopped()
    with stopped.listening():
        for number in range(count):
            seconds: dict[bool, float] = {}
            for boosts in (False, True) if number % 2 == 0 else (True, False):
                lasted = _seconds(program, environment, options if boosts else None, stopped)
                if lasted is None:
                    return done
                seconds[boosts] = lasted
            done = BoostTurns((*done.plain, seconds[False]), (*done.boosted, seconds[True]))
    return done


def _seconds(
    program: Sequence[str],
    environment: Mapping[str, str],
    options: BoostOptions | None,
    stopped: Stopped,
) -> float | None:
    """Run the program once; None where somebody asked for the end."""
    if stopped.signal is not None:
        return None
    run = Captured(tuple(program), stopped)
    library = None if options is None else boost_library(batch=options.batch)
    if options is None or library is None:
        run.wait(environment)
    else:
        try:
            with tally_folder() as folder:
                run.wait({**environment, **boost_variables(library, environment, folder, options)})
        except OSError as error:
            raise InputError(
                f"{argument.turns} has no place for temporary files: {error.strerror}; name one by "
                "TMPDIR"
            ) from error
    if stopped.signal is not None:
        return None
    if run.exit_code or run.seconds is None:
        raise InputError(
            f"{program[0]} ended with {run.exit_code} when it was run again for {argument.turns}: "
            "what a boost gains can be measured only where it can run again and again"
        )
    return run.seconds


def _spread(seconds: Sequence[float]) -> str:
    middle = statistics.median(seconds)
    return f"{middle:.3g} s ({min(seconds):.3g} to {max(seconds):.3g})"


@checked
def environment(
    *,
    threads: int | None = None,
    ring: Size = DEFAULT_RING_BYTES,
    from_size: Size = DEFAULT_FROM_BYTES,
    only: str | None = None,
    always: bool = False,
    batch: bool = False,
) -> dict[str, str]:
    """Return this process's environment with what boosts programs that are started in it.

    >>> subprocess.run(command, env=lanescope.boosting.environment())  # doctest: +SKIP

    Nothing is said at a program's end, as `lanescope boost` does.

    Parameters
    ----------
    threads, ring, from_size, only, always, batch
        As the options of ``lanescope boost`` with these names (`from_size`: ``--from``).

    Raises
    ------
    InputError
        If an argument is out of range, or the library cannot be named to the loader; a
        `MissingPartError` if it is not installed.
    """
    ring_bytes, from_bytes = size_of(ring), size_of(from_size)
    if threads is not None and not 1 <= threads <= _MOST_THREADS:
        raise InputError(f"threads={threads} cannot be; give 1 to {_MOST_THREADS}, or None")
    if ring_bytes < LEAST_RING_BYTES:
        raise InputError(f"ring={ring_bytes} is too small; give 8 MiB or more")
    if only is not None and only not in _ONLY:
        raise InputError(f"only={only!r} is not known; give 'h2d' or 'd2h', or None for both")
    library = boost_library(batch=batch)
    if library is None:
        name = _library_name(batch)
        raise MissingPartError(f"{name} is missing from this installation; reinstall lanescope")
    if re.search(r"[\s:]", str(library)):
        raise InputError(
            f"{library} has a blank or a colon in its path, which LD_PRELOAD cannot hold; install "
            "lanescope elsewhere, or use 'lanescope boost'"
        )
    options = BoostOptions(threads, ring_bytes, from_bytes, only, always, batch=batch)
    around = program_environment()
    preloaded = preload_variables(library, around, library.parent, behind_others=True)
    return {**around, **preloaded, OPTIONS_VARIABLE: options.text()}


@checked
def is_boosted() -> bool:
    """Whether this process was started to be boosted."""
    preloaded = os.environ.get(PRELOAD_VARIABLE, "")
    return OPTIONS_VARIABLE in os.environ and (LIBRARY in preloaded or BATCH_LIBRARY in preloaded)


@checked
def boost() -> Any:
    """Return a context in which PyTorch's large copies of pageable memory go by several threads.

    >>> with lanescope.boost() as boosted:  # doctest: +SKIP
    ...     model.to("cuda")
    >>> print(boosted)  # doctest: +SKIP

    Of this thread, to and from GPUs, whatever makes them: ``to``, ``cuda``, ``cpu``, ``copy_``,
    ``torch.load``, ``torch.save``, those of modules; of memory of the host that is not pinned, of
    which new pages are had by several threads, too. A copy returns when it is over, as PyTorch's
    own of such memory, also with ``non_blocking``. Each operation within takes PyTorch some
    microseconds more, so that it is for what loads and stores, and not for a whole training. To
    boost copies of other threads and of other libraries, start the program by ``lanescope boost``.

    Returns
    -------
    BoostedCopies
        Whose `copies` and `bytes` are what was handed to the boost.

    Raises
    ------
    MissingPartError
        If there is no PyTorch, or a part of this installation is missing.
    """
    try:
        from lanescope.boosting.torch_copies import BoostedCopies
    except ImportError:
        raise MissingPartError("PyTorch is missing; pip install torch") from None
    return BoostedCopies()
