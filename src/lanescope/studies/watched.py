"""A watch from Python, ``lanescope.watch()``, and of programs whose copies are carried, too."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from lanescope.boosting.running import BoostOptions, run_boosted
from lanescope.boosting.tally import as_dict, lines_of
from lanescope.calls import checked
from lanescope.codec.fields import shown
from lanescope.document.blocks import Block
from lanescope.document.contents import Finding
from lanescope.errors import InputError, argument
from lanescope.findings.trace import Evaluation, evaluate_watch
from lanescope.kinds import StrPath, Word
from lanescope.store.store import PAGE
from lanescope.studies import Option
from lanescope.studies.analysis import AnalysisResult
from lanescope.studies.watch_report import summary_json, watch_page_html, watch_terminal
from lanescope.trace.run import BoostOutcome, WatchRun, store_boost
from lanescope.units.sizes import Size, size_of
from lanescope.units.values import Seconds as Bounds
from lanescope.units.words import Seconds
from lanescope.watching.launcher import ProgramExit, Waited, waited_for
from lanescope.watching.requests import SourceRequest, request_watch
from lanescope.watching.session import watch as run_watch

#: With the bounds of the options on the command line.
Interval = Annotated[
    Seconds, Option(Bounds("--interval", 1_000, 1_000_000_000, "from 1us to 1s"), "")
]
_LEAST_SPOOL = 1 << 20
#: As `lanescope boost` has them without options.
BOOST_OPTIONS = BoostOptions()


@dataclass(frozen=True, slots=True, repr=False)
class Watched(AnalysisResult):
    """What a watch saw, and what follows from it."""

    run: WatchRun
    evaluation: Evaluation

    def __repr__(self) -> str:
        """Two lines: what was watched, and what it comes to."""
        manifest = self.run.manifest
        program = shlex.join(manifest.program) or "whole machine"
        found = len(self.findings)
        return (
            f"<watch of {program} on {manifest.machine.name}: {self.evaluation.summary.seconds:.3g}"
            f" s, {found} finding{'s' * (found != 1)}>\n<stored in {self.run.folder}>"
        )

    @property
    def exit_code(self) -> int:
        """That of the program; 0 where none was run."""
        return self.run.manifest.exit_code or 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or could be better, the largest gain first."""
        return tuple(self.evaluation.findings)

    def blocks(self) -> list[Block]:
        """Return the summary as a terminal shows it."""
        return watch_terminal(self.run, self.evaluation)

    def as_dict(self) -> dict[str, Any]:
        """Return the summary and the findings, as ``lanescope watch --json`` writes them."""
        return summary_json(
            self.evaluation.summary, self.evaluation.findings, self.run.manifest.state
        )

    @checked
    def report(self, path: StrPath | None = None, *, static: bool = False) -> Path:
        """Write the page and return where it is.

        Parameters
        ----------
        path
            None: into the run's folder.
        static
            A small page without scripts.

        Raises
        ------
        InputError
            If it cannot be written.
        """
        from lanescope.codec.files import write_text

        assert self.run.folder is not None, "a watch is always stored"
        page = self.run.folder / PAGE if path is None else Path(path)
        html = watch_page_html(self.run, self.evaluation, static=static)
        write_text(page, html, inner=int(path is None))
        return page


