"""The copies of a program as it calls for them, by a library that is loaded before its others.

The library wraps the driver's calls that copy, and records each in a ring in memory that lanescope
reads. CUPTI has no part in it: nothing else in the program gets slower, any profiler works in it,
and a program that is killed loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lanescope._core import native
from lanescope.errors import NotMeasuredError, argument
from lanescope.machine import Machine
from lanescope.trace.watch_folder import (
    RING_PREFIX,
    RINGS,
    SHARED_MEMORY,
    claim,
    remove_rings,
    rings_in,
)
from lanescope.watching.sources import Availability, SourceReport
from lanescope.watching.sources.injection import (
    NVTX_VARIABLE,
    has_driver,
    injection_library,
    installed_library,
    interpreter_of,
    other_nvtx,
    preload_variables,
    rights_report,
    words,
)

if TYPE_CHECKING:
    from lanescope.trace.call_ring import CallRing
    from lanescope.trace.call_spool import Caveats, RingSpool

FOLDER_VARIABLE = "LANESCOPE_CALLS_FOLDER"
PYTHON_VARIABLE = "LANESCOPE_CALLS_PYTHON"
EACH_VARIABLE = "LANESCOPE_CALLS_EACH"
_LIBRARY = "liblanescope_calls.so"
#: From look to look at the rings, which hold 50 ms of 650,000 copies a second.
_LOOK_SECONDS = 0.05
#: Rings are in shared memory where that has so much room.
_LEAST_FREE_BYTES = 32 << 20
#: A process makes no ring where less is free; as in native/src/calls/ring.cpp.
_RING_LEAST_FREE_BYTES = 24 << 20
_ROOM_REMEDY = "Make room there (--shm-size sets a container's /dev/shm), and watch again."


class CallsSource:
    """Records the copies of the program and of every process that it starts.

    Parameters
    ----------
    folder
        Where the spools go; it exists.
    environment
        Of lanescope; None: this process's.
    program
        What is watched, with its arguments.
    python_bytes
        Copies of so many bytes and more have their line of Python recorded; None: none have.
    is_fallback
        Whether they count only where a trace is missing: then nothing is wrong where there are
        none.
    """

    name = "calls"

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
        *,
        python_bytes: int | None = None,
        is_fallback: bool = False,
    ) -> None:
        self._python_bytes = python_bytes
        self._folder, self._is_fallback = folder, is_fallback
        self._around = dict(os.environ if environment is None else environment)
        self._program = program
        self._rings: Path | None = None
        self._reader: RingReader | None = None

    def available(self, machine: Machine | None = None, *, thorough: bool = False) -> Availability:
        """Say whether copies can be recorded; whether a program makes any shows when it runs."""
        if calls_library() is None:
            return Availability(
                False, f"{_LIBRARY} is missing from this installation.", "Install lanescope again."
            )
        if not has_driver():
            return Availability(
                False, "There is no NVIDIA driver.", "Install NVIDIA's driver for the GPUs."
            )
        return Availability(True)

    def prepare(self) -> None:
        """Do nothing: the start takes no time."""

    def start(self) -> None:
        """Begin to read what the program records.

        Raises
        ------
        NotMeasuredError
            If there is no library to load, or no room for rings.
        """
        there = self.available()
        if not there.ok:
            raise NotMeasuredError(there.reason or "", there.remedy)
        if interpreter_of(self._program).startswith("ld-musl"):
            raise NotMeasuredError(
                f"{self._program[0]} has musl for its C library, which cannot load what records "
                "calls.",
                None if self._is_fallback else f"Watch with {argument.trace} if it uses CUDA.",
            )
        try:
            self._rings = _new_folder(self._folder)
        except OSError as error:
            raise NotMeasuredError(
                f"There is no place for rings of calls: {error.strerror}.",
                "Make room in /dev/shm or in TMPDIR.",
            ) from error
        self._reader = RingReader(self._rings, self._folder)
        self._reader.start()

    def environment(self) -> dict[str, str]:
        """Return the variables that the program is to have beside its own."""
        library = calls_library()
        if library is None or self._rings is None:
            return {}
        outer = words(self._around.get(FOLDER_VARIABLE, ""), ":")  # of a watch around this one
        variables = {
            **preload_variables(library, self._around, self._rings),
            FOLDER_VARIABLE: ":".join((str(self._rings), *outer)),
            "LANESCOPE_TRACE_CLOCK": str(native.watch_clock_ahead_ns()),
        }
        if self._is_fallback:  # which of them the trace has shows by their times
            variables[EACH_VARIABLE] = "1"
        if self._python_bytes is not None:
            # a watch around this one has the same records: it may want those of smaller copies
            outer_bytes = self._around.get(PYTHON_VARIABLE, "")
            of_outer = [int(outer_bytes)] if outer_bytes.isdecimal() else []
            variables[PYTHON_VARIABLE] = str(min([self._python_bytes, *of_outer]))
        ranges = injection_library()
        if ranges is None or other_nvtx(self._around):
            return variables
        return variables | {
            NVTX_VARIABLE: str(ranges),
            "LANESCOPE_TRACE_FOLDER": str(self._folder.absolute()),
            "LANESCOPE_TRACE_KINDS": "range",
        }

    def stop(self) -> SourceReport:
        """Read what is left, and say what was recorded."""
        if self._reader is None or self._rings is None:
            return SourceReport()
        self._reader.stop()
        remove_rings(self._folder)
        if not self._reader.processes and not self._is_fallback and not self._reader.was_full:
            return rights_report(self._program, self._around) or SourceReport(
                "No process of the program copied by calls of CUDA's driver that could be "
                "recorded: none has used CUDA, its environment did not reach the one that did, or "
                "that one is linked without a dynamic loader.",
                "Pass on the environment, LD_PRELOAD too, which sudo, env -i and containers take "
                "away; or watch with --trace always.",
                cpu_seconds=self._reader.cpu_seconds,
            )
        why = " ".join(self._reader.sentences()) or None
        remedy = _ROOM_REMEDY if self._reader.was_full else None
        if why is None and self._python_bytes is not None and not self._reader.wanted_lines:
            from lanescope.units.sizes import size_text

            why = f"No copy was of {size_text(self._python_bytes)} or more, as --python wants."
            remedy = "Give a smaller --python-from."
        return SourceReport(why, remedy, cpu_seconds=self._reader.cpu_seconds)


class RingReader:
    """Appends what lies in rings to spools, in a thread of its own, until it is stopped.

    Rings of processes that have ended are removed: they take memory.

    Attributes
    ----------
    processes
        How many copied.
    wanted_lines
        Whether any copy was so large that its line of Python was to be recorded.
    was_full
        Whether there was no room for a further ring at some time.
    failure
        What went wrong with the first ring that cannot be read; None if all can.

    Parameters
    ----------
    rings
        The folder in which processes make their rings.
    spools
        The folder of the spools: ``trace.PID.calls.bin`` for each process.
    """

    def __init__(self, rings: Path, spools: Path) -> None:
        self._rings, self._spools = rings, spools
        self._idle: dict[Path, CallRing] = {}
        self._open: dict[Path, RingSpool] = {}
        self._refused: set[Path] = set()
        self.processes = 0
        self.wanted_lines = self.was_full = False
        self.failure: str | None = None
        self._caveats: list[Caveats] = []
        self._room = native.SpoolRoom(str(spools))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lanescope-calls", daemon=True)
        self.cpu_seconds: float | None = None

    def start(self) -> None:
        """Begin; signals stay those of the thread that calls."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """Read all that is left."""
        self._ended.set()
        self._thread.join()

    def sentences(self) -> Iterator[str]:
        """Yield what went wrong, and what was not recorded, or not each by itself."""
        if self.failure is not None:
            yield self.failure
        if self.was_full:
            yield (
                f"At times less than {_RING_LEAST_FREE_BYTES >> 20} MiB were free in "
                f"{self._rings.parent}: copies of processes that began to use CUDA then are not "
                "recorded."
            )
        if self._caveats:
            yield from sum(self._caveats[1:], self._caveats[0]).sentences()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._read()
        self._read(last=True)
        self.cpu_seconds = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)

    def _read(self, *, last: bool = False) -> None:
        with contextlib.suppress(OSError):
            self.was_full |= shutil.disk_usage(self._rings).free < _RING_LEAST_FREE_BYTES
        for path in rings_in(self._rings):
            if not any(path in known for known in (self._open, self._refused, self._idle)):
                self._attempt(path, self._find)
        for path in list(self._idle):
            self._attempt(path, self._add)
        for path in list(self._open):
            self._attempt(path, self._close if last else self._follow)

    def _attempt(self, path: Path, step: Callable[[Path], None]) -> None:
        """Do something with a ring; one that cannot be read is nobody else's loss."""
        try:
            step(path)
        except Exception as error:  # a program can write anything into its own ring
            self._open.pop(path, None)
            self._idle.pop(path, None)
            self._refused.add(path)
            self.failure = self.failure or f"Copies of a process cannot be read: {error}."

    def _find(self, path: Path) -> None:
        # only now: what it loads takes longer than many programs
        from lanescope.trace.call_ring import CallRing, RingNotReadyError

        with contextlib.suppress(RingNotReadyError):
            self._idle[path] = CallRing(path)

    def _add(self, path: Path) -> None:
        """Begin a spool for a ring that holds something."""
        from lanescope.trace.call_spool import RingSpool, spool_of

        ring = self._idle[path]
        ended = ring.is_orphaned  # before: it may copy until then
        if ring.is_used:
            self._open[path] = RingSpool(ring, spool_of(ring, self._spools), self._room)
            self.processes += 1
            del self._idle[path]
        elif ended:
            del self._idle[path]
            path.unlink(missing_ok=True)

    def _follow(self, path: Path) -> None:
        spool = self._open[path]
        if not spool.is_orphaned:
            spool.read()
            return
        self._close(path)
        path.unlink(missing_ok=True)

    def _close(self, path: Path) -> None:
        spool = self._open.pop(path)
        spool.read(last=True)
        self.wanted_lines |= spool.wanted_lines
        self._caveats.append(spool.caveats)


def _new_folder(spools: Path) -> Path:
    """Return a new folder for rings, in shared memory where that has room, else among the spools.

    A link among the spools shows where it is, should lanescope be killed.
    """
    link = spools / RINGS
    try:
        if shutil.disk_usage(SHARED_MEMORY).free >= _LEAST_FREE_BYTES:
            folder = Path(tempfile.mkdtemp(prefix=RING_PREFIX, dir=SHARED_MEMORY))
            claim(folder, spools)
            link.symlink_to(folder)
            return folder
    except OSError:  # no such folder, or not ours to write
        pass
    link.mkdir()
    claim(link, spools)
    return link.absolute()


def calls_library() -> Path | None:
    """Return the library that records calls; None if there is none."""
    return installed_library(_LIBRARY)
