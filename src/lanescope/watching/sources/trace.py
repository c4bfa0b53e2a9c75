"""The copies of a program, each with its bytes, by a library that the CUDA driver loads into it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lanescope._core import native
from lanescope.errors import InputError, NotMeasuredError
from lanescope.machine import Machine
from lanescope.trace.watch_folder import CALL_SPOOLS
from lanescope.watching.sources import Availability, SourceReport
from lanescope.watching.sources.injection import (
    CUPTI_REMEDY,
    CUPTI_VARIABLE,
    INJECTION_LIBRARY,
    INJECTION_VARIABLE,
    NVTX_VARIABLE,
    find_cupti,
    has_driver,
    injection_library,
    other_nvtx,
    rights_report,
)

#: What can be traced: what GPUs do, the calls that ask for copies (with their threads), the
#: NVTX ranges around them, the addresses that copies are passed, and hashes of what is there.
KINDS = ("copy", "memset", "kernel", "migration", "call", "range", "address", "hash", "content")
#: What is traced unless told otherwise: kernels can be many, migrations cost faults. Ranges cost
#: nothing in a program that has none.
DEFAULT_KINDS = ("copy", "memset", "call", "range")

#: Programs that are killed lose at most what came since the last flush.
DEFAULT_FLUSH_MS = 100

#: More kinds of notes than these are only counted.
_MOST_NOTES = 5


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
        if other and Path(other).name != INJECTION_LIBRARY:
            return Availability(
                False,
                f"Another profiler is to be loaded: {INJECTION_VARIABLE} is {other}.",
                f"Unset {INJECTION_VARIABLE}, or run that profiler another time.",
            )
        if injection_library() is None:
            return Availability(
                False,
                f"{INJECTION_LIBRARY} is missing from this installation.",
                "Install lanescope again.",
            )
        if not has_driver():
            return Availability(
                False, "There is no NVIDIA driver.", "Install NVIDIA's driver for the GPUs."
            )
        if find_cupti(self._around) is None:
            return Availability(False, self._why_no_cupti(), CUPTI_REMEDY)
        return Availability(True)

    def environment(self) -> dict[str, str]:
        """Return the variables that the program is to have beside its own."""
        library, cupti = injection_library(), find_cupti(self._around)
        if library is None or cupti is None:
            return {}
        ranges = {} if other_nvtx(self._around) else {NVTX_VARIABLE: str(library)}
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
        spools = [p for p in sorted(self._folder.glob("trace.*.bin")) if not p.match(CALL_SPOOLS)]
        if not spools and (refused := rights_report(self._program, self._around)):
            return refused
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
        if "range" in self._kinds and (other := other_nvtx(self._around)):
            return SourceReport(
                f"NVTX ranges were left to another tool: {NVTX_VARIABLE} is {other}.",
                f"Unset {NVTX_VARIABLE} to see them here.",
            )
        return SourceReport()

    def _why_no_cupti(self) -> str:
        named = self._around.get(CUPTI_VARIABLE)
        if named:
            return f"{CUPTI_VARIABLE} names {named}, which is no file."
        return "NVIDIA's profiling library libcupti is not installed."


def _reasons_once(spools: Sequence[Path]) -> str:
    """Return each note of some spools once, with how many processes it concerns."""
    from lanescope.trace.trace_spool import read_notes

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