def watch(
    program: str | Sequence[Word] | None = None,
    *,
    everything: bool = False,
    pid: int | None = None,
    seconds: Seconds | None = None,
    sources: str | Sequence[str] | None = None,
    interval_seconds: Interval = 100e-6,
    trace: bool = False,
    kernels: bool = False,
    managed: bool = False,
    addresses: bool = False,
    hashes: bool = False,
    python_bytes: Size | None = None,
    out: StrPath | None = None,
    boost: bool = False,
    max_spool_bytes: Size | None = None,
) -> Watched:
    """Watch what a program, a process or the whole machine moves between the host and GPUs.

    Parameters
    ----------
    program
        What to run, unchanged: a command line, or its words.
    everything
        Watch the whole machine instead, until Ctrl-C.
    pid
        Watch while this process runs, which is not traced.
    seconds
        End after so long; with `everything` or `pid`.
    sources
        Names: pm, counters, throughput, calls, trace, probe; None: the best counters that work
        here, and calls, or trace where something is to be traced.
    interval_seconds
        From sample to sample of pm, from 1 us to 1 s.
    trace
        Trace on the GPU, too, when each copy ran, by CUPTI; else copies are recorded as they are
        called for.
    kernels, managed
        Trace kernels, and migrations and faults of managed memory, too.
    addresses, hashes
        Note where copies begin and end, and find data that is sent again unchanged.
    python_bytes
        Record which line of Python called for each copy of so many bytes or more; None: of none.
    out
        Run folder; None makes one under the runs folder.
    boost
        Carry the program's large copies of pageable memory, too, as ``lanescope boost`` does; what
        was carried is in ``as_dict()["boost"]`` and the report.
    max_spool_bytes
        That sources may write while it is watched, 1 MiB or more; None: a quarter of what is free.

    Returns
    -------
    Watched
        Its exit code is the program's.

    Raises
    ------
    InputError
        If an argument cannot be used, the program cannot be run, or the folder cannot be written.
    """
    spool = None if max_spool_bytes is None else size_of(max_spool_bytes)
    if spool is not None and spool < _LEAST_SPOOL:
        raise InputError(f"watch: max_spool_bytes cannot be {spool}; give 1 MiB or more")
    words = _words(program) if isinstance(program, str) else program or ()
    waited = waited_for(
        [os.fspath(word) for word in words], everything=everything, pid=pid, seconds=seconds
    )
    boosted = BoostedLaunch(waited) if boost else None
    names = (sources,) if isinstance(sources, str) else sources
    request = SourceRequest(
        None if names is None else tuple(dict.fromkeys(names)),
        round(interval_seconds * 1e9),
        trace=trace,
        kernels=kernels,
        managed=managed,
        addresses=addresses,
        hashes=hashes,
        python_bytes=None if python_bytes is None else size_of(python_bytes),
        traceable=waited.traceable,
        program=waited.program,
    )
    what = request_watch(
        request,
        boosted or waited,
        "lanescope.watch()",
        None if out is None else Path(out),
        max_spool_bytes=spool,
    )
    run = run_watch(what)
    if boosted is not None:
        run = boosted.add_to(run)
    return Watched(run, evaluate_watch(run))


def _words(program: str) -> list[str]:
    """Return the words of a program, as a shell takes them apart."""
    try:
        os.fsencode(program)
        if "\0" in program:
            raise ValueError("no program's name or argument has a NUL")
        return shlex.split(program)
    except ValueError as error:  # an open quotation, nothing behind a backslash, half a character
        raise InputError(
            f"watch: program {shown(program)} cannot be taken apart: {error}; give its words in a "
            'list, such as ["python", "train.py"]'
        ) from None


class BoostedLaunch:
    """A program that is run as a watch has it run, boosted besides.

    The boost stands behind what records calls: that sees the program's copies, each once, with the
    time that it took boosted.

    Parameters
    ----------
    launched
        How it would be run without.

    Raises
    ------
    InputError
        If nothing is run.
    """

    def __init__(self, launched: Waited) -> None:
        if not launched.traceable:
            raise InputError(f"{argument.boost} is for a program that is run; name one")
        self.program = launched.program
        self.traceable = launched.traceable
        self.notes = launched.notes
        self._boost: BoostOutcome | None = None

    def wait(self, environment: Mapping[str, str]) -> ProgramExit:
        """Run it until it ends, and note what became of its copies."""
        done = run_boosted(self.program, environment, BOOST_OPTIONS)
        if done.tally is None:
            self._boost = BoostOutcome((done.unable or "Nothing was carried.",))
        else:
            least = BOOST_OPTIONS.from_bytes
            lines = lines_of(done.tally, from_bytes=least, dry_run=False)
            numbers = as_dict(done.tally, from_bytes=least, dry_run=False)
            self._boost = BoostOutcome(tuple(lines), numbers)
        return done.outcome

    def add_to(self, run: WatchRun) -> WatchRun:
        """Store what became of its copies with a watch of it, and return the watch with that.

        Raises
        ------
        InputError
            If it cannot be stored.
        """
        if self._boost is None:
            return run
        if run.folder is not None:
            store_boost(run.folder, self._boost)
        return dataclasses.replace(run, boost=self._boost)
