"""The copies of a program, each with its bytes, by a library that the CUDA driver loads into it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from lanescope._core import native
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.trace.trace_spool import read_notes
from lanescope.watching.cupti import CUPTI_REMEDY, CUPTI_VARIABLE, find_cupti
from lanescope.watching.sources.base import Availability, SourceReport

#: The CUDA driver loads the library that this variable names, in cuInit.
INJECTION_VARIABLE = "CUDA_INJECTION64_PATH"

#: NVTX, which programs have by its headers alone, loads the library that this one names.
NVTX_VARIABLE = "NVTX_INJECTION64_PATH"

#: What can be traced: what GPUs do, the calls that ask for copies (with their threads), the
#: NVTX ranges around them, the addresses that copies are passed, and hashes of what is there.
KINDS = ("copy", "memset", "kernel", "migration", "call", "range", "address", "hash")
#: What is traced unless told otherwise: kernels can be many, migrations cost faults. Ranges cost
#: nothing in a program that has none.
DEFAULT_KINDS = ("copy", "memset", "call", "range")

#: Programs that are killed lose at most what came since the last flush.
DEFAULT_FLUSH_MS = 100

#: More kinds of notes than these are only counted.
_MOST_NOTES = 5
_LIBRARY = "liblanescope_inject.so"
# The kernel driver's, and Windows's in WSL.
_DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))


class TraceSource:
    """Traces the program and every process that it starts, each into a file of its own.

    Parameters
    ----------
    folder
        Where the spools go; it exists.
    kinds
        Some of `KINDS`.
    flush_ms
        How often the records are written, milliseconds; 0: when a buffer is full.
    environment
        Of lanescope; None: this process's.
    program
        What is traced, with its arguments.

    Raises
    ------
    ValueError
        If a kind is unknown.
    """

    name = "trace"

    def __init__(
        self,
        folder: Path,
        kinds: tuple[str, ...] = DEFAULT_KINDS,
        flush_ms: int = DEFAULT_FLUSH_MS,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
    ) -> None:
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"{unknown[0]!r} cannot be traced; choose from {', '.join(KINDS)}")
        self._folder = folder
        self._kinds = kinds
        self._flush_ms = flush_ms
        self._around = dict(os.environ if environment is None else environment)
        self._program = program

    def available(self, machine: Machine | None = None, *, thorough: bool = False) -> Availability:
        """Say whether a program can be traced; whether it uses CUDA shows when it runs."""
        other = self._around.get(INJECTION_VARIABLE)
        if other and Path(other).name != _LIBRARY:
            return Availability(
                False,
                f"Another profiler is to be loaded: {INJECTION_VARIABLE} is {other}.",
                f"Unset {INJECTION_VARIABLE}, or run that profiler another time.",
            )
        if injection_library() is None:
            return Availability(
                False, f"{_LIBRARY} is missing from this installation.", "Install lanescope again."
            )
        if not any(driver.exists() for driver in _DRIVERS):
            return Availability(
                False, "There is no NVIDIA driver.", "Install NVIDIA's driver for the GPUs."
            )
        if find_cupti(self._around) is None:
            remedy = f"{CUPTI_REMEDY[:1].upper()}{CUPTI_REMEDY[1:]}."
            return Availability(False, self._why_no_cupti(), remedy)
        return Availability(True)

    def environment(self) -> dict[str, str]:
        """Return the variables that the program is to have beside its own."""
        library, cupti = injection_library(), find_cupti(self._around)
        if library is None or cupti is None:
            return {}
        ranges = {} if self._other_nvtx() else {NVTX_VARIABLE: str(library)}
        return {
            **(ranges if "range" in self._kinds else {}),
            INJECTION_VARIABLE: str(library),
            CUPTI_VARIABLE: str(cupti),
            "LANESCOPE_TRACE_FOLDER": str(self._folder.absolute()),
            "LANESCOPE_TRACE_KINDS": ",".join(self._kinds),
            "LANESCOPE_TRACE_FLUSH_MS": str(self._flush_ms),
            "LANESCOPE_TRACE_CLOCK": str(native.watch_clock_ahead_ns()),
        }

    def prepare(self) -> None:
        """Do nothing: the start takes no time."""

    def start(self) -> None:
        """Make sure that a program can be traced; tracing begins in it.

        Raises
        ------
        NotMeasuredError
            If it cannot.
        """
        there = self.available()
        if not there.ok:
            raise NotMeasuredError(there.reason or "", there.remedy)

    def stop(self) -> SourceReport:
        """Say what was traced; the program has ended."""
        spools = sorted(self._folder.glob("trace.*.bin"))
        if not spools and self._program and gains_rights(self._program[0], self._around):
            name = self._program[0]
            return SourceReport(
                f"{name} takes the rights of another user or group as it starts (set-user-ID, "
                "set-group-ID or file capabilities), so that Linux and CUDA load nothing into it "
                "that its caller names, and nothing was traced.",
                "Run lanescope as the user that the program is to run as: 'sudo -u USER lanescope "
                "watch -- PROGRAM'.",
            )
        if not spools:
            return SourceReport(
                "No process of the program told of its copies: none has used CUDA, or the "
                "variables of its environment did not reach the one that did.",
                "Pass on the environment, which sudo, env -i and containers take away; a program "
                "that takes other rights as it starts cannot be traced, and one of another user "
                "only where that user may write the run's folder.",
            )
        if reason := _reasons_once(spools):
            return SourceReport(reason)
        if "range" in self._kinds and (other := self._other_nvtx()):
            return SourceReport(
                f"NVTX ranges were left to another tool: {NVTX_VARIABLE} is {other}.",
                f"Unset {NVTX_VARIABLE} to see them here.",
            )
        return SourceReport()

    def _other_nvtx(self) -> str | None:
        """Return the library, not ours, that NVTX is to load; None if there is none."""
        named = self._around.get(NVTX_VARIABLE)
        return named if named and Path(named).name != _LIBRARY else None

    def _why_no_cupti(self) -> str:
        named = self._around.get(CUPTI_VARIABLE)
        if named:
            return f"{CUPTI_VARIABLE} names {named}, which is no file."
        return "NVIDIA's profiling library libcupti is not installed."


def _reasons_once(spools: Sequence[Path]) -> str:
    """Return each note of some spools once, with how many processes it concerns."""
    concerned: dict[str, set[str]] = {}
    for spool in spools:
        try:
            notes = read_notes(spool)
        except InputError as error:
            notes = (str(error),)
        for note in notes:
            concerned.setdefault(note, set()).add(spool.name.split(".")[1])
    everybody = len({spool.name.split(".")[1] for spool in spools})
    reasons = [
        note if everybody == 1 else f"{note} ({len(those)} of {everybody} processes.)"
        for note, those in sorted(concerned.items(), key=lambda item: -len(item[1]))
    ]
    more = len(reasons) - _MOST_NOTES
    return " ".join(reasons[:_MOST_NOTES]) + (f" And {more} more notes." if more > 0 else "")


def gains_rights(name: str, environment: Mapping[str, str]) -> bool:
    """Return whether a program starts with rights that its caller lacks: AT_SECURE of ld.so(8)."""
    try:
        path = shutil.which(name, path=environment.get("PATH")) or name
        found = os.stat(path)
        if "security.capability" in os.listxattr(path):
            return os.geteuid() != 0
    except OSError:
        return False
    user = found.st_mode & stat.S_ISUID and found.st_uid != os.getuid()
    group = found.st_mode & stat.S_ISGID and found.st_gid != os.getgid()
    return bool(user or group)


def injection_library() -> Path | None:
    """Return the library that traces, which lies beside the native core; None if there is none."""
    core = importlib.util.find_spec("lanescope._native")
    if core is None or core.origin is None:
        return None
    path = Path(core.origin).with_name(_LIBRARY)
    return path if path.is_file() else None
